//! `weft fabric`: declares what the network is, and shows what was declared.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use clap::Subcommand;
use weft_proto::v1 as proto;

use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{Format, or_dash, printable};
use crate::{link, switch};

use declared::{Fabric, Host, HostPort, Link, Role, Switch};

mod apply;
pub(crate) mod changes;
mod declared;
mod watch;

pub(crate) use apply::{other_fabric, send};
pub(crate) use declared::parts;

/// What can be done with the fabric.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Declare what a file names; on an error nothing changes.
    Apply(apply::Apply),
    /// Show the declared fabric; with -o yaml, as a file that can be applied.
    Show,
    /// Follow every change of it, and of jobs; on the death of a replica it goes on at another one.
    Watch(watch::Watch),
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Apply(apply) => apply.run(dialog).await,
            Self::Show => show(dialog).await,
            Self::Watch(watch) => watch.run(dialog).await,
        }
    }
}

/// The word for a kind.
fn noun(kind: proto::ResourceKind) -> &'static str {
    match kind {
        proto::ResourceKind::Switch => "switch",
        proto::ResourceKind::Host => "host",
        proto::ResourceKind::Link => "link",
        proto::ResourceKind::HostPort => "host port",
        proto::ResourceKind::Job => "job",
        proto::ResourceKind::Unspecified => "unknown",
    }
}

/// The fabric that a file declares, or file, place and reason.
fn read(file: &Path) -> Result<Fabric, Failure> {
    parsed(&file.display().to_string(), std::fs::read_to_string(file))
}

/// The fabric that the text of a file declares, or file, place and reason.
fn parsed(file: &str, text: io::Result<String>) -> Result<Fabric, Failure> {
    let refused = |reason: String| Failure::Refused(format!("{file}{reason}"));
    let text = text.map_err(|error| refused(format!(": {error}")))?;
    if text.trim().is_empty() {
        return Err(refused(": is empty".to_owned()));
    }
    Fabric::parse(&text).map_err(|fault| refused(fault.to_string()))
}

/// The fabric that a file declares, in one message.
pub(crate) fn read_whole(file: &Path) -> Result<proto::Fabric, Failure> {
    let mut whole = proto::Fabric::default();
    for part in read(file)?.parts() {
        whole.display_name.push_str(&part.display_name);
        whole.switches.extend(part.switches);
        whole.hosts.extend(part.hosts);
        whole.links.extend(part.links);
        whole.host_ports.extend(part.host_ports);
    }
    Ok(whole)
}

async fn show(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let fabric = whole(dialog).await?;
    if dialog.object(&fabric)? {
        return Ok(());
    }
    tables(&fabric, dialog)
}

/// Everything that is declared, as of one generation.
async fn whole(dialog: &Dialog<'_>) -> Result<Fabric, Failure> {
    let connection = &dialog.connection;
    for _ in 0..SHOW_ATTEMPTS {
        let before = head(connection).await?;
        let generation = before.generation;
        let fabric = pages(dialog, before).await?;
        if head(connection).await?.generation == generation {
            return Ok(fabric);
        }
    }
    let reason = "the fabric changes while it is read";
    Err(Failure::unanswered(connection.address(), reason))
}

/// The fabric's name and how much is declared.
pub(crate) async fn head(connection: &Connection) -> Result<proto::GetFabricResponse, Failure> {
    let question = async || {
        let mut client = connection.fabric().await?;
        let call = client.get_fabric(proto::GetFabricRequest {});
        connection.answer(call).await
    };
    connection.read(question).await
}

/// The facts behind a head, page by page.
async fn pages(dialog: &Dialog<'_>, head: proto::GetFabricResponse) -> Result<Fabric, Failure> {
    let connection = &dialog.connection;
    let say = |what: &'static str| {
        move |count: usize| dialog.progress.say(format!("{count} {what} so far"))
    };
    let mut fabric = Fabric {
        name: head.display_name,
        generation: Some(head.generation),
        ..Fabric::default()
    };
    let ask = async |token| switch::page(connection, token).await;
    let switches = connection.every(ask, say("switches")).await?;
    fabric.switches = switches.into_iter().map(Switch::from).collect();
    let ask = async |token| hosts(connection, token).await;
    let hosts = connection.every(ask, say("hosts")).await?;
    let ask = async |token| link::page(connection, token).await;
    let links = connection.every(ask, say("links")).await?;
    fabric.links = links.into_iter().map(Link::from).collect();
    let ask = async |token| host_ports(connection, token).await;
    let ports = connection.every(ask, say("host ports")).await?;
    fabric.host_ports = ports.into_iter().map(HostPort::from).collect();
    // The others are there with the ports that name them.
    let ports = fabric.host_ports.iter();
    let named: BTreeSet<&str> = ports.map(|it| it.host.as_str()).collect();
    let alone = |host: &proto::Host| !host.labels.is_empty() || !named.contains(host.name.as_str());
    fabric.hosts = hosts.into_iter().filter(alone).map(Host::from).collect();
    Ok(fabric)
}

