//! `weft vtep`: tunnel endpoints and the VNIs behind them.

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use weft_proto::v1 as proto;

use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash};
use crate::route::Consistency;

/// What can be asked of VTEPs.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every VTEP that a route of type 3 announces.
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
    let consistency = wanted.consistency.into();
    let ask = async |connection: &Connection, token| page(connection, consistency, token).await;
    dialog.pages(ask).await
}

/// One page of VTEPs.
pub(crate) async fn page(
    connection: &Connection,
    consistency: proto::Consistency,
    page_token: String,
) -> Result<Page<proto::Vtep>, Failure> {
    let mut client = connection.evpn().await?;
    let request = proto::ListVtepsRequest {
        page_size: PAGE_SIZE,
        page_token,
        consistency: consistency.into(),
    };
    let page = connection.answer(client.list_vteps(request)).await?;
    Ok(Page::new(page.header, page.vteps, page.next_page_token))
}

impl Row for proto::Vtep {
    const HEADER: &'static [&'static str] = &["ADDRESS", "SWITCH", "PEER", "MACS", "VNIS"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Vtep", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        vec![vec![
            self.address.clone(),
            or_dash(self.switch_name()),
            or_dash(&self.peer_router_id),
            self.mac_route_count.to_string(),
            or_dash(&ranges(&self.vnis)),
        ]]
    }

    fn name(&self) -> String {
        self.address.clone()
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
        list.add(&[vtep, bare], None).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "ADDRESS      SWITCH  PEER       MACS  VNIS\n",
            "192.0.2.11   leaf1   192.0.2.1  12    100,200-202,300\n",
            "2001:db8::1  -       -          0     -\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
