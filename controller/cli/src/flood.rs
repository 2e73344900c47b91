//! `weft flood`: which VTEPs get a copy of what is flooded in a VNI.

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::operator::v1 as proto;

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, or_dash};
use crate::route::Consistency;

/// What can be asked of flooding.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// The VTEPs of each VNI: each floods to all the others.
    List(Wanted),
}

/// Which lists are wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Only this VNI.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    vni: Option<u32>,
    /// Who has to agree on the answer.
    #[arg(long, value_enum, default_value_t = Consistency::Linearizable)]
    consistency: Consistency,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let Self::List(wanted) = self;
        let request = proto::ListFloodListsRequest {
            consistency: proto::Consistency::from(wanted.consistency).into(),
            vni: wanted.vni.unwrap_or(0),
        };
        let mut client = dialog.connection.operator().await?;
        let call = client.list_flood_lists(request);
        let answer = dialog.connection.answer(call).await?;
        dialog.rows::<_, FloodList>(answer.lists)
    }
}

#[derive(Serialize)]
struct FloodList {
    vni: u32,
    vteps: Vec<String>,
}

impl From<proto::FloodList> for FloodList {
    fn from(list: proto::FloodList) -> Self {
        Self {
            vni: list.vni,
            vteps: list.vteps,
        }
    }
}

impl output::Row for FloodList {
    const HEADER: &'static [&'static str] = &["VNI", "COUNT", "VTEPS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.vni.to_string(),
            self.vteps.len().to_string(),
            or_dash(&self.vteps.join(",")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn flood_lists_in_columns() {
        let row = FloodList::from(proto::FloodList {
            vni: 100,
            vteps: vec!["192.0.2.11".to_owned(), "192.0.2.12".to_owned()],
        });
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[row]).unwrap();
        list.end().unwrap();
        let expected = "VNI  COUNT  VTEPS\n100  2      192.0.2.11,192.0.2.12\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
