//! What a changed configuration means for a session that runs. It refuses to know who changed it, and
//! it never ends a session: that is for the one who asks, with a Cease of his choice.

use super::negotiation;
use super::state::State;
use super::{Session, SessionConfig};

/// What a change of the configuration does, the mildest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing is different.
    None,
    /// All of it holds now, and the session did not notice.
    Applied,
    /// The session goes on; these fields hold from the next one on.
    NextSession(Vec<&'static str>),
    /// These fields were settled by the OPEN: the session goes on as it was until someone stops and
    /// starts it.
    MustReset(Vec<&'static str>),
}

/// When the change of one field holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    AtOnce,
    FromTheNextSession,
    AfterAReset,
}

impl Session {
    /// What [`Session::reconfigure`] would answer.
    #[must_use]
    pub fn effect(&self, config: &SessionConfig) -> Effect {
        let changes = changes(&self.local.config, config, &self.state);
        let named = |wanted: Holds| {
            let fields = changes.iter().filter(|(holds, _)| *holds == wanted);
            fields.map(|(_, field)| *field).collect::<Vec<_>>()
        };
        // Without an OPEN of ours on its way there is nothing to be ended.
        let opened = match self.state {
            State::Idle(_) | State::Connect(_) | State::Active(_) => false,
            State::OpenSent(_) | State::OpenConfirm(_) | State::Established(_) => true,
        };
        let (resets, later) = (named(Holds::AfterAReset), named(Holds::FromTheNextSession));
        if changes.is_empty() {
            Effect::None
        } else if opened && !resets.is_empty() {
            Effect::MustReset(resets)
        } else if opened && !later.is_empty() {
            Effect::NextSession(later)
        } else {
            Effect::Applied
        }
    }

    /// Takes another configuration, and says what that means for the session. It is kept whatever the
    /// answer: the next OPEN is of it.
    ///
    /// # Panics
    ///
    /// If the configuration breaks the bounds that [`SessionConfig`] states.
    pub fn reconfigure(&mut self, config: SessionConfig) -> Effect {
        config.assert_bounds();
        let effect = self.effect(&config);
        if let State::Established(established) = &mut self.state {
            let hold = established.negotiated.hold;
            established.negotiated.send_hold = negotiation::send_hold(config.send_hold, hold);
        }
        self.local.config = config;
        effect
    }

    /// Whether the next OPENs say that we have restarted. RFC 4724 §3: only until the peers could see
    /// it once, since a peer that hears it does not wait for our End-of-RIB. Without the graceful
    /// restart capability it does nothing.
    pub fn set_restarted(&mut self, restarted: bool) {
        if let Some(restart) = &mut self.local.config.graceful_restart {
            restart.restarted = restarted;
        }
    }
}

/// The fields that differ, and when their change holds. Destructured, so that a new field does not
/// compile until someone decides.
fn changes(
    before: &SessionConfig,
    after: &SessionConfig,
    state: &State,
) -> Vec<(Holds, &'static str)> {
    use Holds::{AfterAReset, AtOnce, FromTheNextSession};
    let SessionConfig {
        local_asn,
        router_id,
        remote_asn,
        hold,
        connect_retry,
        send_hold,
        families,
        passive,
        route_refresh,
        enhanced_route_refresh,
        add_path,
        extended_message,
        delay_jitter_seed,
        fqdn,
        software_version,
        graceful_restart,
        long_lived,
    } = before;
    let opened = [
        (*local_asn != after.local_asn, "local_asn"),
        (*router_id != after.router_id, "router_id"),
        (*hold != after.hold, "hold"),
        (*families != after.families, "families"),
        (*route_refresh != after.route_refresh, "route_refresh"),
        (
            *enhanced_route_refresh != after.enhanced_route_refresh,
            "enhanced_route_refresh",
        ),
        (*add_path != after.add_path, "add_path"),
        (
            *extended_message != after.extended_message,
            "extended_message",
        ),
        (
            *graceful_restart != after.graceful_restart,
            "graceful_restart",
        ),
        (*long_lived != after.long_lived, "long_lived"),
    ];
    // Names for people; no session is worth ending for them.
    let named = [
        (*fqdn != after.fqdn, "fqdn"),
        (
            *software_version != after.software_version,
            "software_version",
        ),
    ];
    let ours = [
        (*connect_retry != after.connect_retry, "connect_retry"),
        (*send_hold != after.send_hold, "send_hold"),
        (*passive != after.passive, "passive"),
        (
            *delay_jitter_seed != after.delay_jitter_seed,
            "delay_jitter_seed",
        ),
    ];
    let remote = [(*remote_asn != after.remote_asn, "remote_asn")];
    [
        (AfterAReset, &opened[..]),
        (FromTheNextSession, &named),
        (AtOnce, &ours),
        (remote_asn_holds(after, state), &remote),
    ]
    .iter()
    .flat_map(|(holds, fields)| fields.iter().map(|field| (*holds, *field)))
    .filter(|(_, (changed, _))| *changed)
    .map(|(holds, (_, field))| (holds, field))
    .collect()
}

/// A peer that is up and may be so stays.
fn remote_asn_holds(after: &SessionConfig, state: &State) -> Holds {
    let peer = state.established().map(|negotiated| negotiated.peer);
    match peer {
        Some(peer) if after.remote_asn.accepts(peer.asn) => Holds::AtOnce,
        Some(_) | None => Holds::AfterAReset,
    }
}

#[cfg(test)]
mod tests;
