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
    /// Every flow that is pinned, with its spines and their weights.
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
    const HEADER: &'static [&'static str] = &["JOB", "SOURCE", "DESTINATION", "SPINES"];

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
