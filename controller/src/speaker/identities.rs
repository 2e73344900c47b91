//! Which address has each identity in the sessions of this replica, and which declared address had it last. Knows no session and
//! no fact.

use std::collections::HashMap;
use std::net::IpAddr;

use weft_bgp::peer::PeerId;

/// The identities of a replica's sessions.
#[derive(Debug, Default)]
pub(super) struct Identities {
    held: HashMap<PeerId, IpAddr>,
    /// The declared address that had an identity last, whether it has a session now or not.
    homes: HashMap<PeerId, IpAddr>,
}

impl Identities {
    /// Gives an identity to an address, which has one at most. A declared address takes it from one that is not.
    ///
    /// # Errors
    /// The address that the identity belongs to.
    pub(super) fn claim(
        &mut self,
        peer: PeerId,
        address: IpAddr,
        is_declared: impl Fn(IpAddr) -> bool,
    ) -> Result<(), IpAddr> {
        self.held
            .retain(|other, held| *other == peer || *held != address);
        if let Some(holder) = self.holder(peer, address, &is_declared) {
            return Err(holder);
        }
        self.held.insert(peer, address);
        self.homes
            .retain(|other, home| is_declared(*home) && (*other == peer || *home != address));
        if is_declared(address) {
            self.homes.insert(peer, address);
        }
        Ok(())
    }

    /// Another address that the identity belongs to, as far as the sessions of this replica are concerned.
    pub(super) fn holder(
        &self,
        peer: PeerId,
        address: IpAddr,
        is_declared: impl Fn(IpAddr) -> bool,
    ) -> Option<IpAddr> {
        let home = self.homes.get(&peer).filter(|home| is_declared(**home));
        let is_home = home == Some(&address) || is_declared(address);
        let held = self.held.get(&peer);
        let held = held.filter(|held| !is_home || is_declared(**held));
        let holder = held.or_else(|| home.filter(|_| !is_home));
        holder.copied().filter(|holder| *holder != address)
    }

    /// Takes the identity of an address, whose session has ended. Returns true if it had one.
    pub(super) fn release(&mut self, address: IpAddr) -> bool {
        let before = self.held.len();
        self.held.retain(|_, held| *held != address);
        self.held.len() < before
    }

    /// Returns true while a session has the identity.
    pub(super) fn is_held(&self, peer: PeerId) -> bool {
        self.held.contains_key(&peer)
    }
}

#[cfg(test)]
mod tests {
    use weft_bgp::peer::RouterId;

    use super::*;

    const PEER: PeerId = PeerId {
        router_id: RouterId(0xc000_0201),
        asn: 64_496,
    };
    const OTHER: PeerId = PeerId {
        router_id: RouterId(0xc000_0202),
        asn: 64_496,
    };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn an_identity_has_one_address_and_an_address_one_identity() {
        let mut identities = Identities::default();
        let none = |_| false;
        assert_eq!(identities.claim(PEER, address(1), none), Ok(()));
        assert_eq!(identities.claim(PEER, address(2), none), Err(address(1)));
        assert_eq!(identities.claim(OTHER, address(1), none), Ok(()));
        assert_eq!(identities.claim(PEER, address(2), none), Ok(()));
        assert!(identities.release(address(2)) && !identities.release(address(2)));
        assert!(!identities.is_held(PEER) && identities.is_held(OTHER));
        assert_eq!(identities.claim(PEER, address(3), none), Ok(()));
    }

    #[test]
    fn a_declared_address_keeps_its_identity_and_takes_it_back() {
        let mut identities = Identities::default();
        let declared = |it| it == address(1) || it == address(9);
        // Somebody else was first.
        assert_eq!(identities.claim(PEER, address(2), declared), Ok(()));
        assert_eq!(identities.claim(PEER, address(1), declared), Ok(()));
        assert!(!identities.release(address(2)));
        let refused = identities.claim(PEER, address(2), declared);
        assert_eq!(refused, Err(address(1)));
        let refused = identities.claim(PEER, address(9), declared);
        assert_eq!(refused, Err(address(1)), "of two switches the first");
        // Its session has ended, and its routes may have gone.
        assert!(identities.release(address(1)));
        let refused = identities.claim(PEER, address(2), declared);
        assert_eq!(refused, Err(address(1)));
        assert_eq!(identities.claim(PEER, address(9), declared), Ok(()));
        assert!(identities.release(address(9)));
        // The switch has another identity now, or is declared no more.
        assert_eq!(identities.claim(OTHER, address(9), declared), Ok(()));
        assert_eq!(identities.claim(PEER, address(2), declared), Ok(()));
        assert_eq!(
            identities.claim(OTHER, address(3), declared),
            Err(address(9))
        );
        assert!(identities.release(address(9)));
        assert_eq!(identities.claim(OTHER, address(3), |_| false), Ok(()));
    }
}
