//! `weft fabric`: declares what the network is, and shows what was declared.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use prost_types::FieldMask;
use serde::Serialize;
use tonic::{Code, Response, Status};
use weft_proto::v1 as proto;

use crate::completion;
use crate::dialog::Dialog;
use crate::failure::{self, Failure};
use crate::output::{self, Table, or_dash, printable};

use declared::{Fabric, Host, HostPort, Link, Role, Switch, admin_state};

mod declared;
mod watch;

/// What can be done with the fabric.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Replace the declared fabric by a file's; on an error nothing changes.
    Apply(Apply),
    /// Show the declared fabric; with -o yaml, as a file that can be applied.
    Show,
    /// Set a link down or up. Weights follow at once.
    Link(Set),
    /// Follow every change of it; on the death of a replica go on at another one with --after-revision.
    Watch(watch::Watch),
}

/// A declaration.
#[derive(Args)]
pub(crate) struct Apply {
    /// Fabric file, YAML or JSON.
    file: PathBuf,
    /// Check everything, change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// A link and the state that it should have.
#[derive(Args)]
pub(crate) struct Set {
    /// SWITCH:INTERFACE--SWITCH:INTERFACE.
    #[arg(add = completion::links())]
    link: String,
    /// Administrative state.
    #[arg(value_enum)]
    state: State,
}

/// Administrative state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// It carries what it can.
    Up,
    /// It carries nothing.
    Down,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Apply(apply) => apply.run(dialog).await,
            Self::Show => show(dialog).await,
            Self::Link(set) => set.run(dialog).await,
            Self::Watch(watch) => watch.run(dialog).await,
        }
    }
}

impl Apply {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let Dialog {
            connection,
            format,
            out,
            ..
        } = dialog;
        let name = self.file.display();
        let fabric = read(&self.file)?;
        let fabric_name = printable(&fabric.name);
        let mut client = connection.fabric().await?;
        let parts = tokio_stream::iter(fabric.parts(self.dry_run));
        let refused = |status: &Status| match status.code() {
            Code::InvalidArgument => Failure::Refused(format!("{name}: {}", failure::said(status))),
            _ => Failure::from_status(connection.address(), status),
        };
        // The whole is read, checked and compared before the first part of the answer, and others may be writing.
        let connection = &connection.patient(APPLY_TIMEOUT);
        let answer = connection.status(client.apply_fabric(parts)).await?;
        let mut answer = answer.map_err(|status| refused(&status))?;
        let mut applied = Applied::default();
        while let Some(part) = {
            let part = async { answer.message().await.map(Response::new) };
            let part = connection.status(part).await?;
            part.map_err(|status| refused(&status))?
        } {
            applied.add(part);
        }
        if output::object(*out, *format, &applied)? {
            return Ok(());
        }
        let verdict = match self.dry_run {
            true => "valid, nothing changed; it would be",
            false => "applied",
        };
        let Applied {
            created,
            updated,
            deleted,
            generation,
        } = &applied;
        writeln!(
            out,
            "fabric {fabric_name} {verdict}: {} created, {} updated, {} deleted, generation {generation}",
            created.len(),
            updated.len(),
            deleted.len(),
        )?;
        Ok(())
    }
}

/// What an application changed.
#[derive(Debug, Default, Serialize)]
struct Applied {
    created: Vec<Changed>,
    updated: Vec<Changed>,
    deleted: Vec<Changed>,
    generation: u64,
}

/// A fact that was changed.
#[derive(Debug, Serialize)]
struct Changed {
    kind: &'static str,
    name: String,
}

