//! Whom a replica dials although nobody lists them: peers of listen ranges that somebody served before, after it
//! restarted and after a session was lost. One that keeps our routes meanwhile may wait to be dialed (FRR does, for
//! as long as our restart time). Knows the configuration and addresses; who dials is the peer's task.

use std::net::IpAddr;

use super::peer::Setup;
use crate::config::Bgp;

/// How to reach those of `addresses` that may be dialed, `room` of them at most. An address outside of every range
/// is nobody's any more; a listed one is dialed anyway; and whom we did not promise to be back soon waits for nothing.
pub fn setups(bgp: &Bgp, addresses: impl IntoIterator<Item = IpAddr>, room: usize) -> Vec<Setup> {
    let setups = addresses.into_iter();
    let setups = setups.filter_map(|address| Setup::resolve(bgp, address));
    setups.filter(is_to_be_dialed).take(room).collect()
}

/// Whether a peer that dialed us is to be dialed after our restart, or after the session was lost.
pub fn is_to_be_dialed(setup: &Setup) -> bool {
    let group = &setup.group;
    let promised = group.graceful_restart.is_some();
    setup.dynamic && promised && !group.passive && group.shutdown.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const CONFIG: &str = r#"
        [bgp]
        asn = 64496
        router_id = "192.0.2.254"
        [[bgp.peer_group]]
        name = "leaves"
        port = 1179
        [[bgp.peer_group]]
        name = "passive"
        passive = true
        [[bgp.peer_group]]
        name = "forgetful"
        graceful_restart = false
        [[bgp.peer_group]]
        name = "down"
        shutdown = true
        [[bgp.listen_range]]
        prefix = "192.0.2.0/28"
        peer_group = "leaves"
        [[bgp.listen_range]]
        prefix = "192.0.2.16/28"
        peer_group = "passive"
        [[bgp.listen_range]]
        prefix = "192.0.2.32/28"
        peer_group = "forgetful"
        [[bgp.listen_range]]
        prefix = "192.0.2.48/28"
        peer_group = "down"
        [[bgp.peer]]
        address = "192.0.2.9"
        peer_group = "leaves"
    "#;

    fn dialed(addresses: &[&str], room: usize) -> Vec<String> {
        let config = Config::parse(CONFIG, "weftd.toml".as_ref()).unwrap();
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        let setups = setups(&config.bgp, addresses, room);
        assert!(setups.iter().all(|setup| setup.port == 1179));
        let setups = setups.iter().map(|setup| setup.address.to_string());
        setups.collect()
    }

    #[test]
    fn who_may_wait_for_it_is_dialed() {
        assert_eq!(dialed(&["192.0.2.1"], 9), ["192.0.2.1"]);
        let others = [
            ("listed", "192.0.2.9"),
            ("passive", "192.0.2.17"),
            ("without graceful restart", "192.0.2.33"),
            ("shut down", "192.0.2.49"),
            ("in no range any more", "198.51.100.1"),
        ];
        for (why, address) in others {
            assert!(dialed(&[address], 9).is_empty(), "{why}");
        }
    }

    #[test]
    fn no_more_are_dialed_than_there_is_room_for() {
        let addresses = ["198.51.100.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"];
        assert_eq!(dialed(&addresses, 2), ["192.0.2.1", "192.0.2.2"]);
        assert!(dialed(&addresses, 0).is_empty());
    }
}
