//! Of which families a peer is told.

use super::*;

impl Bench {
    /// The families in which the peer is to be told everything now.
    fn told(&mut self) -> Vec<Family> {
        // What is asked for waits for an answer that does not come.
        self.peer.joining = Some(Box::pin(std::future::pending()));
        self.peer.wanted.clear();
        self.peer.begin_telling();
        let wanted = self.peer.wanted.keys();
        wanted.map(|(family, _)| *family).collect()
    }
}

/// RFC 4684 §5.
#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_speak_route_target_membership_is_told_nothing_of_it() {
    let rtc = CONFIG.replace("limits =", "route_target_filter = \"rtc\"\n    limits =");
    let with = |family| {
        let mut open = open();
        open.capabilities.push(Capability::MultiProtocol(family));
        open
    };
    let evpn = Family::L2VPN_EVPN;
    for (config, open, expected) in [
        (&rtc[..], open(), vec![evpn]),
        (CONFIG, with(Family::RTC), vec![evpn]),
        // EVPN waits for its memberships. RFC 4684 §6.
        (&rtc, with(Family::RTC), vec![Family::RTC]),
    ] {
        let mut bench = Bench::with(config).await;
        let _remote = bench.session_of(open).await.unwrap();
        assert_eq!(bench.told(), expected);
    }
}