impl Applied {
    fn add(&mut self, part: proto::ApplyFabricResponse) {
        self.generation = part.generation;
        for change in part.changes {
            let kind = noun(change.kind());
            let into = match change.change_type() {
                proto::ChangeType::Created => &mut self.created,
                proto::ChangeType::Deleted => &mut self.deleted,
                proto::ChangeType::Updated | proto::ChangeType::Unspecified => &mut self.updated,
            };
            let name = change.name;
            into.push(Changed { kind, name });
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
        proto::ResourceKind::Unspecified => "unknown",
    }
}

/// The fabric that a file declares, or file, place and reason.
fn read(file: &Path) -> Result<Fabric, Failure> {
    let refused = |reason: String| Failure::Refused(format!("{}{reason}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| refused(format!(": {error}")))?;
    Fabric::parse(&text).map_err(|fault| refused(fault.to_string()))
}

async fn show(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let (fabric, incomplete) = whole(dialog).await?;
    if incomplete && !dialog.format.is_for_people() {
        let reason = "a part of a declaration only: one is being written, or was given up and has to be applied again";
        return Err(Failure::Unmet(reason.to_owned()));
    }
    if !output::object(dialog.out, dialog.format, &fabric)? {
        tables(&fabric, dialog.out)?;
        if incomplete {
            writeln!(
                dialog.out,
                "\nincomplete: it is being written, or has to be applied again"
            )?;
        }
    }
    Ok(())
}

/// Everything that is declared, as of one generation, and whether it is a part of a declaration only.
async fn whole(dialog: &Dialog<'_>) -> Result<(Fabric, bool), Failure> {
    let connection = &dialog.connection;
    let mut client = connection.fabric().await?;
    for _ in 0..SHOW_ATTEMPTS {
        let call = client.get_fabric(proto::GetFabricRequest {});
        let before = connection.answer(call).await?;
        let (generation, applying) = (before.generation, before.applying);
        let fabric = pages(dialog, before).await?;
        let call = client.get_fabric(proto::GetFabricRequest {});
        if connection.answer(call).await?.generation == generation {
            return Ok((fabric, applying));
        }
    }
    let reason = "the fabric changes while it is read";
    Err(Failure::unanswered(connection.address(), reason))
}

/// The facts behind a head, page by page.
async fn pages(dialog: &Dialog<'_>, head: proto::GetFabricResponse) -> Result<Fabric, Failure> {
    let connection = &dialog.connection;
    let mut client = connection.fabric().await?;
    let mut fabric = Fabric {
        name: head.display_name,
        generation: head.generation,
        ..Fabric::default()
    };
    let page_size = PAGE_SIZE;
    let switches = connection.every(async |page_token| {
        let request = proto::ListSwitchesRequest {
            page_size,
            page_token,
        };
        let page = connection.answer(client.list_switches(request)).await?;
        Ok((page.switches, page.next_page_token))
    });
    fabric.switches = switches.await?.into_iter().map(Switch::from).collect();
    let hosts = connection.every(async |page_token| {
        let request = proto::ListHostsRequest {
            page_size,
            page_token,
        };
        let page = connection.answer(client.list_hosts(request)).await?;
        Ok((page.hosts, page.next_page_token))
    });
    let hosts = hosts.await?;
    let links = connection.every(async |page_token| {
        let request = proto::ListLinksRequest {
            page_size,
            page_token,
        };
        let page = connection.answer(client.list_links(request)).await?;
        Ok((page.links, page.next_page_token))
    });
    fabric.links = links.await?.into_iter().map(Link::from).collect();
    let ports = connection.every(async |page_token| {
        let request = proto::ListHostPortsRequest {
            page_size,
            page_token,
        };
        let page = connection.answer(client.list_host_ports(request)).await?;
        Ok((page.host_ports, page.next_page_token))
    });
    fabric.host_ports = ports.await?.into_iter().map(HostPort::from).collect();
    // The others are there with the ports that name them.
    let named: BTreeSet<&str> = fabric
        .host_ports
        .iter()
        .map(|it| it.host.as_str())
        .collect();
    let told = |host: &proto::Host| !host.labels.is_empty() || !named.contains(host.name.as_str());
    fabric.hosts = hosts.into_iter().filter(told).map(Host::from).collect();
    Ok(fabric)
}

impl Set {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let down = match self.state {
            State::Up => false,
            State::Down => true,
        };
        let mut client = dialog.connection.fabric().await?;
        let connection = &dialog.connection;
        let call = client.update_link(set(&self.link, down));
        let mut answer = connection.status(call).await?;
        // Its ends may be given in either order.
        let turned = self.link.split_once("--").map(|(a, b)| format!("{b}--{a}"));
        if let (Err(status), Some(turned)) = (&answer, turned)
            && status.code() == Code::NotFound
        {
            let call = client.update_link(set(&turned, down));
            if let Ok(found) = connection.status(call).await? {
                answer = Ok(found);
            }
        }
        let answer =
            answer.map_err(|status| Failure::from_status(connection.address(), &status))?;
        let link = Link::from(answer.resource.unwrap_or_default());
        if !output::object(dialog.out, dialog.format, &link)? {
            let revision = answer.header.unwrap_or_default().revision;
            let (link, state) = (printable(&self.link), state(link.down));
            writeln!(dialog.out, "link {link} {state}, revision {revision}")?;
        }
        Ok(())
    }
}

/// Asks for a link's state, and nothing else of it.
fn set(link: &str, down: bool) -> proto::UpdateLinkRequest {
    proto::UpdateLinkRequest {
        resource: Some(proto::Link {
            name: link.to_owned(),
            admin_state: admin_state(down).into(),
            ..proto::Link::default()
        }),
        update_mask: Some(FieldMask {
            paths: vec!["admin_state".to_owned()],
        }),
        ..proto::UpdateLinkRequest::default()
    }
}

fn tables(fabric: &Fabric, out: &mut dyn Write) -> io::Result<()> {
    if *fabric == Fabric::default() {
        return writeln!(out, "no fabric is declared");
    }
    writeln!(
        out,
        "fabric {}, generation {}\n",
        printable(&fabric.name),
        fabric.generation
    )?;
    let switches: Vec<_> = fabric.switches.iter().map(switch).collect();
    Table::print(out, &["SWITCH", "ROLE", "VTEP", "AGENT"], &switches)?;
    writeln!(out)?;
    let links: Vec<_> = fabric.links.iter().map(link).collect();
    Table::print(
        out,
        &["LINK", "ADDRESS-A", "ADDRESS-B", "CAPACITY", "STATE"],
        &links,
    )?;
    writeln!(out)?;
    let ports: Vec<_> = fabric.host_ports.iter().map(host_port).collect();
    Table::print(out, &["HOST-PORT", "HOST", "VNI", "CAPACITY"], &ports)
}

fn switch(switch: &Switch) -> Vec<String> {
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
    ]
}

fn link(link: &Link) -> Vec<String> {
    let (a, b) = (&link.a, &link.b);
    vec![
        match link.name.as_str() {
            "" => format!("{}:{}--{}:{}", a.switch, a.interface, b.switch, b.interface),
            name => name.to_owned(),
        },
        or_dash(&a.address),
        or_dash(&b.address),
        rate(link.capacity_bps),
        state(link.down).to_owned(),
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
        rate(port.capacity_bps),
    ]
}

fn state(down: bool) -> &'static str {
    if down { "down" } else { "up" }
}

