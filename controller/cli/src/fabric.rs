//! `weft fabric`: declares what the network is, and shows what was declared.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use tonic::Code;
use weft_proto::fabric::v1 as proto;

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, Table, or_dash, printable};

use declared::{Fabric, HostPort, Link, Role, Switch};

mod declared;

/// What can be done with the fabric.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Replace the declared fabric by a file's; on an error nothing changes.
    Apply(Apply),
    /// Show the declared fabric; with -o yaml, as a file that can be applied.
    Show,
    /// Set a link down or up. Weights follow at once.
    Link(Set),
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
        }
    }
}

impl Apply {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let Dialog {
            connection,
            format,
            out,
        } = dialog;
        let name = self.file.display();
        let fabric = read(&self.file)?;
        let request = proto::ApplyFabricRequest {
            fabric: Some(fabric),
            validate_only: self.dry_run,
        };
        let mut client = connection.fabric().await?;
        let answer = connection.status(client.apply_fabric(request)).await?;
        let answer = answer.map_err(|status| match status.code() {
            Code::InvalidArgument => Failure::Refused(format!("{name}: {}", status.message())),
            _ => Failure::from_status(connection.address(), &status),
        })?;
        let fabric = Fabric::from(answer.fabric.unwrap_or_default());
        if output::object(*out, *format, &fabric)? {
            return Ok(());
        }
        let Fabric {
            name,
            switches,
            links,
            host_ports,
            revision,
        } = &fabric;
        let (name, verdict) = (
            printable(name),
            if self.dry_run {
                "valid, nothing changed"
            } else {
                "applied"
            },
        );
        writeln!(
            out,
            "fabric {name} {verdict}: {} switches, {} links, {} host ports, revision {revision}",
            switches.len(),
            links.len(),
            host_ports.len(),
        )?;
        Ok(())
    }
}

/// The fabric that a file declares, or file, place and reason.
fn read(file: &Path) -> Result<proto::Fabric, Failure> {
    let refused = |reason: String| Failure::Refused(format!("{}{reason}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| refused(format!(": {error}")))?;
    let fabric = Fabric::parse(&text).map_err(|fault| refused(fault.to_string()))?;
    Ok(fabric.into())
}

async fn show(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.fabric().await?;
    let call = client.get_fabric(proto::GetFabricRequest {});
    let fabric = Fabric::from(dialog.connection.answer(call).await?);
    if !output::object(dialog.out, dialog.format, &fabric)? {
        tables(&fabric, dialog.out)?;
    }
    Ok(())
}

impl Set {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let down = match self.state {
            State::Up => false,
            State::Down => true,
        };
        let mut client = dialog.connection.fabric().await?;
        let request = proto::SetLinkStateRequest {
            link: self.link.clone(),
            down,
        };
        let call = client.set_link_state(request);
        let fabric = Fabric::from(dialog.connection.answer(call).await?);
        if !output::object(dialog.out, dialog.format, &fabric)? {
            let (link, state) = (printable(&self.link), state(down));
            writeln!(
                dialog.out,
                "link {link} {state}, revision {}",
                fabric.revision
            )?;
        }
        Ok(())
    }
}

fn tables(fabric: &Fabric, out: &mut dyn Write) -> io::Result<()> {
    if *fabric == Fabric::default() {
        return writeln!(out, "no fabric is declared");
    }
    writeln!(
        out,
        "fabric {}, revision {}\n",
        printable(&fabric.name),
        fabric.revision
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
        format!("{}:{}--{}:{}", a.switch, a.interface, b.switch, b.interface),
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
revision: 3
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
fabric example, revision 3

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
        tables(&Fabric::from(proto::Fabric::default()), &mut out).unwrap();
        assert_eq!(out, b"no fabric is declared\n");
    }
}
