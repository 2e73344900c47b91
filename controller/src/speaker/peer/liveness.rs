//! BFD beside the session: begins when the peer is first reached, outlives its sessions, and ends one
//! when the path fails. RFC 5882 §4.3. Knows no packet; `weft_bfd` does.

use std::net::IpAddr;
use std::num::NonZeroU8;

use weft_bfd::{Config, Watch};
use weft_bgp::message::notification::Cease;
use weft_bgp::session::Input;

use super::{Peer, Side};
use crate::config::Ttl;

/// What watches the path to a peer.
#[derive(Default)]
pub(super) struct Liveness(Option<(Config, Watch)>);

impl Liveness {
    /// Waits for the path to fail; for ever pending if nobody watches it.
    pub(super) async fn failed(&mut self) -> String {
        match &mut self.0 {
            Some((_, watch)) => watch.failed().await.to_string(),
            None => std::future::pending().await,
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
        let watch = self.liveness.0.as_ref();
        self.report
            .watched(watch.map(|(_, watch)| watch.subscribe()));
    }

    async fn rewatch_path(&mut self, side: Side) {
        let local = self.connections[side as usize]
            .as_ref()
            .and_then(|connection| connection.socket.local_addr().ok())
            .map(|local| local.ip().to_canonical());
        let Some(wanted) = local.and_then(|local| self.path(local)) else {
            self.liveness = Liveness::default();
            return;
        };
        if let Some((held, watch)) = &mut self.liveness.0
            && pair(held) == pair(&wanted)
        {
            // Another session would tell the other end that this one was shut down, and FRR 8.4.4 takes
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
            Ok(watch) => self.liveness = Liveness(Some((wanted, watch))),
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
        self.grievance = Some(format!("BFD down: {diagnostic}"));
        self.input(Input::Stop(Cease::BfdDown)).await;
        self.input(Input::Start).await;
    }
}
