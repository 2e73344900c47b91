//! Callers of the API's port and their permissions: every call passes [`Access`] before its service. Knows no message.

use std::fmt;
use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Extensions, Response};
use axum::middleware::Next;
use tonic::Status;
use tonic::transport::server::TcpConnectInfo;

use super::refusal;
use crate::config::Api;
use crate::door::bounds::API;
use crate::door::refusals::{Reason, Refusals};

/// The rule of the API's port, the same for gRPC, JSON and the page.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// True if callers beyond this machine are answered.
    insecure: bool,
    refusals: Refusals,
}

/// A caller, as far as it is known: today its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    address: Option<SocketAddr>,
    /// True if the caller is on this machine.
    is_near: bool,
}

/// Permission that a call requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// Read declared switches, links and hosts.
    ReadFabric,
    /// Change the declared fabric.
    ChangeFabric,
    /// Read jobs.
    ReadJobs,
    /// Create, change and delete jobs.
    ChangeJobs,
    /// Read peers and sessions.
    ReadPeers,
    /// Reset a session, or have its routes advertised again.
    ControlSessions,
    /// Read routes and the overlay that follows from them.
    ReadRoutes,
    /// Clear freezes and alarms of MAC addresses.
    ClearDuplicateMacs,
    /// Read the members of the Raft group.
    ReadReplicas,
    /// Read plans, and their state on the switches.
    ReadPlans,
    /// Turn balancing on or off.
    ChangeBalance,
    /// Read the configuration of a replica.
    ReadConfig,
    /// Have a replica read its file again.
    ReloadConfig,
}

impl Access {
    /// Returns the rule that the configuration sets.
    pub(super) fn new(api: &Api, refusals: Refusals) -> Self {
        let insecure = api.insecure;
        Self { insecure, refusals }
    }

    /// Admits callers on this machine, and all others with `insecure = true`. Counts and logs whom it refuses.
    ///
    /// # Errors
    /// PERMISSION_DENIED, with the name of the setting.
    pub(super) fn admit(&self, caller: Identity) -> Result<(), Status> {
        if self.insecure || caller.is_near {
            Ok(())
        } else {
            self.refusals.note(API.door, Reason::Far, caller);
            Err(refusal::insecure())
        }
    }

    /// Decides a call by its path. The health of gRPC is open to all, as `/livez` is: the answer contains nothing of the fabric.
    ///
    /// # Errors
    /// PERMISSION_DENIED; UNIMPLEMENTED for a method of weft.v1 that requires no permission here.
    fn call(&self, path: &str, caller: Identity) -> Result<(), Status> {
        let path = path.trim_start_matches('/');
        if path.starts_with(HEALTH) {
            return Ok(());
        }
        self.admit(caller)?;
        match (required(path), path.strip_prefix(PACKAGE)) {
            (Some(permission), _) => caller.permit(permission),
            (None, Some(_)) => Err(refusal::unread(Status::unimplemented(""))),
            (None, None) => Ok(()),
        }
    }
}

/// Lets a permitted call through to its service, with the caller's [`Identity`] among the extensions of the request.
pub(super) async fn pass(
    State(access): State<Access>,
    mut request: Request,
    next: Next,
) -> Response<Body> {
    let caller = Identity::connected(request.extensions());
    if let Err(refused) = access.call(request.uri().path(), caller) {
        return refused.into_http();
    }
    request.extensions_mut().insert(caller);
    next.run(request).await
}

impl Identity {
    /// Returns the caller of a request: the one that [`pass`] put there. On the replicas' own port nothing does: there it is the
    /// caller that the other replica names, or that replica.
    pub(super) fn of<T>(request: &tonic::Request<T>) -> Self {
        if let Some(known) = request.extensions().get::<Self>() {
            return *known;
        }
        let named = request.metadata().get(CALLER);
        let named = named.and_then(|it| it.to_str().ok()?.parse().ok());
        named.map_or_else(
            || Self::connected(request.extensions()),
            |address| Self {
                address: Some(address),
                is_near: false,
            },
        )
    }

