//! The services as a client meets them: over gRPC, a lone replica with its own store and reflector behind them.

use tonic::transport::Channel;
use tonic::{Code, Status};
use weft_proto::v1 as proto;

use super::lone::{Lone, fields, reason};
use proto::config_service_client::ConfigServiceClient;
use proto::evpn_service_client::EvpnServiceClient;
use proto::peer_service_client::PeerServiceClient;
use proto::plan_service_client::PlanServiceClient;
use proto::replica_service_client::ReplicaServiceClient;
use proto::route_service_client::RouteServiceClient;

/// Clients of everything but the fabric.
struct Clients {
    peers: PeerServiceClient<Channel>,
    routes: RouteServiceClient<Channel>,
    evpn: EvpnServiceClient<Channel>,
    replicas: ReplicaServiceClient<Channel>,
    plans: PlanServiceClient<Channel>,
    config: ConfigServiceClient<Channel>,
}

/// Asks a call with this and nothing else.
macro_rules! ask {
    ($client:expr, $call:ident, $request:ident { $($field:ident: $value:expr),* }) => {{
        #[allow(clippy::needless_update, reason = "some have one field")]
        let request = proto::$request { $($field: $value,)* ..Default::default() };
        $client.$call(request).await.map(tonic::Response::into_inner)
    }};
}

/// What a call that lists answers for a page.
macro_rules! list {
    ($client:expr, $call:ident, $request:ident, $page:expr) => {
        ask!(
            $client,
            $call,
            $request {
                page_size: $page.0,
                page_token: $page.1.to_owned()
            }
        )
        .map(|answer| (answer.header, answer.next_page_token))
    };
}

impl Clients {
    /// Once the replica knows that it leads.
    async fn of(lone: &Lone) -> Self {
        let channel = || lone.channel.clone();
        let mut clients = Self {
            peers: PeerServiceClient::new(channel()),
            routes: RouteServiceClient::new(channel()),
            evpn: EvpnServiceClient::new(channel()),
            replicas: ReplicaServiceClient::new(channel()),
            plans: PlanServiceClient::new(channel()),
            config: ConfigServiceClient::new(channel()),
        };
        let mut leader = None;
        while leader.is_none() {
            let answer = ask!(clients.replicas, list_replicas, ListReplicasRequest {});
            leader = answer.unwrap().header.unwrap().leader_id;
            tokio::task::yield_now().await;
        }
        clients
    }

