//! A peer that goes and comes back, and does not say everything again before it goes once more.

use std::{
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

use serde_json::Value;

use super::{
    REPLICAS, ROGUE, SOON,
    table::Table,
    voice::{KEEPALIVE, Voice},
    witness,
};
use crate::{
    check::Checks,
    clock,
    expect::Lines,
    failure::{Context, Failure},
    lab::Lab,
    weft::field,
};

/// What was stale and it did not say again goes with its second restart, the rest stays. RFC 4724 §4.2.
pub(super) fn gracefully(lab: &Lab, table: &Table, checks: &mut Checks) -> Result<(), Failure> {
    let peer = Peer {
        lab,
        table,
        own: GRACEFUL,
        open: "OPEN_GRACEFUL",
    };
    let mut voice = peer.says("ANNOUNCE_FIRST")?;
    peer.has(
        checks,
        "a peer is there",
        &[("good", FRESH), ("victim", FRESH)],
    )?;
    voice.abort()?;
    let both = [("good", STALE), ("victim", STALE)];
    peer.has(checks, "it restarts", &both)?;
    let mut voice = peer.says("ANNOUNCE_GOOD")?;
    let both = [("good", FRESH), ("victim", FRESH)];
    peer.has(checks, "it is back and says half of it", &both)?;
    voice.abort()?;
    peer.has(checks, "it restarts again", &[("good", STALE)])?;
    peer.leaves(checks)
}

/// What is long-lived stale and it does not say again stays so, until it has said everything; what it did not want to be
/// is gone from the beginning. RFC 9494 §4.2.
pub(super) fn after_long(lab: &Lab, table: &Table, checks: &mut Checks) -> Result<(), Failure> {
    let peer = Peer {
        lab,
        table,
        own: LONG_LIVED,
        open: "OPEN_LONG_LIVED",
    };
    let mut voice = peer.says("ANNOUNCE_FIRST ANNOUNCE_NO_LLGR")?;
    let all = [("good", FRESH), ("victim", FRESH), ("extra", FRESH)];
    peer.has(checks, "another peer is there", &all)?;
    voice.abort()?;
    let both = [("good", LLGR), ("victim", LLGR)];
    peer.has(checks, "it is away for long", &both)?;
    let mut voice = peer.says("ANNOUNCE_GOOD")?;
    let half = [("good", FRESH), ("victim", LLGR)];
    peer.has(checks, "it is back and says half of it", &half)?;
    voice.abort()?;
    peer.has(checks, "it is away again", &both)?;
    let mut voice = peer.says("ANNOUNCE_GOOD")?;
    peer.has(checks, "it is back again and says half of it", &half)?;
    voice.say(&table.spoken("END_OF_RIB", LONG_LIVED, REPLICA)?)?;
    peer.has(checks, "it has said everything", &[("good", FRESH)])?;
    drop(voice);
    peer.leaves(checks)
}

struct Peer<'a> {
    lab: &'a Lab,
    table: &'a Table,
    own: Ipv4Addr,
    open: &'a str,
}

impl Peer<'_> {
    /// A new session, and what is said first.
    fn says(&self, text: &str) -> Result<Voice, Failure> {
        let to = SocketAddrV4::new(REPLICA, 179);
        let spoken = |text: &str| self.table.spoken(text, self.own, REPLICA);
        let deadline = clock::deadline(SOON);
        loop {
            let mut voice = Voice::dial(self.lab.namespace(ROGUE)?, self.own, to, None)?;
            voice.say(&spoken(self.open)?)?;
            voice.hear(Duration::from_secs(1), |voice| voice.got(KEEPALIVE))?;
            if voice.got(KEEPALIVE) {
                voice.say(&spoken("KEEPALIVE")?)?;
                voice.say(&spoken(text)?)?;
                return Ok(voice);
            }
            if std::time::Instant::now() > deadline {
                return Err(Failure::new(format!(
                    "no session: {:?}",
                    voice.notification
                )));
            }
            clock::pause(Duration::from_millis(200))?;
        }
    }

    /// What every replica has of it, and how stale.
    fn has(
        &self,
        checks: &mut Checks,
        when: &str,
        expected: &[(&str, &str)],
    ) -> Result<(), Failure> {
        let line = |replica: &str, name: &str, stale: &str| format!("{replica}: {name} {stale}");
        let lines = REPLICAS.iter().flat_map(|(replica, _)| {
            let lines = expected.iter();
            lines.map(move |(name, stale)| line(replica, name, stale))
        });
        checks.agree(when, SOON, &lines.collect(), || {
            let mut lines = Lines::new();
            for (replica, client) in witness::clients(self.lab)? {
                for name in NAMES {
                    let key = self.table.key(name, self.own)?;
                    // A route that is not there is an error.
                    let Ok(text) = client.text(&["route", "show", &key, "-o", "json"]) else {
                        continue;
                    };
                    let routes: Vec<Value> = serde_json::from_str(&text).context(|| key.clone())?;
                    lines.extend(self.stale(&routes).map(|stale| line(replica, name, &stale)));
                }
            }
            Ok(lines)
        })?;
        Ok(())
    }

    /// Of each of its paths.
    fn stale(&self, routes: &[Value]) -> impl Iterator<Item = String> {
        let paths = routes.iter().flat_map(|route| route["paths"].as_array());
        let own = self.own.to_string();
        paths
            .flatten()
            .filter(move |path| field(path, "peer_router_id") == own)
            .map(|path| field(path, "staleness"))
    }

    /// It comes and takes its leave at once: nothing of it stays.
    fn leaves(&self, checks: &mut Checks) -> Result<(), Failure> {
        let _voice = self.says("notification{ 06 03 }")?;
        self.has(checks, "it takes its leave", &[])
    }
}

const REPLICA: Ipv4Addr = REPLICAS[0].1;
const GRACEFUL: Ipv4Addr = Ipv4Addr::new(10, 255, 8, 1);
const LONG_LIVED: Ipv4Addr = Ipv4Addr::new(10, 255, 8, 2);
const NAMES: [&str; 3] = ["good", "victim", "extra"];
const FRESH: &str = "STALENESS_FRESH";
const STALE: &str = "STALENESS_STALE";
const LLGR: &str = "STALENESS_LONG_LIVED_STALE";