    /// Makes a request that hands the caller's call on to the leader, and names the caller for its log.
    pub(super) fn hand_on<T>(self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        let name = self.address.and_then(|it| it.to_string().parse().ok());
        if let Some(name) = name {
            request.metadata_mut().insert(CALLER, name);
        }
        request
    }

    /// Returns the caller at the other end of the connection. A caller without an address is far: the connection may be reset
    /// already. One with the address that it connected to is near: no connection from beyond can have it.
    pub(super) fn connected(extensions: &Extensions) -> Self {
        let info = extensions.get::<TcpConnectInfo>();
        // One listener takes both families.
        let plain = |it: SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
        let address = info.and_then(TcpConnectInfo::remote_addr).map(plain);
        let local = info.and_then(TcpConnectInfo::local_addr).map(plain);
        let is_near = address.is_some_and(|it| {
            it.ip().is_loopback() || local.is_some_and(|local| local.ip() == it.ip())
        });
        Self { address, is_near }
    }

    /// Grants a permission, to every caller so far: there is no authentication.
    ///
    /// # Errors
    /// PERMISSION_DENIED.
    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "roles will refuse"
    )]
    pub(super) fn permit(self, _: Permission) -> Result<(), Status> {
        Ok(())
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}

/// Returns the permission that a method requires, by its path without the first `/`.
fn required(path: &str) -> Option<Permission> {
    let method = path.strip_prefix(PACKAGE)?;
    let row = METHODS
        .iter()
        .find(|(_, methods)| methods.contains(&method));
    row.map(|(permission, _)| *permission)
}

