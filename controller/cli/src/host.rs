//! `weft host`: which IP address is at which MAC address behind which VTEP.

use clap::{Args, Subcommand};
use prost_types::Timestamp;
use weft_proto::v1 as proto;

use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash};
use crate::route::{Consistency, missing};

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
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=0xff_ffff),
        add = completion::vnis()
    )]
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
    let request = proto::ListHostAddressesRequest {
        consistency: proto::Consistency::from(wanted.consistency).into(),
        vni: wanted.vni,
        ip: wanted.ip,
        duplicates_only: wanted.duplicates,
        ..proto::ListHostAddressesRequest::default()
    };
    let ask = async |connection: &Connection, token| page(connection, &request, token).await;
    let check = async |connection: &Connection| {
        let routes = proto::ListRoutesRequest {
            consistency: request.consistency,
            family: proto::AddressFamily::L2vpnEvpn.into(),
            ..proto::ListRoutesRequest::default()
        };
        match request.vni {
            Some(vni) => missing::check_vni(vni, &routes, connection).await,
            None => Ok(()),
        }
    };
    dialog.pages_or(ask, check).await
}

/// One page of claims.
pub(crate) async fn page(
    connection: &Connection,
    request: &proto::ListHostAddressesRequest,
    page_token: String,
) -> Result<Page<proto::HostAddress>, Failure> {
    let mut client = connection.evpn().await?;
    let request = proto::ListHostAddressesRequest {
        page_size: PAGE_SIZE,
        page_token,
        ..request.clone()
    };
    let call = client.list_host_addresses(request);
    let page = connection.answer(call).await?;
    let rows = page.host_addresses;
    Ok(Page::new(page.header, rows, page.next_page_token))
}

/// The VNI that an address belongs to, or the route distinguisher of the EVPN instance.
pub(crate) fn domain(host: &proto::HostAddress) -> String {
    match host.vni {
        Some(vni) => vni.to_string(),
        None => or_dash(host.rd()),
    }
}

impl Row for proto::HostAddress {
    const HEADER: &'static [&'static str] = &["VNI", "IP", "MAC", "VTEP", "ESI", "FLAGS"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.HostAddress", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let flags = [
            (self.sticky, "sticky"),
            (self.gateway, "gateway"),
            (self.router, "router"),
            (self.duplicate, "duplicate"),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name);
        vec![vec![
            domain(self),
            self.ip.clone(),
            self.mac.clone(),
            self.vtep_address.clone(),
            or_dash(self.esi()),
            or_dash(&flags.collect::<Vec<_>>().join(",")),
        ]]
    }

    /// Several hosts may have one address, and one host several VTEPs.
    fn name(&self) -> String {
        let Self {
            ip,
            mac,
            vtep_address,
            ..
        } = self;
        format!("{} {ip} {mac} {vtep_address}", domain(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn hosts_in_columns() {
        let claim = |mac: &str| proto::HostAddress {
            vni: Some(100),
            ip: "198.51.100.1".to_owned(),
            mac: mac.to_owned(),
            vtep_address: "192.0.2.11".to_owned(),
            sticky: true,
            duplicate: true,
            ..proto::HostAddress::default()
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[claim("00:00:5e:00:53:01")], None).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "VNI  IP            MAC                VTEP        ESI  FLAGS\n",
            "100  198.51.100.1  00:00:5e:00:53:01  192.0.2.11  -    sticky,duplicate\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
