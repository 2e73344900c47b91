//! `weft route`: every path of every route, in FRR's notation.

mod detail;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use weft_proto::v1::{self as proto, AddressFamily, RouteView};

use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash};
use crate::words;

/// What can be asked of routes.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Paths by key; `*>` marks the best one of each route.
    List(Wanted),
    /// One route: its paths, which step put each behind, and who was told of it or why not.
    Show(Shown),
}

/// Which route is wanted.
#[derive(Args)]
pub(crate) struct Shown {
    /// Its key as `weft route list` prints it.
    key: String,
    /// l2vpn-evpn, ipv4-unicast, ipv6-unicast or rtc; by the form of the key if absent.
    #[arg(long, value_name = "FAMILY", value_parser = words::read_family)]
    family: Option<AddressFamily>,
    /// Only this route distinguisher.
    #[arg(long, value_name = "RD")]
    rd: Option<String>,
    /// Who has to agree on the answer.
    #[arg(long, value_enum, default_value_t = Consistency::Linearizable)]
    consistency: Consistency,
}

/// Which routes are wanted.
#[derive(Args)]
pub(crate) struct Wanted {
    /// l2vpn-evpn, ipv4-unicast, ipv6-unicast or rtc.
    #[arg(
        long,
        value_name = "FAMILY",
        default_value = "l2vpn-evpn",
        value_parser = words::read_family
    )]
    family: AddressFamily,
    /// Only this EVPN route type.
    #[arg(long = "type", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=255))]
    route_type: Option<u32>,
    /// Only this VNI.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=0xff_ffff))]
    vni: Option<u32>,
    /// Only this MAC address.
    #[arg(long, value_name = "M")]
    mac: Option<String>,
    /// Only paths of the peer with this address or router id.
    #[arg(long, value_name = "P")]
    peer: Option<String>,
    /// Only paths with this route target.
    #[arg(long, value_name = "AS:N")]
    route_target: Option<String>,
    /// Only paths by this VTEP.
    #[arg(long, value_name = "IP")]
    vtep: Option<String>,
    /// Only routes of this host address, and prefixes that cover it.
    #[arg(long, value_name = "IP")]
    ip: Option<String>,
    /// Who has to agree on the answer.
    #[arg(long, value_enum, default_value_t = Consistency::Linearizable)]
    consistency: Consistency,
}

/// Who has to agree on an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Consistency {
    /// A majority of the replicas.
    Linearizable,
    /// The asked replica alone; answers without a majority too, and may be late.
    Serializable,
}

impl From<Consistency> for proto::Consistency {
    fn from(consistency: Consistency) -> Self {
        match consistency {
            Consistency::Linearizable => Self::Linearizable,
            Consistency::Serializable => Self::Serializable,
        }
    }
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List(wanted) => list(wanted.into(), dialog).await,
            Self::Show(shown) => show(shown.into(), dialog).await,
        }
    }
}

impl From<Wanted> for proto::ListRoutesRequest {
    fn from(wanted: Wanted) -> Self {
        Self {
            page_size: PAGE_SIZE,
            consistency: proto::Consistency::from(wanted.consistency).into(),
            family: wanted.family.into(),
            route_type: wanted
                .route_type
                .and_then(|number| i32::try_from(number).ok()),
            vni: wanted.vni,
            mac: wanted.mac,
            peer: wanted.peer,
            route_target: wanted.route_target,
            vtep_address: wanted.vtep,
            ip: wanted.ip,
            ..Self::default()
        }
    }
}

impl From<Shown> for proto::ListRoutesRequest {
    fn from(shown: Shown) -> Self {
        // FRR's brackets are EVPN's; what is left is a prefix.
        let guess = match shown.key.as_str() {
            key if key.starts_with('[') => AddressFamily::L2vpnEvpn,
            key if key.contains(':') => AddressFamily::Ipv6Unicast,
            _ => AddressFamily::Ipv4Unicast,
        };
        Self {
            page_size: PAGE_SIZE,
            consistency: proto::Consistency::from(shown.consistency).into(),
            view: RouteView::Full.into(),
            family: shown.family.unwrap_or(guess).into(),
            key: Some(shown.key),
            rd: shown.rd,
            ..Self::default()
        }
    }
}

