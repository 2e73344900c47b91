//! `weft route`: every path of every route, in FRR's notation.

mod detail;
pub(crate) mod missing;

use clap::{Args, Subcommand, ValueEnum};
use prost_types::Timestamp;
use weft_proto::v1::{self as proto, AddressFamily, ChangeType, RouteView};

use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, Heard, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Format, Row, or_dash};
use crate::words;

/// What can be asked of routes.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Paths by key; `*>` marks the best one of each route.
    List(Wanted),
    /// One route, or those of a MAC address: paths, which step put each behind, and to whom they were advertised or why not.
    Show(Shown),
}

/// Which route is wanted.
#[derive(Args)]
pub(crate) struct Shown {
    /// Its key as `weft route list` prints it, its name as `weft route list -o name` does, or a MAC address.
    #[arg(value_name = "KEY", num_args = 1..=2, required = true)]
    key: Vec<String>,
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
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=0xff_ffff),
        add = completion::vnis()
    )]
    vni: Option<u32>,
    /// Only this MAC address.
    #[arg(long, value_name = "M")]
    mac: Option<String>,
    /// Only paths of the peer with this address or router id.
    #[arg(long, value_name = "P", add = completion::peers())]
    peer: Option<String>,
    /// Only paths with this route target.
    #[arg(long, value_name = "AS:N")]
    route_target: Option<String>,
    /// Only paths by this VTEP.
    #[arg(long, value_name = "IP", add = completion::vteps())]
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
        let name = shown.key.join(" ");
        let mac = words::mac(&name);
        // A name has the route distinguisher in front.
        let (rd, key) = match name.split_once(' ') {
            Some((rd, key)) => (Some(rd.to_owned()), key.to_owned()),
            None => (None, name),
        };
        // FRR's brackets are EVPN's; what is left is a prefix.
        let guess = match key.as_str() {
            key if key.starts_with('[') || mac.is_some() => AddressFamily::L2vpnEvpn,
            key if key.contains(':') => AddressFamily::Ipv6Unicast,
            _ => AddressFamily::Ipv4Unicast,
        };
        Self {
            page_size: PAGE_SIZE,
            consistency: proto::Consistency::from(shown.consistency).into(),
            view: RouteView::Full.into(),
            family: shown.family.unwrap_or(guess).into(),
            key: Some(key).filter(|_| mac.is_none()),
            mac,
            rd: shown.rd.or(rd),
            ..Self::default()
        }
    }
}

/// One page of routes.
async fn page(
    connection: &Connection,
    request: &proto::ListRoutesRequest,
    page_token: String,
) -> Result<Page<proto::Route>, Failure> {
    let mut client = connection.routes().await?;
    let request = proto::ListRoutesRequest {
        page_token,
        ..request.clone()
    };
    let page = connection.answer(client.list_routes(request)).await?;
    Ok(Page::new(page.header, page.routes, page.next_page_token))
}

async fn show(request: proto::ListRoutesRequest, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let ask = async |token| page(connection, &request, token).await;
    let found = connection.every(ask, |_| ()).await?;
    if found.is_empty() && request.mac.is_some() {
        missing::check(&request, connection).await?;
    }
    if found.is_empty() {
        let key = request.mac.as_deref();
        let key = key.unwrap_or_else(|| request.key());
        let rd = request.rd();
        let (name, family) = (format!("{rd} {key}"), words::family(request.family()));
        let reason = format!("key: there is no {} in {family}", name.trim());
        return Err(Failure::Refused(reason));
    }
    if dialog.format.is_for_people() && dialog.format != Format::Name {
        for route in &found {
            detail::print(route, dialog.out)?;
        }
        return Ok(());
    }
    dialog.rows(&found, None)
}

async fn list(request: proto::ListRoutesRequest, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    // A watch has no filter for peers and addresses.
    if dialog.watch && request.peer.is_none() && request.ip.is_none() {
        let routes = proto::RouteFilter {
            family: request.family,
            route_type: request.route_type,
            vni: request.vni,
            route_target: request.route_target,
            mac: request.mac,
            vtep_address: request.vtep_address,
        };
        let request = proto::WatchRequest {
            routes: Some(routes),
            ..proto::WatchRequest::default()
        };
        return dialog.follow(request, heard).await;
    }
    let ask = async |connection: &Connection, token| page(connection, &request, token).await;
    let check = async |connection: &Connection| missing::check(&request, connection).await;
    dialog.pages_or(ask, check).await
}

