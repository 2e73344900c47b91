//! `weft host`: which IP address is at which MAC address behind which VTEP.

use clap::{Args, Subcommand};
use serde::Serialize;
use weft_proto::v1 as proto;

use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash};
use crate::route::Consistency;

/// What can be asked of hosts.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every claim to an IP address that a route of type 2 makes.
    List(Wanted),
}

/// Which claims are wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// Only this VNI.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    vni: Option<u32>,
    /// Only this IP address.
    #[arg(long, value_name = "IP")]
    ip: Option<String>,
    /// Only addresses that several hosts claim.
    #[arg(long)]
    duplicates: bool,
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
        let request = proto::ListHostAddressesRequest {
            page_size: PAGE_SIZE,
            page_token,
            consistency: proto::Consistency::from(wanted.consistency).into(),
            vni: wanted.vni,
            ip: wanted.ip.clone(),
            duplicates_only: wanted.duplicates,
        };
        let call = client.list_host_addresses(request);
        let page = connection.answer(call).await?;
        Ok((page.host_addresses, page.next_page_token))
    };
    dialog.pages::<_, Host>(ask).await
}

#[derive(Serialize)]
struct Host {
    vni: u32,
    rd: String,
    ip: String,
    mac: String,
    vtep: String,
    esi: String,
    sequence: u32,
    sticky: bool,
    gateway: bool,
    router: bool,
    duplicate: bool,
}

impl From<proto::HostAddress> for Host {
    fn from(host: proto::HostAddress) -> Self {
        Self {
            vni: host.vni.unwrap_or(0),
            rd: host.rd.unwrap_or_default(),
            ip: host.ip,
            mac: host.mac,
            vtep: host.vtep_address,
            esi: host.esi.unwrap_or_default(),
            sequence: host.sequence,
            sticky: host.sticky,
            gateway: host.gateway,
            router: host.router,
            duplicate: host.duplicate,
        }
    }
}

impl output::Row for Host {
    const HEADER: &'static [&'static str] = &["VNI", "IP", "MAC", "VTEP", "ESI", "FLAGS"];

    fn cells(&self) -> Vec<String> {
        let flags = [
            (self.sticky, "sticky"),
            (self.gateway, "gateway"),
            (self.router, "router"),
            (self.duplicate, "duplicate"),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name);
        vec![
            match self.vni {
                0 => or_dash(&self.rd),
                vni => vni.to_string(),
            },
            self.ip.clone(),
            self.mac.clone(),
            self.vtep.clone(),
            or_dash(&self.esi),
            or_dash(&flags.collect::<Vec<_>>().join(",")),
        ]
    }

    fn name(&self) -> String {
        self.ip.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn hosts_in_columns() {
        let claim = |mac: &str| {
            Host::from(proto::HostAddress {
                vni: Some(100),
                ip: "198.51.100.1".to_owned(),
                mac: mac.to_owned(),
                vtep_address: "192.0.2.11".to_owned(),
                sticky: true,
                duplicate: true,
                ..proto::HostAddress::default()
            })
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[claim("00:00:5e:00:53:01")]).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "VNI  IP            MAC                VTEP        ESI  FLAGS\n",
            "100  198.51.100.1  00:00:5e:00:53:01  192.0.2.11  -    sticky,duplicate\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