    /// What every list answers for a page, by size and token: header and next token.
    async fn lists(
        &mut self,
        page: (i32, &str),
    ) -> Vec<Result<(Option<proto::ResponseHeader>, String), Status>> {
        let (evpn, plans) = (&mut self.evpn, &mut self.plans);
        vec![
            list!(self.peers, list_peers, ListPeersRequest, page),
            list!(self.routes, list_routes, ListRoutesRequest, page),
            list!(
                evpn,
                list_ethernet_segments,
                ListEthernetSegmentsRequest,
                page
            ),
            list!(evpn, list_host_addresses, ListHostAddressesRequest, page),
            list!(evpn, list_vnis, ListVnisRequest, page),
            list!(evpn, list_vteps, ListVtepsRequest, page),
            list!(evpn, list_duplicate_macs, ListDuplicateMacsRequest, page),
            list!(self.replicas, list_replicas, ListReplicasRequest, page),
            list!(plans, list_leaf_plans, ListLeafPlansRequest, page),
            list!(plans, list_leaf_plan_diffs, ListLeafPlanDiffsRequest, page),
            list!(plans, list_switch_agents, ListSwitchAgentsRequest, page),
            list!(plans, list_link_statuses, ListLinkStatusesRequest, page),
            list!(plans, list_decisions, ListDecisionsRequest, page),
            list!(
                self.config,
                list_config_values,
                ListConfigValuesRequest,
                page
            ),
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_list_names_the_replica_and_refuses_pages_that_are_none() {
    let lone = Lone::start().await;
    let mut clients = Clients::of(&lone).await;
    for (at, answer) in clients.lists((0, "")).await.into_iter().enumerate() {
        let (header, next) = answer.unwrap();
        let header = header.unwrap();
        assert_eq!((header.replica_id, header.leader_id), (1, Some(1)), "{at}");
        assert!(header.answer_time.is_some(), "{at}");
        assert_eq!(next, "", "{at}");
    }
    for token in ["nonsense", "switches/leaf1"] {
        for (at, answer) in clients.lists((0, token)).await.into_iter().enumerate() {
            assert_eq!(fields(&answer.unwrap_err()), ["page_token"], "{at}");
        }
    }
    for (at, answer) in clients.lists((-1, "")).await.into_iter().enumerate() {
        assert_eq!(fields(&answer.unwrap_err()), ["page_size"], "{at}");
    }
    lone.stop().await;
}

fn assert_missing(refusals: &[Status]) {
    for (at, refusal) in refusals.iter().enumerate() {
        let expected = (Code::NotFound, "NO_SUCH_RESOURCE".to_owned());
        assert_eq!(reason(refusal), expected, "{at}: {refusal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_route_and_no_peer_tells_of_is_refused_with_a_reason() {
    let lone = Lone::start().await;
    let mut clients = Clients::of(&lone).await;
    let (peers, routes, evpn) = (&mut clients.peers, &mut clients.routes, &mut clients.evpn);
    let name = "192.0.2.9".to_owned();
    let esi = "03:44:38:39:ff:ff:01:00:00:01".to_owned();
    let key = "203.0.113.0/24".to_owned();
    let family = proto::AddressFamily::Ipv4Unicast.into();
    assert_missing(&[
        ask!(peers, get_peer, GetPeerRequest { name: name.clone() }).unwrap_err(),
        ask!(
            routes,
            get_route,
            GetRouteRequest {
                family: family,
                key: key
            }
        )
        .unwrap_err(),
        ask!(
            evpn,
            get_ethernet_segment,
            GetEthernetSegmentRequest { esi: esi }
        )
        .unwrap_err(),
        ask!(evpn, get_vni, GetVniRequest { vni: 7 }).unwrap_err(),
        ask!(evpn, get_vtep, GetVtepRequest { address: name }).unwrap_err(),
    ]);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_fabric_and_no_file_has_is_refused_with_a_reason() {
    let lone = Lone::start().await;
    let mut clients = Clients::of(&lone).await;
    let (plans, config) = (&mut clients.plans, &mut clients.config);
    let leaf = || "leaf9".to_owned();
    let some = || Some("nothing".to_owned());
    assert_missing(&[
        ask!(
            plans,
            get_leaf_plan,
            GetLeafPlanRequest { leaf_name: leaf() }
        )
        .unwrap_err(),
        ask!(
            plans,
            get_leaf_plan_diff,
            GetLeafPlanDiffRequest { leaf_name: leaf() }
        )
        .unwrap_err(),
        ask!(
            plans,
            list_leaf_plans,
            ListLeafPlansRequest { leaf_name: some() }
        )
        .unwrap_err(),
        ask!(
            plans,
            get_switch_agent,
            GetSwitchAgentRequest {
                switch_name: leaf()
            }
        )
        .unwrap_err(),
        ask!(
            plans,
            list_job_flows,
            ListJobFlowsRequest {
                job_name: "nothing".to_owned()
            }
        )
        .unwrap_err(),
        ask!(
            config,
            list_config_values,
            ListConfigValuesRequest { subject: some() }
        )
        .unwrap_err(),
    ]);
    let refusal = ask!(config, reload_config, ReloadConfigRequest {}).unwrap_err();
    let expected = (Code::FailedPrecondition, "NO_CONFIG_FILE".to_owned());
    assert_eq!(reason(&refusal), expected);
    lone.stop().await;
}

/// Size, token and consistency of a page, whatever it is a page of.
#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_list_is_named_at_once() {
    let lone = Lone::start().await;
    let paths = weft_proto::json::pool().services();
    let mut lists = 0;
    for service in paths.filter(|it| it.package_name() == "weft.v1") {
        for method in service.methods().filter(|it| it.name().starts_with("List")) {
            let mut message = prost_reflect::DynamicMessage::new(method.input());
            let mut expected = std::collections::BTreeSet::new();
            for (field, value) in [
                ("page_size", prost_reflect::Value::I32(-1)),
                (
                    "page_token",
                    prost_reflect::Value::String("nothing".to_owned()),
                ),
                ("consistency", prost_reflect::Value::EnumNumber(9)),
                ("vni", prost_reflect::Value::U32(1 << 24)),
                ("ip", prost_reflect::Value::String("leaf1".to_owned())),
            ] {
                if method.input().get_field_by_name(field).is_some() {
                    message.set_field_by_name(field, value);
                    expected.insert(field.to_owned());
                }
            }
            let path = format!("/{}/{}", service.full_name(), method.name());
            let refused = lone.refused(&path, &message).await;
            let named: std::collections::BTreeSet<_> = fields(&refused).into_iter().collect();
            assert_eq!(named, expected, "{path}");
            assert!(
                named.contains("page_size") && named.contains("page_token"),
                "{path}"
            );
            lists += 1;
        }
    }
    assert!(lists >= 15, "{lists}");
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_named_field_by_field() {
    let lone = Lone::start().await;
    let Clients {
        mut peers,
        mut routes,
        mut evpn,
        mut plans,
        mut config,
        ..
    } = Clients::of(&lone).await;
    let id = || "7".to_owned();
    let refusal = ask!(peers, refresh_peer, RefreshPeerRequest { request_id: id() });
    let expected = ["name", "request_id", "direction"];
    assert_eq!(fields(&refusal.unwrap_err()), expected);
    let refusal = ask!(peers, reset_peer, ResetPeerRequest { request_id: id() });
    assert_eq!(fields(&refusal.unwrap_err()), ["name", "request_id"]);
    let refusal = ask!(peers, get_peer, GetPeerRequest {}).unwrap_err();
    assert_eq!(fields(&refusal), ["name"]);
    let refusal = ask!(routes, get_route, GetRouteRequest {}).unwrap_err();
    assert_eq!(fields(&refusal), ["key", "rd"]);
    let refusal = ask!(routes, list_routes, ListRoutesRequest { family: 9 }).unwrap_err();
    assert_eq!(fields(&refusal), ["family"]);
    let refusal = ask!(evpn, list_vnis, ListVnisRequest { consistency: 9 }).unwrap_err();
    assert_eq!(fields(&refusal), ["consistency"]);
    let refusal = ask!(evpn, get_vni, GetVniRequest { vni: 1 << 24 }).unwrap_err();
    assert_eq!(fields(&refusal), ["vni"]);
    let refusal = ask!(plans, set_balance, SetBalanceRequest {}).unwrap_err();
    assert_eq!(fields(&refusal), ["mode", "leaf_name"]);
    let text = Some(String::new());
    let refusal = ask!(config, reload_config, ReloadConfigRequest { text: text }).unwrap_err();
    assert_eq!(fields(&refusal), ["text"]);
    let text = Some("[bgp]\nasn = 0\n".to_owned());
    let checked = ask!(
        config,
        reload_config,
        ReloadConfigRequest {
            text: text,
            validate_only: true
        }
    );
    let expected = (Code::InvalidArgument, "CONFIG_INVALID".to_owned());
    assert_eq!(reason(&checked.unwrap_err()), expected);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_is_set_and_read_at_its_revision() {
    let lone = Lone::start().await;
    let Clients { mut plans, .. } = Clients::of(&lone).await;
    let mode = proto::BalanceMode::On.into();
    let set = ask!(
        plans,
        set_balance,
        SetBalanceRequest {
            mode: mode,
            all_leaves: true
        }
    )
    .unwrap();
    let changed = set.header.unwrap().revision;
    assert_eq!(set.default_mode(), proto::BalanceMode::On);
    let read = ask!(plans, list_leaf_balances, ListLeafBalancesRequest {}).unwrap();
    assert_eq!(read.default_mode(), proto::BalanceMode::On);
    assert!(read.header.unwrap().revision >= changed);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_begins_with_its_header() {
    let lone = Lone::start().await;
    let Clients { mut routes, .. } = Clients::of(&lone).await;
    let mut parts = ask!(routes, export_mrt, ExportMrtRequest {}).unwrap();
    let first = parts.message().await.unwrap().unwrap();
    assert_eq!(first.header.unwrap().replica_id, 1);
    let mut octets = 0;
    while let Some(part) = parts.message().await.unwrap() {
        assert_eq!(part.header, None);
        octets += part.octets.len();
    }
    // The table of peers is there, if nobody is in it.
    assert!(octets > 0);
    lone.stop().await;
}
