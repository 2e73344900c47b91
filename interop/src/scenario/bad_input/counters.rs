//! What a replica counts of its peers, read off its page of metrics. Knows the names of a few series and
//! nothing of what they mean.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddrV4},
    time::Duration,
};

use super::{ROGUE, ROGUE_ADDRESS, table::Counts, voice};
use crate::{
    failure::{Context, Failure},
    lab::Lab,
};

/// Counts by the address of the peer.
pub(super) type Counted = BTreeMap<String, Counts>;

/// What the replica at this address counts now.
pub(super) fn at(lab: &Lab, replica: Ipv4Addr) -> Result<Counted, Failure> {
    let to = SocketAddrV4::new(replica, METRICS_PORT);
    let mut stream = voice::connect(lab.namespace(ROGUE)?, ROGUE_ADDRESS, to, None)?;
    let asked = || format!("metrics of {to}");
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .context(asked)?;
    let question = format!("GET /metrics HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n\r\n");
    stream.write_all(question.as_bytes()).context(asked)?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page).context(asked)?;
    Ok(read(&String::from_utf8_lossy(&page)))
}

fn read(page: &str) -> Counted {
    let mut counted = Counted::new();
    for (peer, name, count) in page.lines().filter_map(sample) {
        if count > 0 {
            *counted.entry(peer).or_default().entry(name).or_default() += count;
        }
    }
    counted
}

/// Peer, name and count of a line of the page, if it is about bad input.
fn sample(line: &str) -> Option<(String, String, u64)> {
    let (series, rest) = line.split_once('{')?;
    let (labels, value) = rest.rsplit_once("} ")?;
    let name = match series {
        "weft_bgp_messages_total" if label(labels, "type")? == "notification" => {
            format!("NOTIFICATION {}", label(labels, "direction")?)
        }
        "weft_bgp_attributes_dropped_total" => {
            format!("dropped {}", label(labels, "attribute")?)
        }
        "weft_bgp_updates_malformed_total" => format!("malformed {}", label(labels, "rule")?),
        "weft_bgp_routes_refused_total" => format!("refused {}", label(labels, "reason")?),
        "weft_bgp_routes_suspect_total" => format!("suspect {}", label(labels, "rule")?),
        "weft_bgp_limits_near" => format!("near {}", label(labels, "limit")?),
        _ => return None,
    };
    Some((label(labels, "peer")?.to_owned(), name, value.parse().ok()?))
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

const METRICS_PORT: u16 = 7402;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_input_is_read_and_nothing_else() {
        let page = "# HELP weft_bgp_messages Messages\n\
            weft_bgp_messages_total{peer=\"192.0.2.1\",direction=\"sent\",type=\"notification\"} 1\n\
            weft_bgp_messages_total{peer=\"192.0.2.1\",direction=\"sent\",type=\"open\"} 2\n\
            weft_bgp_routes_refused_total{peer=\"192.0.2.2\",reason=\"zero MAC address\"} 3\n\
            weft_bgp_updates_malformed_total{peer=\"192.0.2.3\",rule=\"RFC 7606 §7.1\"} 1\n\
            weft_bgp_routes_suspect_total{peer=\"192.0.2.4\",rule=\"next-hop\"} 2\n\
            weft_bgp_limits_near{peer=\"192.0.2.5\",limit=\"routes of type 3\"} 1\n\
            weft_bgp_attributes_dropped_total{peer=\"192.0.2.6\",attribute=\"26\"} 1\n\
            weft_bgp_prefixes{peer=\"192.0.2.2\",rib=\"adj-rib-in\"} 4\n";
        let one = |peer: &str, name: &str, count| {
            (peer.to_owned(), Counts::from([(name.to_owned(), count)]))
        };
        let expected = Counted::from([
            one("192.0.2.1", "NOTIFICATION sent", 1),
            one("192.0.2.2", "refused zero MAC address", 3),
            one("192.0.2.3", "malformed RFC 7606 §7.1", 1),
            one("192.0.2.4", "suspect next-hop", 2),
            one("192.0.2.5", "near routes of type 3", 1),
            one("192.0.2.6", "dropped 26", 1),
        ]);
        assert_eq!(read(page), expected);
    }
}
