//! `weft backup`: everything that operators and programs declared, as one file, and back again. The file does not depend on the format
//! of a replica's data directory.

use std::collections::HashSet;

use clap::Subcommand;
use weft_proto::v1 as proto;

use crate::dialog::Dialog;
use crate::failure::Failure;

mod difference;
mod document;
mod restore;
mod save;
mod state;

/// Commands of backups.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Write the declared fabric, operator states, balance modes and jobs to a file.
    Save(save::Save),
    /// Make everything that is declared what a file has; on an error of the file nothing changes.
    Restore(restore::Restore),
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Save(save) => save.run(dialog).await,
            Self::Restore(restore) => restore.run(dialog).await,
        }
    }
}

/// Everything that operators and programs declared, without the fields that only answers have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Backup {
    /// Declared fabric, with the operator state of each switch and link.
    fabric: proto::Fabric,
    /// Generation of the fabric.
    generation: u64,
    /// Balance mode of leaves without a mode of their own.
    default_mode: proto::BalanceMode,
    /// Leaves with a mode of their own.
    leaf_balances: Vec<proto::LeafBalance>,
    /// Jobs, in order of their names.
    jobs: Vec<proto::Job>,
}

impl Backup {
    /// Removes the fields that only answers have, and states the operator state of each switch and link.
    fn normalize(&mut self) {
        let state = |state: proto::AdminState| match state {
            proto::AdminState::Down => proto::AdminState::Down.into(),
            proto::AdminState::Up | proto::AdminState::Unspecified => proto::AdminState::Up.into(),
        };
        for switch in &mut self.fabric.switches {
            switch.etag.clear();
            switch.admin_state = state(switch.admin_state());
        }
        for link in &mut self.fabric.links {
            link.etag.clear();
            link.admin_state = state(link.admin_state());
        }
        for host in &mut self.fabric.hosts {
            host.etag.clear();
        }
        for port in &mut self.fabric.host_ports {
            port.etag.clear();
        }
        for job in &mut self.jobs {
            job.etag.clear();
            job.ttl = None;
        }
        for leaf in &mut self.leaf_balances {
            *leaf = proto::LeafBalance {
                leaf_name: std::mem::take(&mut leaf.leaf_name),
                mode: leaf.mode,
                ..proto::LeafBalance::default()
            };
        }
    }

    /// Returns the first leaf with a mode of its own that the fabric of this backup does not have.
    fn lost_leaf(&self) -> Option<&str> {
        let switches = self.fabric.switches.iter();
        let leaves = switches.filter(|it| it.role() == proto::SwitchRole::Leaf);
        let leaves: HashSet<_> = leaves.map(|it| it.name.as_str()).collect();
        let mut names = self.leaf_balances.iter().map(|it| it.leaf_name.as_str());
        names.find(|name| !leaves.contains(name))
    }

    /// True if it names no switch, host, link or host port.
    fn names_no_resource(&self) -> bool {
        let fabric = &self.fabric;
        fabric.switches.is_empty()
            && fabric.hosts.is_empty()
            && fabric.links.is_empty()
            && fabric.host_ports.is_empty()
    }

    /// True if nothing is declared.
    fn is_empty(&self) -> bool {
        self.names_no_resource() && self.fabric.display_name.is_empty() && self.jobs.is_empty()
    }
}