/// One page of hosts.
pub(crate) async fn hosts(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::Host>, Failure> {
    let mut client = connection.fabric().await?;
    let request = proto::ListHostsRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let page = connection.answer(client.list_hosts(request)).await?;
    Ok(Page::new(page.header, page.hosts, page.next_page_token))
}

/// One page of host ports.
pub(crate) async fn host_ports(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::HostPort>, Failure> {
    let mut client = connection.fabric().await?;
    let request = proto::ListHostPortsRequest {
        page_size: PAGE_SIZE,
        page_token,
        ..proto::ListHostPortsRequest::default()
    };
    let page = connection.answer(client.list_host_ports(request)).await?;
    Ok(Page::new(
        page.header,
        page.host_ports,
        page.next_page_token,
    ))
}

fn tables(fabric: &Fabric, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let names = dialog.format == Format::Name;
    if fabric.name.is_empty() && fabric.is_empty() {
        if !names {
            writeln!(dialog.out, "no fabric is declared")?;
        }
        return Ok(());
    }
    if !names {
        let name = printable(&fabric.name);
        let generation = fabric.generation.unwrap_or_default();
        writeln!(dialog.out, "fabric {name}, generation {generation}\n")?;
    }
    let switches: Vec<_> = fabric.switches.iter().map(switch_row).collect();
    let header = ["SWITCH", "ROLE", "VTEP", "AGENT", "STATE"];
    dialog.table(&header, &switches)?;
    if !names {
        writeln!(dialog.out)?;
    }
    let links: Vec<_> = fabric.links.iter().map(link_row).collect();
    let header = ["LINK", "ADDRESS-A", "ADDRESS-B", "CAPACITY", "STATE"];
    dialog.table(&header, &links)?;
    if !names {
        writeln!(dialog.out)?;
    }
    let ports: Vec<_> = fabric.host_ports.iter().map(host_port).collect();
    dialog.table(&["HOST-PORT", "HOST", "VNI", "CAPACITY"], &ports)
}

fn switch_row(switch: &Switch) -> Vec<String> {
    let role = match switch.role {
        Role::Leaf => "leaf",
        Role::Spine => "spine",
        Role::Unspecified => "-",
    };
    vec![
        switch.name.clone(),
        role.to_owned(),
        or_dash(&switch.vtep_address),
        or_dash(&switch.agent_address),
        state(switch.down == Some(true)).to_owned(),
    ]
}

fn link_row(link: &Link) -> Vec<String> {
    let (a, b) = (&link.a, &link.b);
    vec![
        match link.name.as_str() {
            "" => format!("{}:{}--{}:{}", a.switch, a.interface, b.switch, b.interface),
            name => name.to_owned(),
        },
        or_dash(&a.address),
        or_dash(&b.address),
        rate(link.capacity_bps),
        state(link.down == Some(true)).to_owned(),
    ]
}

fn host_port(port: &HostPort) -> Vec<String> {
    let vni = if port.vni == 0 {
        "-".to_owned()
    } else {
        port.vni.to_string()
    };
    vec![
        format!("{}:{}", port.switch, port.interface),
        or_dash(&port.host),
        vni,
        rate(port.capacity_bps.unwrap_or(0)),
    ]
}

/// Administrative state of a link.
pub(crate) fn state(down: bool) -> &'static str {
    if down { "down" } else { "up" }
}

/// Bits per second in the largest unit that leaves a whole number: what is printed is what was declared.
pub(crate) fn rate(bps: u64) -> String {
    match UNITS
        .iter()
        .find(|(unit, _)| bps != 0 && bps.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("{} {name}", bps / unit),
        None => "-".to_owned(),
    }
}

/// Times that a fabric is read while others change it.
const SHOW_ATTEMPTS: usize = 5;

const UNITS: [(u64, &str); 5] = [
    (1_000_000_000_000, "Tb/s"),
    (1_000_000_000, "Gb/s"),
    (1_000_000, "Mb/s"),
    (1_000, "kb/s"),
    (1, "b/s"),
];