/// Bits per second in the largest unit that leaves a whole number: what is printed is what was declared.
fn rate(bps: u64) -> String {
    match UNITS
        .iter()
        .find(|(unit, _)| bps != 0 && bps.is_multiple_of(*unit))
    {
        Some((unit, name)) => format!("{} {name}", bps / unit),
        None => "-".to_owned(),
    }
}

/// Facts to ask for at a time: as many as a replica gives.
const PAGE_SIZE: i32 = 10_000;
/// A large declaration is read, checked and compared by then, also when another one is written before it.
const APPLY_TIMEOUT: Duration = Duration::from_secs(600);
/// Times that a fabric is read while others change it.
const SHOW_ATTEMPTS: usize = 5;

const UNITS: [(u64, &str); 5] = [
    (1_000_000_000_000, "Tb/s"),
    (1_000_000_000, "Gb/s"),
    (1_000_000, "Mb/s"),
    (1_000, "kb/s"),
    (1, "b/s"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fabric_in_tables() {
        let text = "
name: example
generation: 3
switches:
  - {name: leaf1, role: leaf, vtep_address: 192.0.2.11, agent_address: '192.0.2.11:9340'}
  - {name: spine1, role: spine}
links:
  - a: {switch: leaf1, interface: eth1, address: 198.51.100.1}
    b: {switch: spine1, interface: eth1, address: 198.51.100.0}
    capacity_bps: 2500000000
    down: true
host_ports:
  - {switch: leaf1, interface: eth3, host: h1, vni: 100, capacity_bps: 100000000000}
";
        let mut out = Vec::new();
        tables(&Fabric::parse(text).unwrap(), &mut out).unwrap();
        let expected = "\
fabric example, generation 3

SWITCH  ROLE   VTEP        AGENT
leaf1   leaf   192.0.2.11  192.0.2.11:9340
spine1  spine  -           -

LINK                     ADDRESS-A     ADDRESS-B     CAPACITY   STATE
leaf1:eth1--spine1:eth1  198.51.100.1  198.51.100.0  2500 Mb/s  down

HOST-PORT   HOST  VNI  CAPACITY
leaf1:eth3  h1    100  100 Gb/s
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn no_fabric_is_said_to_be_none() {
        let mut out = Vec::new();
        tables(&Fabric::default(), &mut out).unwrap();
        assert_eq!(out, b"no fabric is declared\n");
    }
}
