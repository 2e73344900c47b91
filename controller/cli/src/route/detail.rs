//! One route in full: its paths, what put each behind the best one, and who was told of it.

use std::io::{self, Write};

use serde::Serialize;
use weft_proto::operator::v1 as proto;

use super::Route;
use crate::output::{or_dash, printable};

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

impl From<proto::Destination> for Destination {
    fn from(destination: proto::Destination) -> Self {
        Self {
            rd: destination.rd,
            key: destination.key,
            paths: destination.paths.into_iter().map(Path::from).collect(),
        }
    }
}

impl From<proto::PathDetail> for Path {
    fn from(path: proto::PathDetail) -> Self {
        let told = path.told.into_iter().map(|told| Told {
            peer: told.peer,
            address: told.address,
            sent: told.sent,
            reason: told.reason,
        });
        Self {
            route: path.route.unwrap_or_default().into(),
            path_id: path.path_id,
            behind_by: path.behind_by,
            stale: path.stale,
            told: told.collect(),
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
        let path = |peer: &str, best: bool, behind_by: &str| proto::PathDetail {
            route: Some(proto::Route {
                peer: peer.to_owned(),
                peer_asn: 64_496,
                best,
                by: if best { "lowest MED" } else { "" }.to_owned(),
                next_hop: peer.to_owned(),
                local_pref: 100,
                origin: "IGP".to_owned(),
                ext_communities: vec!["RT:64496:100".to_owned(), "ET:8".to_owned()],
                ..proto::Route::default()
            }),
            behind_by: behind_by.to_owned(),
            stale: if best { "" } else { "stale" }.to_owned(),
            told: vec![
                proto::Told {
                    address: "192.0.2.13".to_owned(),
                    sent: best,
                    reason: if best { "" } else { "not the best path" }.to_owned(),
                    ..proto::Told::default()
                },
                proto::Told {
                    address: peer.to_owned(),
                    reason: "its own".to_owned(),
                    ..proto::Told::default()
                },
            ],
            ..proto::PathDetail::default()
        };
        let destination = proto::Destination {
            rd: "192.0.2.11:2".to_owned(),
            key: "[3]:[0]:[32]:[192.0.2.11]".to_owned(),
            paths: vec![
                path("192.0.2.11", true, ""),
                path("192.0.2.12", false, "lowest MED"),
            ],
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
