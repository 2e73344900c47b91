//! `weft pin`: which spines the flows of jobs are to go over.

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use weft_proto::v1 as proto;

use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash};

/// What can be asked of pins.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every flow that is pinned, with its spines, their weights and the UDP ports of queue pairs that divide it; with --watch the list
    /// is read again each second.
    List(Wanted),
}

/// Which pins are wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Only those of this job.
    #[arg(long, value_name = "JOB", add = completion::jobs())]
    job: Option<String>,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List(wanted) => list(wanted, dialog).await,
        }
    }
}

async fn list(wanted: Wanted, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    // A watch of the API says no UDP ports: what is watched is the list, so that a row is the same in both.
    let ask = async |connection: &Connection, page_token| {
        let mut client = connection.plans().await?;
        let request = proto::ListPinsRequest {
            page_size: PAGE_SIZE,
            page_token,
            job_name: wanted.job.clone(),
        };
        let page = connection.answer(client.list_pins(request)).await?;
        Ok(Page::new(page.header, page.pins, page.next_page_token))
    };
    dialog.pages(ask).await
}

impl Row for proto::Pin {
    const HEADER: &'static [&'static str] =
        &["JOB", "SOURCE", "DESTINATION", "SPINES", "UDP-PORTS"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Pin", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let paths = self.paths.iter();
        let paths = paths.map(|it| format!("{}*{}", it.spine_name, it.weight));
        vec![vec![
            self.job_name.clone(),
            self.source_host_port_name.clone(),
            self.destination_host_port_name.clone(),
            or_dash(&paths.collect::<Vec<_>>().join(", ")),
            or_dash(&ports(self)),
        ]]
    }

    /// A NIC may send to several, in several jobs.
    fn name(&self) -> String {
        let (from, to) = (
            &self.source_host_port_name,
            &self.destination_host_port_name,
        );
        format!("{} {from} {to}", self.job_name)
    }
}

/// The UDP source ports of the queue pairs that go over each spine: `spine1: 49152 49153, spine2: 49160`.
pub(crate) fn ports(pin: &proto::Pin) -> String {
    let of_spine = |path: &proto::PinPath| {
        let own = pin
            .ports
            .iter()
            .filter(|it| it.spine_name == path.spine_name);
        let mut ports: Vec<_> = own.map(|it| it.udp_source_port.to_string()).collect();
        let more = ports.len().saturating_sub(PORTS_MAX);
        ports.truncate(PORTS_MAX);
        if more > 0 {
            ports.push(format!("and {more} more"));
        }
        (!ports.is_empty()).then(|| format!("{}: {}", path.spine_name, ports.join(" ")))
    };
    let spines: Vec<_> = pin.paths.iter().filter_map(of_spine).collect();
    spines.join(", ")
}

/// Ports of a spine that a line shows; --output json has all.
const PORTS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_are_shown_by_the_spine_that_they_go_over() {
        let path = |spine: &str| proto::PinPath {
            spine_name: spine.to_owned(),
            weight: 1,
        };
        let port = |udp_source_port, spine: &str| proto::PinnedPort {
            udp_source_port,
            spine_name: spine.to_owned(),
            queue_pair_count: 1,
        };
        let mut pin = proto::Pin {
            paths: vec![path("spine1"), path("spine2")],
            ..proto::Pin::default()
        };
        assert_eq!(pin.lines(None)[0][4], "-");
        pin.ports = vec![
            port(49_152, "spine1"),
            port(49_160, "spine2"),
            port(49_153, "spine1"),
        ];
        assert_eq!(ports(&pin), "spine1: 49152 49153, spine2: 49160");
        pin.ports = (0..20).map(|at| port(50_000 + at, "spine2")).collect();
        assert!(ports(&pin).starts_with("spine2: 50000 50001 "));
        assert!(ports(&pin).ends_with(" 50015 and 4 more"));
    }
}