async fn show(request: proto::ListRoutesRequest, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.routes().await?;
    let ask = async |page_token| {
        let request = proto::ListRoutesRequest {
            page_token,
            ..request.clone()
        };
        let page = dialog
            .connection
            .answer(client.list_routes(request))
            .await?;
        Ok((page.routes, page.next_page_token))
    };
    let found = dialog.connection.every(ask).await?.into_iter();
    let found: Vec<_> = found.map(detail::Destination::from).collect();
    if found.is_empty() {
        let (rd, key) = (request.rd(), request.key());
        let (name, family) = (format!("{rd} {key}"), words::family(request.family()));
        let reason = format!("key: there is no {} in {family}", name.trim());
        return Err(Failure::Refused(reason));
    }
    if !output::object(dialog.out, dialog.format, &found)? {
        for destination in &found {
            destination.print(dialog.out)?;
        }
    }
    Ok(())
}

async fn list(request: proto::ListRoutesRequest, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let mut client = dialog.connection.routes().await?;
    let ask = async |connection: &Connection, page_token| {
        let request = proto::ListRoutesRequest {
            page_token,
            ..request.clone()
        };
        let page = connection.answer(client.list_routes(request)).await?;
        let rows = page.routes.into_iter().flat_map(Route::rows);
        Ok((rows.collect(), page.next_page_token))
    };
    dialog.pages::<Route, Route>(ask).await
}

#[derive(Serialize)]
struct Route {
    family: String,
    rd: String,
    key: String,
    route_type: u32,
    vni: u32,
    next_hop: String,
    peer: String,
    peer_asn: u32,
    best: bool,
    by: String,
    as_path: String,
    local_pref: u32,
    communities: Vec<String>,
    ext_communities: Vec<String>,
    origin: String,
    esi: String,
}

impl Route {
    /// One for each path.
    fn rows(mut route: proto::Route) -> Vec<Self> {
        let paths = std::mem::take(&mut route.paths).into_iter();
        paths.map(|path| Self::new(&route, path)).collect()
    }

    fn new(route: &proto::Route, path: proto::Path) -> Self {
        Self {
            family: words::family(route.family()),
            rd: route.rd().to_owned(),
            key: route.key.clone(),
            route_type: u32::try_from(route.route_type).unwrap_or(0),
            vni: path.vni(),
            origin: origin(path.origin()).to_owned(),
            next_hop: path.next_hop.unwrap_or_default(),
            peer: path.peer_router_id,
            peer_asn: path.peer_asn,
            best: path.best,
            by: path.decision.filter(|_| path.best).unwrap_or_default(),
            as_path: path.as_path,
            local_pref: path.local_preference,
            communities: path.communities,
            ext_communities: path.extended_communities,
            esi: path.esi.unwrap_or_default(),
        }
    }
}

fn origin(origin: proto::Origin) -> &'static str {
    match origin {
        proto::Origin::Igp => "IGP",
        proto::Origin::Egp => "EGP",
        proto::Origin::Incomplete => "incomplete",
        proto::Origin::Unspecified => "",
    }
}

impl output::Row for Route {
    // The peer is left to the other formats: an RD or a next hop says it nearly always, and a line is full.
    const HEADER: &'static [&'static str] = &["", "RD", "KEY", "VNI", "NEXT-HOP", "BY"];

    fn cells(&self) -> Vec<String> {
        vec![
            if self.best { "*>" } else { "*" }.to_owned(),
            or_dash(&self.rd),
            self.key.clone(),
            if self.vni == 0 {
                "-".to_owned()
            } else {
                self.vni.to_string()
            },
            or_dash(&self.next_hop),
            self.by.clone(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;
    use crate::output::List;

    #[test]
    fn routes_in_columns_with_the_best_path_marked() {
        let best = proto::Route {
            rd: Some("192.0.2.11:2".to_owned()),
            key: "[2]:[0]:[48]:[00:00:5e:00:53:01]:[32]:[198.51.100.1]".to_owned(),
            paths: vec![proto::Path {
                vni: Some(100),
                next_hop: Some("192.0.2.11".to_owned()),
                best: true,
                decision: Some("only path".to_owned()),
                ..proto::Path::default()
            }],
            ..proto::Route::default()
        };
        let other = proto::Route {
            key: "203.0.113.0/24".to_owned(),
            paths: vec![proto::Path {
                next_hop: Some("192.0.2.12".to_owned()),
                ..proto::Path::default()
            }],
            ..proto::Route::default()
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        // Two pages: the header stands once, and the widths of the first page stay.
        list.add(&Route::rows(best)).unwrap();
        list.add(&Route::rows(other)).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "    RD            KEY                                                   VNI  NEXT-HOP    BY\n",
            "*>  192.0.2.11:2  [2]:[0]:[48]:[00:00:5e:00:53:01]:[32]:[198.51.100.1]  100  192.0.2.11  only path\n",
            "*   -             203.0.113.0/24                                        -    192.0.2.12\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
