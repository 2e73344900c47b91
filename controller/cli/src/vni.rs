//! `weft vni`: VNIs with their flood lists.

use clap::{Args, Subcommand};
use serde::Serialize;
use tonic::Code;
use weft_proto::v1 as proto;

use crate::completion;
use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash};
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
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
    let mut client = dialog.connection.evpn().await?;
    let ask = async |connection: &Connection, page_token| {
        let request = proto::ListVnisRequest {
            page_size: PAGE_SIZE,
            page_token,
            consistency,
        };
        let page = connection.answer(client.list_vnis(request)).await?;
        Ok((page.vnis, page.next_page_token))
    };
    dialog.pages::<_, FloodList>(ask).await
}

/// A list of one row, or of none if nobody is a member of the VNI.
async fn one(request: proto::GetVniRequest, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.evpn().await?;
    let vni = match dialog.connection.status(client.get_vni(request)).await? {
        Ok(answer) => answer.resource,
        Err(status) if status.code() == Code::NotFound => None,
        Err(status) => {
            let address = dialog.connection.address();
            return Err(Failure::from_status(address, &status));
        }
    };
    dialog.rows::<_, FloodList>(vni.into_iter().collect())
}

async fn show(request: proto::GetVniRequest, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.evpn().await?;
    let answer = dialog.connection.answer(client.get_vni(request)).await?;
    let vteps = answer.resource.unwrap_or_default().vteps;
    dialog.rows::<_, Member>(vteps)
}

#[derive(Serialize)]
struct Member {
    address: String,
    switch: String,
    macs: u64,
}

impl From<proto::VniVtep> for Member {
    fn from(vtep: proto::VniVtep) -> Self {
        Self {
            address: vtep.address,
            switch: vtep.switch_name.unwrap_or_default(),
            macs: vtep.mac_route_count,
        }
    }
}

impl output::Row for Member {
    const HEADER: &'static [&'static str] = &["VTEP", "SWITCH", "MACS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.address.clone(),
            or_dash(&self.switch),
            self.macs.to_string(),
        ]
    }
}

#[derive(Serialize)]
struct FloodList {
    vni: u32,
    vteps: Vec<String>,
}

impl From<proto::Vni> for FloodList {
    fn from(vni: proto::Vni) -> Self {
        let vteps = vni.vteps.into_iter().map(|vtep| vtep.address);
        Self {
            vni: vni.vni,
            vteps: vteps.collect(),
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
        let vtep = |address: &str| proto::VniVtep {
            address: address.to_owned(),
            ..proto::VniVtep::default()
        };
        let row = FloodList::from(proto::Vni {
            vni: 100,
            vteps: vec![vtep("192.0.2.11"), vtep("192.0.2.12")],
        });
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[row]).unwrap();
        list.end().unwrap();
        let expected = "VNI  COUNT  VTEPS\n100  2      192.0.2.11,192.0.2.12\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
