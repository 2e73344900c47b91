//! `weft vni`: VNIs with their flood lists.

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use tonic::Code;
use weft_proto::v1 as proto;

use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash};
use crate::route::Consistency;

/// What can be asked of VNIs.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Each VNI with its flood list: each of the VTEPs floods to all the others.
    List(Wanted),
    /// One VNI: its VTEPs, the switches that have them, and how many MAC routes lead to each.
    Show {
        /// The VNI.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=0xff_ffff), add = completion::vnis())]
        vni: u32,
        /// Who has to agree on the answer.
        #[arg(long, value_enum, default_value_t = Consistency::Linearizable)]
        consistency: Consistency,
    },
}

/// Which lists are wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Only this VNI.
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=0xff_ffff),
        add = completion::vnis()
    )]
    vni: Option<u32>,
    /// Who has to agree on the answer.
    #[arg(long, value_enum, default_value_t = Consistency::Linearizable)]
    consistency: Consistency,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let wanted = match self {
            Self::List(wanted) => wanted,
            Self::Show { vni, consistency } => {
                let consistency = proto::Consistency::from(consistency).into();
                return show(proto::GetVniRequest { consistency, vni }, dialog).await;
            }
        };
        let consistency = proto::Consistency::from(wanted.consistency).into();
        match wanted.vni {
            Some(vni) => one(proto::GetVniRequest { consistency, vni }, dialog).await,
            None => all(consistency, dialog).await,
        }
    }
}

async fn all(consistency: i32, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let ask = async |connection: &Connection, page_token| {
        let mut client = connection.evpn().await?;
        let request = proto::ListVnisRequest {
            page_size: PAGE_SIZE,
            page_token,
            consistency,
        };
        let page = connection.answer(client.list_vnis(request)).await?;
        Ok(Page::new(page.header, page.vnis, page.next_page_token))
    };
    dialog.pages(ask).await
}

/// A list of one row. While it is watched, it has none as long as no route has the VNI.
async fn one(request: proto::GetVniRequest, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let is_watched = dialog.watch;
    let ask = async |connection: &Connection, _| {
        let mut client = connection.evpn().await?;
        match connection.status(client.get_vni(request)).await? {
            Ok(answer) => Ok(Page::new(
                answer.header,
                answer.resource.into_iter().collect(),
                String::new(),
            )),
            Err(status) if is_watched && status.code() == Code::NotFound => {
                Ok(Page::new(None, Vec::new(), String::new()))
            }
            Err(status) => Err(Failure::from_status(connection.address(), &status)),
        }
    };
    dialog.pages(ask).await
}

async fn show(request: proto::GetVniRequest, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.evpn().await?;
        connection.answer(client.get_vni(request)).await
    };
    let vni = connection
        .read(question)
        .await?
        .resource
        .unwrap_or_default();
    if dialog.object(&vni.object())? {
        return Ok(());
    }
    let row = |vtep: &proto::VniVtep| {
        vec![
            vtep.address.clone(),
            or_dash(vtep.switch_name()),
            vtep.mac_route_count.to_string(),
        ]
    };
    let rows: Vec<_> = vni.vteps.iter().map(row).collect();
    dialog.table(&["VTEP", "SWITCH", "MACS"], &rows)
}

impl Row for proto::Vni {
    const HEADER: &'static [&'static str] = &["VNI", "COUNT", "VTEPS"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Vni", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let vteps: Vec<_> = self.vteps.iter().map(|it| it.address.as_str()).collect();
        vec![vec![
            self.vni.to_string(),
            self.vteps.len().to_string(),
            or_dash(&vteps.join(",")),
        ]]
    }

    fn name(&self) -> String {
        self.vni.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn flood_lists_in_columns() {
        let vtep = |address: &str| proto::VniVtep {
            address: address.to_owned(),
            ..proto::VniVtep::default()
        };
        let row = proto::Vni {
            vni: 100,
            vteps: vec![vtep("192.0.2.11"), vtep("192.0.2.12")],
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[row], None).unwrap();
        list.end().unwrap();
        let expected = "VNI  COUNT  VTEPS\n100  2      192.0.2.11,192.0.2.12\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
