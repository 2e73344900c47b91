//! A peer whose configuration changed: what of it the session takes as it goes, and what ends it. Knows
//! which hooks a change reaches, not what they do.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use weft_bgp::message::notification::Cease;
use weft_bgp::session::{Effect, Input, Side};

use super::{Peer, Setup, session_config};
use crate::config::settings::{self, Reach};
use crate::config::{Bgp, diff};
use crate::speaker::keys::{self, Secret};
use crate::speaker::remembered;

impl Setup {
    /// How to reach whoever may speak from an address; `None`: nobody may.
    pub fn resolve(bgp: &Bgp, address: IpAddr) -> Option<Self> {
        let resolved = bgp.resolve(address)?;
        let group = resolved.settings.clone();
        Some(Self {
            address,
            port: group.port,
            passive: group.passive || resolved.dynamic,
            group,
            dynamic: resolved.dynamic,
        })
    }
}

impl Peer {
    /// Looks up what holds for this peer now, and changes into it.
    pub(super) async fn reconfigured(&mut self) {
        let config = self.config.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.held, Arc::clone(&config));
        let Some(setup) = Setup::resolve(&config.bgp, self.setup.address) else {
            return self.leave().await;
        };
        let registered = before.bgp.vteps != config.bgp.vteps && !setup.group.guard.is_off();
        let mut changed = self.reconfigure(setup).await;
        if registered {
            changed.insert(Reach::Inbound);
        }
        self.call(&changed).await;
    }

    /// The peer is not configured any more: says so, and ends when nothing of it is left.
    async fn leave(&mut self) {
        if !self.leaving {
            tracing::info!(peer = %self.setup.address, "peer deconfigured");
            self.leaving = true;
            self.pause = None;
            self.input(Input::Stop(Cease::Deconfigured)).await;
        }
    }

    /// Changes into another setup. The session goes on unless what was settled by its OPEN changes.
    /// Returns who else has to be told.
    async fn reconfigure(&mut self, setup: Setup) -> BTreeSet<Reach> {
        let begins = self.leaving || self.setup.group.shutdown.is_some();
        self.leaving = false;
        let before = std::mem::replace(&mut self.setup, setup);
        let group = &self.setup.group;
        self.report.regroup(group.name.clone(), self.setup.dynamic);
        if !remembered::is_to_be_dialed(&self.setup) {
            self.dialed_until = None;
        }
        let (old, new) = (settings::of_group(&before.group), settings::of_group(group));
        let changed: BTreeSet<_> = diff::between(&old, &new)
            .into_iter()
            .map(|(_, new)| new.reach)
            .collect();
        let effect = self.offer();
        if let Some(message) = self.setup.group.shutdown.clone() {
            if before.group.shutdown.is_none() {
                self.pause = None;
                // As its routes go, ours are to go there.
                let shutdown = Input::StopSaying(Cease::HardReset, message);
                self.input(shutdown).await;
            }
            return BTreeSet::new();
        }
        // An idle session that may dial now has to begin to; one that may not has to cease.
        let turned = self.up.is_none() && before.passive != self.setup.passive;
        // What stands in paths for our AS stands in all that was told and heard.
        let renamed = before.group.local_as != self.setup.group.local_as;
        let settled = matches!(effect, Effect::MustReset(_)) || renamed;
        // Other limits may hold a session that these have ended.
        let limited = self.pause.is_some() && before.group.limits != self.setup.group.limits;
        if begins || limited {
            self.begin_again().await;
        } else if settled || self.is_misplaced(&before) || self.is_resigned(&before) || turned {
            self.reset(&effect).await;
        }
        changed
    }

    /// Hands the session what it offers from now on.
    pub(super) fn offer(&mut self) -> Effect {
        let mut config = {
            let company = self.companions.offered();
            session_config(&self.shared, &self.setup, self.dialed_until, company)
        };
        // Whether we have restarted is no matter of the configuration.
        let restart = self.session.config().graceful_restart.as_ref();
        let restarted = restart.is_some_and(|restart| restart.restarted);
        if let Some(restart) = &mut config.graceful_restart {
            restart.restarted = restarted;
        }
        self.session.reconfigure(config)
    }

    /// The connection that we dialed comes from an address that we do not speak from any more.
    fn is_misplaced(&self, before: &Setup) -> bool {
        let dialed = self.connections[Side::Outgoing as usize].is_some() || self.dialing.is_some();
        dialed && before.group.source_address != self.setup.group.source_address
    }

    /// No connection begins or ceases to be signed with TCP-AO.
    fn is_resigned(&self, before: &Setup) -> bool {
        before.group.tcp_ao.is_empty() != self.setup.group.tcp_ao.is_empty()
    }

    async fn reset(&mut self, effect: &Effect) {
        if self.up.is_some() {
            tracing::info!(peer = %self.setup.address, ?effect, "session reset by a changed configuration");
        }
        self.begin_anew().await;
    }

    async fn begin_anew(&mut self) {
        self.pause = None;
        self.input(Input::Stop(Cease::ConfigurationChange)).await;
        self.input(Input::Start).await;
    }

    async fn call(&mut self, changed: &BTreeSet<Reach>) {
        // The file may hold another key under the same name.
        let group = &self.setup.group;
        let has_keys = group.password_file.is_some() || !group.tcp_ao.is_empty();
        if (changed.contains(&Reach::Key) || has_keys) && !self.rekey().await {
            self.begin_anew().await;
        }
        if changed.contains(&Reach::Watch) {
            self.rewatch().await;
        }
        if changed.contains(&Reach::Kind) {
            self.rekind();
        }
        let among = |reaches: &[Reach]| reaches.iter().any(|reach| changed.contains(reach));
        if among(&[Reach::Kind, Reach::Interest, Reach::Inbound]) {
            self.reinbound();
        }
        // What the peer wants is known from what is learned: this comes last.
        if among(&[Reach::Kind, Reach::Interest, Reach::Export]) {
            self.reexport();
        }
    }

    /// What the peer is told changes: its export key or its interest is built again from
    /// `self.setup.group`, and the members turn to it without a new session.
    fn reexport(&mut self) {
        self.retell();
    }

    /// What is learned from the peer changes: limits, guard and the like are built again from
    /// `self.setup.group`. What is held already stays.
    fn reinbound(&mut self) {
        self.repolicy();
    }

    /// How reflection treats the peer changes: its stake in the facts says so.
    fn rekind(&mut self) {
        let Some(up) = &self.up else { return };
        let local_asn = self.shared.local.asn;
        let kind = self.setup.group.kind(up.negotiated.peer.asn, local_asn);
        if let Some(ownership) = &mut self.ownership {
            ownership.stake.rekind(kind);
        }
    }

    /// The keys change, or may have changed in their files: live connections get them. False: a connection
    /// that must be signed with TCP-AO cannot be with these.
    async fn rekey(&mut self) -> bool {
        let secret = match keys::read(&self.setup.group).await {
            Ok(secret) => secret,
            Err(error) => {
                tracing::error!(peer = %self.setup.address, %error, "the keys stay as they were");
                return true;
            }
        };
        let mut can = true;
        for connection in self.connections.iter().flatten() {
            if let Err(error) = keys::sign(connection.socket.as_ref(), secret.as_ref()) {
                tracing::error!(peer = %self.setup.address, %error, "a connection does not take the keys");
                can &= !matches!(secret, Some(Secret::TcpAo(_)));
            }
        }
        self.show_signature();
        can
    }

    /// BFD is to watch the peer from now on, not any more, or otherwise than it did.
    async fn rewatch(&mut self) {
        if let Some(side) = self.up.as_ref().map(|up| up.side) {
            self.watch_path(side).await;
        }
    }
}
