//! BFD beside the session: begins when the peer is first reached, outlives its sessions, and ends one
//! when the path fails. RFC 5882 §4.3. Knows no packet; `weft_bfd` does.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::time::Duration;

use weft_bfd::{Config, Watch};
use weft_bgp::message::notification::Cease;
use weft_bgp::session::Input;

use super::pause::Pause;
use super::{Peer, Side, now};
use crate::config::Ttl;

/// What watches the path to a peer.
#[derive(Default)]
pub(super) struct Liveness {
    watched: Option<(Config, Watch)>,
    /// Nobody wants to know any more, and the other end is not told before the session is over.
    is_muted: bool,
}

impl Liveness {
    /// Waits for the path to fail; for ever pending if nobody watches it.
    pub(super) async fn failed(&mut self) -> String {
        match &mut self.watched {
            Some((_, watch)) if !self.is_muted => watch.failed().await.to_string(),
            Some(_) | None => std::future::pending().await,
        }
    }

    /// The session is over: what watched the path for nobody ends with it.
    pub(super) fn session_ended(&mut self) {
        if self.is_muted {
            *self = Self::default();
        }
    }
}

/// What cannot change while a session lasts.
fn pair(config: &Config) -> (IpAddr, IpAddr, bool, u8) {
    (config.local, config.remote, config.multihop, config.min_ttl)
}

impl Peer {
    /// Watches the path between our end of the session and the peer, if the configuration asks for it.
    pub(super) async fn watch_path(&mut self, side: Side) {
        self.rewatch_path(side).await;
        let Liveness { watched, is_muted } = &self.liveness;
        let watched = watched.as_ref().filter(|_| !is_muted);
        self.report
            .watched(watched.map(|(_, watch)| watch.subscribe()));
    }

    async fn rewatch_path(&mut self, side: Side) {
        let local = self.connections[side as usize]
            .as_ref()
            .and_then(|connection| connection.socket.local_addr().ok())
            .map(|local| local.ip().to_canonical());
        let Some(wanted) = local.and_then(|local| self.path(local)) else {
            // FRR to 10.6 would end the session.
            match self.up.is_some() {
                true => self.liveness.is_muted = true,
                false => self.liveness = Liveness::default(),
            }
            return;
        };
        self.liveness.is_muted = false;
        if let Some((held, watch)) = &mut self.liveness.watched
            && pair(held) == pair(&wanted)
        {
            // Another session would tell the other end that this one was shut down, and FRR to 10.6 takes
            // that for a failure.
            if let Err(error) = watch.change(wanted.interval, wanted.multiplier).await {
                tracing::error!(peer = %self.setup.address, %error, "BFD keeps its timers");
            }
            *held = wanted;
            // What failed before this session began is over.
            watch.forgive();
            return;
        }
        // The old one ends first: there is one session for a pair of addresses.
        self.liveness = Liveness::default();
        let watched = match self.shared.bfd() {
            Ok(service) => service
                .watch(wanted)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        match watched {
            Ok(watch) => self.liveness.watched = Some((wanted, watch)),
            Err(error) => {
                tracing::error!(peer = %self.setup.address, %error, "the path is not watched by BFD");
            }
        }
    }

    fn path(&self, local: IpAddr) -> Option<Config> {
        let group = &self.setup.group;
        let bfd = group.bfd?;
        Some(Config {
            local,
            remote: self.setup.address,
            multihop: bfd
                .multihop(group.ttl)
                .unwrap_or_else(|| self.is_apart(local)),
            interval: bfd.interval,
            multiplier: NonZeroU8::new(bfd.multiplier)?,
            min_ttl: match group.ttl {
                Ttl::Gtsm(_) => group.ttl.accepted_min(),
                Ttl::Multihop(_) => 1,
            },
        })
    }

    /// The peer is not on the link of our end of the session.
    fn is_apart(&self, local: IpAddr) -> bool {
        let shared = weft_bfd::link::is_shared(local, self.setup.address);
        !shared.unwrap_or_else(|error| {
            tracing::error!(peer = %self.setup.address, %error, "BFD: taken to be several hops away");
            false
        })
    }

    /// The path failed: the session ends without waiting for its hold timer.
    pub(super) async fn path_failed(&mut self, diagnostic: String) {
        if self.up.is_none() || self.stopping.is_some() {
            return;
        }
        tracing::warn!(peer = %self.setup.address, %diagnostic, "BFD says that the peer is down");
        let reason = format!("BFD down: {diagnostic}");
        self.grievance = Some(reason.clone());
        self.pause = Some(Pause::new(now() + HEARS_WHY, reason).short());
        self.input(Input::Stop(Cease::BfdDown)).await;
    }
}

/// How long a peer whose path failed is not dialed, so that it hears why. FRR 10.7 takes a connection that comes before
/// it has read the NOTIFICATION for a graceful restart, keeps the routes, and reads it no more.
const HEARS_WHY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use weft_bgp::message::Notification;

    use super::super::tests::Bench;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_whose_path_failed_hears_of_it_before_it_has_another_session() {
        let mut bench = Bench::new().await;
        let remote = bench.session().await.unwrap();
        let failed_at = now();
        bench.peer.path_failed("silence".to_owned()).await;
        assert!(bench.peer.dialing.is_none(), "it is not dialed yet");
        let last = bench.until(remote.hear_out()).await;
        assert_eq!(last, Some(Notification::cease(Cease::BfdDown)));
        let back = bench.session().await;
        assert!(back.is_some(), "it waits, and is not refused");
        assert!(now() >= failed_at + HEARS_WHY);
    }

    /// RFC 5882 §3.2: AdminDown is no failure, and FRR to 10.6 takes it for one.
    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_not_wanted_any_more_lasts_as_long_as_the_session() {
        let mut bench = Bench::new().await;
        let remote = bench.session().await.unwrap();
        let service = weft_bfd::Service::new(1).unwrap();
        let address = |host| IpAddr::from([127, 85, 0, host]);
        let config = Config {
            local: address(1),
            remote: address(2),
            multihop: false,
            interval: Duration::from_secs(1),
            multiplier: NonZeroU8::MIN,
            min_ttl: 255,
        };
        let watch = service.watch(config).await.unwrap();
        let status = watch.subscribe();
        bench.peer.liveness.watched = Some((config, watch));
        // The group says nothing of BFD.
        bench.peer.watch_path(Side::Incoming).await;
        assert!(bench.peer.liveness.watched.is_some());
        assert!(bench.peer.report.facts().bfd.is_none());
        assert!(status.has_changed().is_ok(), "the other end is not told");
        drop(remote);
        bench.pass(Duration::from_secs(1)).await;
        assert!(bench.peer.liveness.watched.is_none());
    }
}
