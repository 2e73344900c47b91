//! One route in full: its paths, what put each behind the best one, and to whom it was advertised.

use std::io::{self, Write};

use weft_proto::v1 as proto;

use super::origin;
use crate::output::{or_dash, printable};
use crate::words;

/// For people: all paths under one key.
pub(super) fn print(route: &proto::Route, out: &mut dyn Write) -> io::Result<()> {
    let rd = match route.rd() {
        "" => String::new(),
        rd => format!(" RD {rd}"),
    };
    let count = match route.paths.len() {
        1 => "1 path".to_owned(),
        count => format!("{count} paths"),
    };
    writeln!(out, "{}{}: {count}", printable(&route.key), printable(&rd))?;
    for path in &route.paths {
        print_path(path, out)?;
    }
    Ok(())
}

fn print_path(path: &proto::Path, out: &mut dyn Write) -> io::Result<()> {
    let mark = if path.best { "*>" } else { "* " };
    let id = path.path_id.map(|id| format!(" path id {id}"));
    let verdict = match (path.best, path.decision()) {
        (true, by) => format!("best: {by}"),
        (false, "") => "not compared".to_owned(),
        (false, by) => format!("behind by: {by}"),
    };
    let stale = match words::stale(path.staleness()) {
        "" => String::new(),
        stale => format!(", {stale}"),
    };
    let line = format!(
        "{mark} from {} AS {}{}: {verdict}{stale}",
        path.peer_router_id,
        path.peer_asn,
        id.unwrap_or_default()
    );
    writeln!(out, "{}", printable(&line))?;
    let vni = path.vni.map(|vni| vni.to_string());
    let facts = [
        ("next hop", path.next_hop().to_owned()),
        ("AS path", path.as_path.clone()),
        ("origin", origin(path.origin()).to_owned()),
        ("local preference", path.local_preference.to_string()),
        ("VNI", vni.unwrap_or_default()),
        ("ESI", path.esi().to_owned()),
        ("communities", path.communities.join(" ")),
        ("extended communities", path.extended_communities.join(" ")),
    ];
    for (name, text) in facts.iter().filter(|(_, text)| !text.is_empty()) {
        writeln!(out, "   {name} {}", printable(text))?;
    }
    let (sent, unsent): (Vec<_>, Vec<_>) = path.advertisements.iter().partition(|it| it.advertised);
    if !sent.is_empty() {
        let names: Vec<_> = sent.iter().map(|it| or_dash(&it.peer_address)).collect();
        writeln!(out, "   advertised to {}", printable(&names.join(", ")))?;
    }
    for it in unsent {
        let line = format!(
            "   not advertised to {}: {}",
            it.peer_address,
            it.reason_text()
        );
        writeln!(out, "{}", printable(&line))?;
    }
    Ok(())
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
        print(&destination, &mut out).unwrap();
        let expected = "\
[3]:[0]:[32]:[192.0.2.11] RD 192.0.2.11:2: 2 paths
*> from 192.0.2.11 AS 64496: best: lowest MED
   next hop 192.0.2.11
   origin IGP
   local preference 100
   extended communities RT:64496:100 ET:8
   advertised to 192.0.2.13
   not advertised to 192.0.2.11: its own
*  from 192.0.2.12 AS 64496: behind by: lowest MED, stale
   next hop 192.0.2.12
   origin IGP
   local preference 100
   extended communities RT:64496:100 ET:8
   not advertised to 192.0.2.13: not the best path
   not advertised to 192.0.2.12: its own
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
