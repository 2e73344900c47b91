//! Two devices with one router id and AS, or one with sessions from two addresses: RFC 6286 §2.1 has a router id unique
//! within its AS, and the facts know a peer by both. The session that was first is served, at whichever replica; any
//! other is refused, by name, for as long as the first one lives or its paths are kept for its return, up to its restart
//! time. A device that restarts at another address has to wait for that too, and no longer. Where one of both addresses is a
//! `peer_address` of the declared fabric, the identity is that device's, whoever was first.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weft_bgp::message::notification::Cease;
use weft_bgp::peer::PeerId;
use weft_bgp::session::Input;

use super::pause::Pause;
use super::{Peer, now};
use crate::reflector::owner::{self, Agreed, Home, Parting};
use crate::speaker::Shared;

impl Peer {
    /// Address at which another replica serves a peer of this identity: then the session that has just been established is
    /// over for the facts.
    pub(super) fn take_rival(&mut self) -> Option<IpAddr> {
        let ownership = self.ownership.as_mut()?;
        ownership.go_on(now());
        let rival = ownership.stake.rival()?;
        ownership.end(Parting::Gone, false, now());
        Some(rival)
    }

    /// Ends a session that was established while the other one was, at another replica.
    pub(super) async fn refuse_rival(&mut self) {
        let rival = self.ownership.as_ref().and_then(|it| it.stake.rival());
        let peer = self.up.as_ref().map(|up| up.negotiated.peer);
        if let Some((peer, rival)) = peer.zip(rival) {
            self.say_rival(peer, rival);
            self.input(Input::Stop(Cease::Rejected)).await;
        }
    }

    /// Ends the session that is just being established.
    pub(super) fn collide(&mut self, peer: PeerId, rival: IpAddr) {
        self.say_rival(peer, rival);
        self.session
            .handle(Input::Stop(Cease::Rejected), now().into_std());
    }

    fn say_rival(&mut self, peer: PeerId, rival: IpAddr) {
        let address = self.setup.address;
        tracing::error!(peer = %address, %rival, id = %peer, "the router id and AS belong to a peer at another address, which is served or expected back; this one is refused");
        let reason = format!("{rival} is {peer} already");
        self.grievance = Some(reason.clone());
        self.report.rival(rival);
        let gone = rival_gone(Arc::clone(&self.shared), peer, address);
        self.pause = Some(Pause::new(now() + REFUSED_FOR, reason).unless(gone));
    }
}

/// Resolves when no session of `peer` from another address than this one is left, at any replica, and none is expected.
async fn rival_gone(shared: Arc<Shared>, peer: PeerId, address: IpAddr) {
    let mut identities = shared.identities.subscribe();
    let mut agreed = shared.reflection.follow(peer).await;
    let is_declared = |address| shared.reflection.is_declared(address);
    loop {
        let holder = identities
            .borrow_and_update()
            .holder(peer, address, is_declared);
        let elsewhere = agreed.as_mut().and_then(|agreed| {
            let agreed = agreed.borrow_and_update();
            let home = Home::of(address, &agreed, is_declared);
            owner::rival(shared.replica, address, &agreed, home)
        });
        if elsewhere.is_none() && holder.is_none() {
            return;
        }
        tokio::select! {
            Ok(()) = identities.changed() => {}
            () = news(&mut agreed) => {}
        }
    }
}

/// Resolves when something else is agreed; never, once the daemon stops.
async fn news(agreed: &mut Option<watch::Receiver<Agreed>>) {
    let changed = match agreed {
        Some(agreed) => agreed.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending().await
    }
}

/// How long a peer that has another's identity has to wait, if the other one does not go before.
const REFUSED_FOR: Duration = Duration::from_secs(30);
