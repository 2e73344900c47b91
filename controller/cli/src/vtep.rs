//! `weft vtep`: tunnel endpoints and the VNIs behind them.

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::v1 as proto;

use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash};
use crate::route::Consistency;

/// What can be asked of VTEPs.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every VTEP that a route of type 3 tells of.
    List(Wanted),
}

/// Which answer is wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Who has to agree on the answer.
    #[arg(long, value_enum, default_value_t = Consistency::Linearizable)]
    consistency: Consistency,
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
    let mut client = dialog.connection.evpn().await?;
    let ask = async |connection: &Connection, page_token| {
        let request = proto::ListVtepsRequest {
            page_size: PAGE_SIZE,
            page_token,
            consistency: proto::Consistency::from(wanted.consistency).into(),
        };
        let page = connection.answer(client.list_vteps(request)).await?;
        Ok((page.vteps, page.next_page_token))
    };
    dialog.pages::<_, Vtep>(ask).await
}

#[derive(Serialize)]
struct Vtep {
    address: String,
    peer: String,
    switch: String,
    vnis: Vec<u32>,
    macs: u64,
}

impl From<proto::Vtep> for Vtep {
    fn from(vtep: proto::Vtep) -> Self {
        Self {
            address: vtep.address,
            peer: vtep.peer_router_id,
            switch: vtep.switch_name.unwrap_or_default(),
            vnis: vtep.vnis,
            macs: vtep.mac_route_count,
        }
    }
}

impl output::Row for Vtep {
    const HEADER: &'static [&'static str] = &["ADDRESS", "SWITCH", "PEER", "MACS", "VNIS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.address.clone(),
            or_dash(&self.switch),
            or_dash(&self.peer),
            self.macs.to_string(),
            or_dash(&ranges(&self.vnis)),
        ]
    }
}

/// Ascending numbers with their runs drawn together: `100,200-299`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|before, after| before.checked_add(1) == Some(*after));
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        [..] => run.iter().map(ToString::to_string).collect(),
    });
    texts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn vteps_in_columns() {
        let vtep = proto::Vtep {
            address: "192.0.2.11".to_owned(),
            peer_router_id: "192.0.2.1".to_owned(),
            switch_name: Some("leaf1".to_owned()),
            vnis: vec![100, 200, 201, 202, 300],
            mac_route_count: 12,
        };
        let bare = proto::Vtep {
            address: "2001:db8::1".to_owned(),
            ..proto::Vtep::default()
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[Vtep::from(vtep), Vtep::from(bare)]).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "ADDRESS      SWITCH  PEER       MACS  VNIS\n",
            "192.0.2.11   leaf1   192.0.2.1  12    100,200-202,300\n",
            "2001:db8::1  -       -          0     -\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