/// What an answer of a watch says of routes.
fn heard(answer: proto::WatchResponse) -> Heard<proto::Route> {
    let whole = answer.snapshot && answer.header.is_some();
    let (mut rows, mut gone) = (Vec::new(), Vec::new());
    for change in answer.route_changes {
        let into = match change.change_type() {
            ChangeType::Deleted => &mut gone,
            ChangeType::Created | ChangeType::Updated | ChangeType::Unspecified => &mut rows,
        };
        into.extend(change.route);
    }
    Heard { rows, gone, whole }
}

fn origin(origin: proto::Origin) -> &'static str {
    match origin {
        proto::Origin::Igp => "IGP",
        proto::Origin::Egp => "EGP",
        proto::Origin::Incomplete => "incomplete",
        proto::Origin::Unspecified => "",
    }
}

impl Row for proto::Route {
    // The peer is left to the other forms: an RD or a next hop says it nearly always, and a line is full.
    const HEADER: &'static [&'static str] = &["", "RD", "KEY", "VNI", "NEXT-HOP", "BY"];
    const WIDE: &'static [&'static str] = &["PEER", "AS-PATH", "LOCAL-PREF"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Route", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let line = |path: &proto::Path| {
            let by = path.decision.as_ref().filter(|_| path.best);
            vec![
                if path.best { "*>" } else { "*" }.to_owned(),
                or_dash(self.rd()),
                self.key.clone(),
                words::or_dash(path.vni),
                or_dash(path.next_hop()),
                by.cloned().unwrap_or_default(),
                path.peer_router_id.clone(),
                or_dash(&path.as_path),
                path.local_preference.to_string(),
            ]
        };
        self.paths.iter().map(line).collect()
    }

    /// Its key, behind the route distinguisher if the family has one.
    fn name(&self) -> String {
        match self.rd() {
            "" => self.key.clone(),
            rd => format!("{rd} {}", self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        list.add(&[best], None).unwrap();
        list.add(&[other], None).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "    RD            KEY                                                   VNI  NEXT-HOP    BY\n",
            "*>  192.0.2.11:2  [2]:[0]:[48]:[00:00:5e:00:53:01]:[32]:[198.51.100.1]  100  192.0.2.11  only path\n",
            "*   -             203.0.113.0/24                                        -    192.0.2.12\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    #[test]
    fn a_route_has_a_line_for_each_path_and_one_name() {
        let path = |peer: &str| proto::Path {
            peer_router_id: peer.to_owned(),
            as_path: "64496 64497".to_owned(),
            local_preference: 100,
            ..proto::Path::default()
        };
        let route = proto::Route {
            rd: Some("192.0.2.11:2".to_owned()),
            key: "[3]:[0]:[32]:[192.0.2.11]".to_owned(),
            paths: vec![path("192.0.2.11"), path("192.0.2.12")],
            ..proto::Route::default()
        };
        let print = |format| {
            let mut out = Vec::new();
            let mut list = List::new(&mut out, format);
            list.add(std::slice::from_ref(&route), None).unwrap();
            list.end().unwrap();
            String::from_utf8(out).unwrap()
        };
        let wide = print(Format::Wide);
        assert_eq!(wide.lines().count(), 3, "{wide}");
        assert!(
            wide.contains("PEER        AS-PATH      LOCAL-PREF\n"),
            "{wide}"
        );
        assert!(wide.contains("192.0.2.12  64496 64497  100\n"), "{wide}");
        assert_eq!(
            print(Format::Name),
            "192.0.2.11:2 [3]:[0]:[32]:[192.0.2.11]\n"
        );
        let read: serde_json::Value = serde_json::from_str(&print(Format::Json)).unwrap();
        assert_eq!(read[0]["paths"][1]["peer_router_id"], "192.0.2.12");
    }

    #[test]
    fn what_a_watch_says_is_whole_with_its_revision() {
        let change = |kind: ChangeType| proto::RouteChange {
            change_type: kind.into(),
            route: Some(proto::Route::default()),
        };
        let answer = proto::WatchResponse {
            snapshot: true,
            route_changes: vec![change(ChangeType::Created), change(ChangeType::Deleted)],
            ..proto::WatchResponse::default()
        };
        let part = heard(answer.clone());
        assert_eq!(
            (part.rows.len(), part.gone.len(), part.whole),
            (1, 1, false)
        );
        let last = proto::WatchResponse {
            header: Some(proto::ResponseHeader::default()),
            ..answer
        };
        assert!(heard(last).whole);
    }
}
