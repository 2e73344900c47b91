//! What nft counted of pinned packets. A task of its own asks, so that an `nft` that is slow renews marks no later.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{interval, timeout};

use super::{ANSWER_MAX, Wanted};
use crate::forwarding::Pin;

/// Packets by pin.
pub type Counted = BTreeMap<Pin, u64>;

/// Asks now and then while packets are pinned, until nobody wants to know.
pub(super) async fn count(wanted: watch::Receiver<Wanted>, counted: watch::Sender<Counted>) {
    let mut every = interval(COUNT_EVERY);
    loop {
        tokio::select! {
            _ = every.tick() => {}
            () = counted.closed() => return,
        }
        let pins = wanted.borrow().devices.is_some() && !wanted.borrow().pins.is_empty();
        if pins && let Some(read) = read().await {
            counted.send_replace(read);
        }
    }
}

/// None: there is no table, or no answer in time. Who renews the marks says why.
async fn read() -> Option<Counted> {
    let listed = Command::new("nft")
        .args(["-j", "-n", "list", "table", "bridge", "weft"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(ANSWER_MAX, listed).await.ok()?.ok()?;
    output.status.success().then(|| parse(&output.stdout))?
}

/// Reads the maps of a table as `nft -j` lists it.
fn parse(listed: &[u8]) -> Option<Counted> {
    let listed: Value = serde_json::from_slice(listed).ok()?;
    let maps = listed["nftables"].as_array()?.iter();
    let elements = maps
        .filter_map(|object| object["map"]["elem"].as_array())
        .flatten();
    let counted = elements.filter_map(|element| {
        let element = &element[0]["elem"];
        let packets = element["counter"]["packets"].as_u64()?;
        Some((pin(element["val"]["concat"].as_array()?)?, packets))
    });
    Some(counted.collect())
}

/// Device and destination; and protocol and source port in the maps that have them.
fn pin(key: &[Value]) -> Option<Pin> {
    let destination: IpAddr = key.get(1)?.as_str()?.parse().ok()?;
    let number = |value: &Value| match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    let port = match key.get(2..) {
        Some([protocol, port]) => Some((
            u8::try_from(number(protocol)?).ok()?,
            u16::try_from(number(port)?).ok()?,
        )),
        _ => None,
    };
    Some(Pin {
        device: key.first()?.as_str()?.to_owned(),
        destination,
        port,
    })
}

/// A pin without packets is told of after a minute; a look costs an `nft`.
const COUNT_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_each_pin_are_read() {
        let listed = br#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
            {"set": {"family": "bridge", "name": "vxlan", "elem": [{"elem": {"val": "vxlan100", "timeout": 1}}]}},
            {"map": {"name": "pins4", "elem": [
                [{"elem": {"val": {"concat": ["vxlan100", "192.0.2.3"]}, "counter": {"packets": 7, "bytes": 700}}}, {"goto": {"target": "pin1"}}]]}},
            {"map": {"name": "ports4", "elem": [
                [{"elem": {"val": {"concat": ["vxlan100", "192.0.2.3", 17, 49152]}, "counter": {"packets": 0, "bytes": 0}}}, {"goto": {"target": "pin2"}}]]}},
            {"map": {"name": "pins6"}}]}"#;
        let pin = |port| Pin {
            device: "vxlan100".to_owned(),
            destination: [192, 0, 2, 3].into(),
            port,
        };
        let expected = Counted::from([(pin(None), 7), (pin(Some((17, 49_152))), 0)]);
        assert_eq!(parse(listed), Some(expected));
        assert_eq!(parse(b"Error"), None);
    }
}
