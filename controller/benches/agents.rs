//! Agents that ship, over recorded forwarding planes.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::mpsc;
use weft_agent::agent::Config;
use weft_agent::driver::{Command, Driver};
use weft_agent::fib::Ids;
use weft_agent::forwarding::Link;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::gribi::commands;

/// Uplinks eth1 and so on, each with an address of a network of two; and the VXLAN interface of a VNI.
pub(crate) fn uplinks(count: u8, address: &dyn Fn(u8) -> IpAddr) -> Vec<Link> {
    let link = |uplink: u8| Link {
        index: uplink.into(),
        name: format!("eth{uplink}"),
        up: true,
        addresses: vec![format!("{}/31", address(uplink)).parse().unwrap()],
        vxlan: false,
        vni: None,
        tx_octets: 0,
        rx_octets: 0,
    };
    let vxlan = Link {
        addresses: Vec::new(),
        vxlan: true,
        vni: Some(VNI),
        ..link(count + 1)
    };
    (1..=count).map(link).chain([vxlan]).collect()
}

/// Starts one: its forwarding plane, and where its services send what they are asked.
pub(crate) async fn agent(links: Vec<Link>) -> (Recorded, mpsc::Sender<Command>) {
    let plane = Recorded::new(links);
    let config = Config {
        network_instance: "DEFAULT".to_owned(),
        ids: Ids::new(1 << 24).unwrap(),
        prefixes: vec!["0.0.0.0/0".parse().unwrap()],
        pins: true,
        lease: Duration::from_secs(5),
        allow_override: false,
    };
    let mut driver = Driver::start(config, plane.clone()).await.unwrap();
    let (commands, queue) = commands();
    tokio::spawn(async move { driver.run(queue, std::future::pending()).await });
    (plane, commands)
}

/// The network of all NICs.
pub(crate) const VNI: u32 = 100;