/// Metadata between replicas: address and port of the caller whose call is handed on.
const CALLER: &str = "weft-caller";
/// Package of all services with permissions.
const PACKAGE: &str = "weft.v1.";
/// Service of grpc.health.v1, which probes ask from other machines.
const HEALTH: &str = "grpc.health.v1.Health/";
/// Methods of weft.v1 by the permission that they require. Watch requires more for peers, routes and plans: its handler asks.
const METHODS: &[(Permission, &[&str])] = &[
    (
        Permission::ReadFabric,
        &[
            "FabricService/GetFabric",
            "FabricService/GetHost",
            "FabricService/GetHostPort",
            "FabricService/GetLink",
            "FabricService/GetSwitch",
            "FabricService/ListHostPorts",
            "FabricService/ListHosts",
            "FabricService/ListLinks",
            "FabricService/ListSwitches",
            "WatchService/Watch",
        ],
    ),
    (
        Permission::ChangeFabric,
        &[
            "FabricService/ApplyFabric",
            "FabricService/CreateHost",
            "FabricService/CreateHostPort",
            "FabricService/CreateLink",
            "FabricService/CreateSwitch",
            "FabricService/DeleteHost",
            "FabricService/DeleteHostPort",
            "FabricService/DeleteLink",
            "FabricService/DeleteSwitch",
            "FabricService/UpdateHost",
            "FabricService/UpdateHostPort",
            "FabricService/UpdateLink",
            "FabricService/UpdateSwitch",
        ],
    ),
    (
        Permission::ReadJobs,
        &["JobService/GetJob", "JobService/ListJobs"],
    ),
    (
        Permission::ChangeJobs,
        &[
            "JobService/CreateJob",
            "JobService/DeleteJob",
            "JobService/UpdateJob",
        ],
    ),
    (
        Permission::ReadPeers,
        &["PeerService/GetPeer", "PeerService/ListPeers"],
    ),
    (
        Permission::ControlSessions,
        &["PeerService/RefreshPeer", "PeerService/ResetPeer"],
    ),
    (
        Permission::ReadRoutes,
        &[
            "EvpnService/GetEthernetSegment",
            "EvpnService/GetVni",
            "EvpnService/GetVtep",
            "EvpnService/ListDuplicateMacs",
            "EvpnService/ListEthernetSegments",
            "EvpnService/ListHostAddresses",
            "EvpnService/ListVnis",
            "EvpnService/ListVteps",
            "RouteService/ExportMrt",
            "RouteService/GetRoute",
            "RouteService/ListRoutes",
        ],
    ),
    (
        Permission::ClearDuplicateMacs,
        &["EvpnService/ClearDuplicateMac"],
    ),
    (Permission::ReadReplicas, &["ReplicaService/ListReplicas"]),
    (
        Permission::ReadPlans,
        &[
            "PlanService/GetJobPlan",
            "PlanService/GetLeafBalance",
            "PlanService/GetLeafPlan",
            "PlanService/GetLeafPlanDiff",
            "PlanService/GetLinkStatus",
            "PlanService/GetSwitchAgent",
            "PlanService/ListDecisions",
            "PlanService/ListJobFlows",
            "PlanService/ListJobPlans",
            "PlanService/ListLeafBalances",
            "PlanService/ListLeafPlanDiffs",
            "PlanService/ListLeafPlans",
            "PlanService/ListLinkStatuses",
            "PlanService/ListPins",
            "PlanService/ListSwitchAgents",
            "SimulationService/SimulatePlan",
        ],
    ),
    (Permission::ChangeBalance, &["PlanService/SetBalance"]),
    (Permission::ReadConfig, &["ConfigService/ListConfigValues"]),
    (Permission::ReloadConfig, &["ConfigService/ReloadConfig"]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::http;
    use tonic::Code;
    use tower::ServiceExt;

    use super::*;
    use crate::operator::lone::{Lone, reason};

    /// The caller of a connection to 198.51.100.1.
    fn caller(address: Option<&str>) -> Identity {
        let address = address.map(|it| it.parse().unwrap());
        let mut extensions = Extensions::new();
        extensions.insert(TcpConnectInfo {
            local_addr: Some("[::ffff:198.51.100.1]:7401".parse().unwrap()),
            remote_addr: address,
        });
        Identity::connected(&extensions)
    }

    fn rule(insecure: bool) -> Access {
        let refusals = Refusals::default();
        Access { insecure, refusals }
    }

    /// Every method of the contract, as its path without the first `/`.
    fn methods() -> BTreeSet<String> {
        let pool = weft_proto::json::pool();
        let services = pool.services();
        let services = services.filter(|it| it.package_name() == "weft.v1");
        let methods = services.flat_map(|service| {
            let name = |it: prost_reflect::MethodDescriptor| {
                format!("{}/{}", it.parent_service().full_name(), it.name())
            };
            service.methods().map(name).collect::<Vec<_>>()
        });
        methods.collect()
    }

    #[test]
    fn a_caller_beyond_this_machine_needs_the_setting() {
        let list = "/weft.v1.PeerService/ListPeers";
        let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
        let health = "/grpc.health.v1.Health/Check";
        for (insecure, address, path, is_answered) in [
            (false, Some("127.0.0.1:4000"), list, true),
            (false, Some("127.9.9.9:4000"), list, true),
            (false, Some("[::1]:4000"), list, true),
            (false, Some("[::ffff:127.0.0.1]:4000"), list, true),
            (false, Some("198.51.100.1:4000"), list, true),
            (false, Some("198.51.100.2:4000"), list, false),
            (false, Some("192.0.2.7:4000"), list, false),
            (false, Some("[::ffff:192.0.2.7]:4000"), list, false),
            (false, Some("[2001:db8::7]:4000"), list, false),
            (false, Some("192.0.2.7:4000"), reflection, false),
            (false, Some("192.0.2.7:4000"), "/x.y/z", false),
            (false, Some("192.0.2.7:4000"), health, true),
            // After a reset the kernel forgets the address.
            (false, None, list, false),
            (false, None, health, true),
            (true, Some("192.0.2.7:4000"), list, true),
            (true, None, list, true),
        ] {
            let access = rule(insecure);
            let answer = access.call(path, caller(address));
            let refused = answer.err().map(|it| {
                assert!(it.message().contains("insecure = true"), "{it}");
                reason(&it)
            });
            let counted = access.refusals.count(API.door, Reason::Far);
            assert_eq!(counted, u64::from(!is_answered), "{path}");
            let expected = (!is_answered).then(|| (Code::PermissionDenied, "INSECURE".to_owned()));
            assert_eq!(refused, expected, "{insecure} {address:?} {path}");
        }
    }

    #[test]
    fn a_call_that_is_handed_on_keeps_its_caller() {
        let far = caller(Some("192.0.2.7:4000"));
        let by_replica = |mut request: tonic::Request<()>| {
            let info = TcpConnectInfo {
                local_addr: None,
                remote_addr: Some("198.51.100.2:4001".parse().unwrap()),
            };
            request.extensions_mut().insert(info);
            request
        };
        let near = caller(Some("127.0.0.1:4000"));
        let named = Identity::of(&by_replica(near.hand_on(())));
        assert_eq!((named.address, named.is_near), (near.address, false));
        assert_eq!(Identity::of(&by_replica(far.hand_on(()))), far);
        let replica = Identity::of(&by_replica(caller(None).hand_on(())));
        assert_eq!(replica.to_string(), "198.51.100.2:4001");
        // A client of the API cannot name another one.
        let mut forged = far.hand_on(());
        forged.extensions_mut().insert(replica);
        assert_eq!(Identity::of(&forged), replica);
    }

    #[test]
    fn every_method_requires_one_permission() {
        let rows = METHODS.iter().flat_map(|(_, methods)| *methods);
        let rows: Vec<_> = rows.map(|it| format!("{PACKAGE}{it}")).collect();
        assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), methods());
        assert_eq!(rows.len(), methods().len(), "a method is there twice");
        let near = caller(Some("127.0.0.1:4000"));
        let open = rule(true);
        let unknown = open.call("/weft.v1.PeerService/ForgetPeer", near);
        assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn every_method_passes_the_layer_before_its_service() {
        let lone = Lone::start().await;
        for (address, code) in [
            (Some("192.0.2.7:4000"), Some(Code::PermissionDenied)),
            (None, Some(Code::PermissionDenied)),
            (Some("127.0.0.1:4000"), None),
        ] {
            for method in methods() {
                // No message: the service refuses it, and changes nothing.
                let answered = asked(&lone.http, &method, address, Body::empty()).await;
                let refused = answered.filter(|it| *it == Code::PermissionDenied);
                assert_eq!(refused, code, "{method} {address:?}");
            }
        }
        lone.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_replicas_own_port_answers_other_machines() {
        let lone = Lone::start().await;
        for method in [
            "FabricService/GetFabric",
            "PlanService/ListLeafPlans",
            "ReplicaService/ListReplicas",
            "SimulationService/SimulatePlan",
        ] {
            let method = format!("{PACKAGE}{method}");
            let message = Body::from(vec![0; 5]);
            let answered = asked(&lone.raft, &method, Some("192.0.2.7:4000"), message).await;
            let refused = [Some(Code::PermissionDenied), Some(Code::Unimplemented)];
            assert!(!refused.contains(&answered), "{method}: {answered:?}");
        }
        lone.stop().await;
    }

    /// Code of the answer's headers to a call from an address; None: they have none.
    async fn asked(
        port: &axum::Router,
        method: &str,
        address: Option<&str>,
        body: Body,
    ) -> Option<Code> {
        let mut request = http::Request::post(format!("/{method}"))
            .version(http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .body(body)
            .unwrap();
        request.extensions_mut().insert(TcpConnectInfo {
            local_addr: None,
            remote_addr: address.map(|it| it.parse().unwrap()),
        });
        let answer = port.clone().oneshot(request).await.unwrap();
        Status::from_header_map(answer.headers()).map(|it| it.code())
    }
}
