//! Two devices with one router id and AS, or one with sessions from two addresses: RFC 6286 §2.1 has a router id unique
//! within its AS, and the facts know a peer by both. The session that was first is served, at whichever replica; any
//! other is refused, by name, for as long as the first one lives.

use std::net::IpAddr;
use std::time::Duration;

use weft_bgp::message::notification::Cease;
use weft_bgp::peer::PeerId;
use weft_bgp::session::Input;

use super::{Peer, now};
use crate::reflector::owner::Parting;

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
        tracing::error!(peer = %address, %rival, id = %peer, "two peers have one router id and AS; the second one is refused");
        self.grievance = Some(format!("{rival} is {peer} already"));
        self.report.rival(rival);
        self.restart = Some(now() + REFUSED_FOR);
    }
}

/// How long a peer that has another's identity has to wait.
const REFUSED_FOR: Duration = Duration::from_secs(30);
