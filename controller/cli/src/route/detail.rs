//! One route in full: its paths, what put each behind the best one, and who was told of it.

use std::io::{self, Write};

use serde::Serialize;
use weft_proto::v1 as proto;

use super::Route;
use crate::output::{or_dash, printable};
use crate::words;

/// All paths under one key, as an object.
#[derive(Serialize)]
pub(super) struct Destination {
    rd: String,
    key: String,
    paths: Vec<Path>,
}

#[derive(Serialize)]
struct Path {
    #[serde(flatten)]
    route: Route,
    path_id: u32,
    behind_by: String,
    stale: String,
    told: Vec<Told>,
}

#[derive(Serialize)]
struct Told {
    peer: String,
    address: String,
    sent: bool,
    reason: String,
}

impl From<proto::Route> for Destination {
    fn from(mut route: proto::Route) -> Self {
        let paths = std::mem::take(&mut route.paths).into_iter();
        let paths = paths.map(|path| Path::new(&route, path)).collect();
        Self {
            paths,
            rd: route.rd.unwrap_or_default(),
            key: route.key,
        }
    }
}

impl Path {
    fn new(route: &proto::Route, mut path: proto::Path) -> Self {
        let told = std::mem::take(&mut path.advertisements).into_iter();
        let told = told.map(|it| Told {
            peer: it.peer_router_id,
            address: it.peer_address,
            sent: it.advertised,
            reason: it.reason_text.unwrap_or_default(),
        });
        let behind_by = path.decision.clone().filter(|_| !path.best);
        Self {
            path_id: path.path_id(),
            behind_by: behind_by.unwrap_or_default(),
            stale: words::stale(path.staleness()).to_owned(),
            told: told.collect(),
            route: Route::new(route, path),
        }
    }
}

impl Destination {
    /// For people.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let rd = match self.rd.as_str() {
            "" => String::new(),
            rd => format!(" RD {rd}"),
        };
        let count = match self.paths.len() {
            1 => "1 path".to_owned(),
            count => format!("{count} paths"),
        };
        writeln!(out, "{}{}: {count}", printable(&self.key), printable(&rd))?;
        for path in &self.paths {
            path.print(out)?;
        }
        Ok(())
    }
}

impl Path {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Route {
            peer,
            peer_asn,
            best,
            by,
            next_hop,
            as_path,
            local_pref,
            origin,
            vni,
            esi,
            communities,
            ext_communities,
            ..
        } = &self.route;
        let mark = if *best { "*>" } else { "* " };
        let id = match self.path_id {
            0 => String::new(),
            id => format!(" path id {id}"),
        };
        let verdict = match (best, self.behind_by.as_str()) {
            (true, _) => format!("best: {by}"),
            (false, "") => "not compared".to_owned(),
            (false, behind_by) => format!("behind by: {behind_by}"),
        };
        let stale = match self.stale.as_str() {
            "" => String::new(),
            stale => format!(", {stale}"),
        };
        let line = format!("{mark} from {peer} AS {peer_asn}{id}: {verdict}{stale}");
        writeln!(out, "{}", printable(&line))?;
        let vni = match vni {
            0 => String::new(),
            vni => vni.to_string(),
        };
        let facts = [
            ("next hop", next_hop.clone()),
            ("AS path", as_path.clone()),
            ("origin", origin.clone()),
            ("local preference", local_pref.to_string()),
            ("VNI", vni),
            ("ESI", esi.clone()),
            ("communities", communities.join(" ")),
            ("extended communities", ext_communities.join(" ")),
        ];
        for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
            writeln!(out, "   {name} {}", printable(text))?;
        }
        let names = |told: &Told| or_dash(&told.address);
        let sent: Vec<_> = self.told.iter().filter(|it| it.sent).map(names).collect();
        if !sent.is_empty() {
            writeln!(out, "   told to {}", printable(&sent.join(", ")))?;
        }
        for told in self.told.iter().filter(|told| !told.sent) {
            let line = format!("   not told to {}: {}", told.address, told.reason);
            writeln!(out, "{}", printable(&line))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_in_full() {
        let path = |peer: &str, best: bool| proto::Path {
            peer_router_id: peer.to_owned(),
            peer_asn: 64_496,
            best,
            decision: Some("lowest MED".to_owned()),
            next_hop: Some(peer.to_owned()),
            local_preference: 100,
            origin: proto::Origin::Igp.into(),
            extended_communities: vec!["RT:64496:100".to_owned(), "ET:8".to_owned()],
            staleness: match best {
                true => proto::Staleness::Fresh,
                false => proto::Staleness::Stale,
            }
            .into(),
            advertisements: vec![
                proto::Advertisement {
                    peer_address: "192.0.2.13".to_owned(),
                    advertised: best,
                    reason_text: (!best).then(|| "not the best path".to_owned()),
                    ..proto::Advertisement::default()
                },
                proto::Advertisement {
                    peer_address: peer.to_owned(),
                    reason_text: Some("its own".to_owned()),
                    ..proto::Advertisement::default()
                },
            ],
            ..proto::Path::default()
        };
        let destination = proto::Route {
            rd: Some("192.0.2.11:2".to_owned()),
            key: "[3]:[0]:[32]:[192.0.2.11]".to_owned(),
            paths: vec![path("192.0.2.11", true), path("192.0.2.12", false)],
            ..proto::Route::default()
        };
        let mut out = Vec::new();
        Destination::from(destination).print(&mut out).unwrap();
        let expected = "\
[3]:[0]:[32]:[192.0.2.11] RD 192.0.2.11:2: 2 paths
*> from 192.0.2.11 AS 64496: best: lowest MED
   next hop 192.0.2.11
   origin IGP
   local preference 100
   extended communities RT:64496:100 ET:8
   told to 192.0.2.13
   not told to 192.0.2.11: its own
*  from 192.0.2.12 AS 64496: behind by: lowest MED, stale
   next hop 192.0.2.12
   origin IGP
   local preference 100
   extended communities RT:64496:100 ET:8
   not told to 192.0.2.13: not the best path
   not told to 192.0.2.12: its own
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
