//! Which NICs a host has, by the host ports that are declared. Knows no format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use weft_proto::v1 as proto;

use crate::dialog::Dialog;
use crate::fabric;
use crate::failure::Failure;

/// Host ports of hosts, in order of their rails.
#[derive(Default)]
pub(super) struct Nics {
    by_host: BTreeMap<String, Vec<proto::HostPort>>,
}

impl Nics {
    /// Host ports of the fabric that a file declares.
    pub(super) fn declared(file: &Path) -> Result<Self, Failure> {
        Ok(Self::new(fabric::read_whole(file)?.host_ports))
    }

    /// Host ports of the fabric that the replicas have.
    pub(super) async fn asked(dialog: &Dialog<'_>) -> Result<Self, Failure> {
        let connection = &dialog.connection;
        let ask = async |token| fabric::host_ports(connection, token).await;
        let say = |count| dialog.progress.say(format!("{count} host ports so far"));
        Ok(Self::new(connection.every(ask, say).await?))
    }

    /// Sorts ports by host and rail.
    pub(super) fn new(ports: Vec<proto::HostPort>) -> Self {
        let mut nics = Self::default();
        for mut port in ports.into_iter().filter(|it| !it.host_name.is_empty()) {
            if port.name.is_empty() {
                port.name = format!("{}:{}", port.switch_name, port.interface_name);
            }
            let of_host = nics.by_host.entry(port.host_name.clone()).or_default();
            of_host.push(port);
        }
        for ports in nics.by_host.values_mut() {
            ports.sort_by(|a, b| order(a).cmp(&order(b)));
        }
        nics
    }

    /// The host ports of a host; of a host with a domain that is not declared, those of its first label.
    pub(super) fn of(&self, host: &str) -> Result<&[proto::HostPort], String> {
        let label = host.split('.').next().unwrap_or(host);
        let found = self.by_host.get(host).or_else(|| self.by_host.get(label));
        match found {
            Some(ports) => Ok(ports),
            None => Err(format!("no host port has the host {host:?}")),
        }
    }

    /// The NIC of the rank at this place among so many of a host: neighbors share one if there are fewer NICs than ranks.
    pub(super) fn of_rank(&self, host: &str, at: usize, ranks: usize) -> Result<&str, String> {
        let ports = self.of(host)?;
        let port = ports.get(at * ports.len() / ranks.max(1));
        Ok(&port.ok_or("no such rank")?.name)
    }

    /// The NIC of a host on a rail; where no port has one, they are counted from 0.
    pub(super) fn of_rail(&self, host: &str, rail: u32) -> Result<&str, String> {
        let ports = self.of(host)?;
        let named = ports.iter().any(|it| it.rail.is_some());
        let port = match named {
            true => ports.iter().find(|it| it.rail == Some(rail)),
            false => ports.get(rail as usize),
        };
        match port {
            Some(port) => Ok(&port.name),
            None => Err(format!("no host port of {host:?} is on rail {rail}")),
        }
    }

    /// Which of these host ports do not say how their NIC makes UDP source ports; one that is not known here is not among them.
    pub(super) fn without_formula<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<String> {
        let ports = self.by_host.values().flatten();
        let silent = ports.filter(|it| it.udp_port_formula() == proto::UdpPortFormula::Unspecified);
        let silent: BTreeSet<&str> = silent.map(|it| it.name.as_str()).collect();
        let names = names.into_iter().filter(|it| silent.contains(it));
        names.map(str::to_owned).collect()
    }

    /// The NIC of a host with one.
    pub(super) fn only(&self, host: &str) -> Result<&str, String> {
        match self.of(host)? {
            [port] => Ok(&port.name),
            ports => Err(format!("{host:?} has {} host ports", ports.len())),
        }
    }
}

fn order(port: &proto::HostPort) -> (u32, &str) {
    (port.rail.unwrap_or(u32::MAX), &port.name)
}

/// A NIC by its host port.
pub(super) fn nic(host_port: &str) -> proto::Nic {
    proto::Nic {
        host_port_name: host_port.to_owned(),
        ..proto::Nic::default()
    }
}
