//! The commands as they are typed, against a small replica in this process.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use weft_proto::operator::v1::{self as operator, operator_server};
use weft_proto::v1::{self as fabric, fabric_service_server as fabric_server};

use crate::failure::Failure;
use crate::{Arguments, ask, told};

/// Answers with fixed messages, some of them late or refused.
struct Replica;

#[tonic::async_trait]
impl operator_server::Operator for Replica {
    async fn list_peers(
        &self,
        request: Request<operator::ListPeersRequest>,
    ) -> Result<Response<operator::ListPeersResponse>, Status> {
        let token = request.into_inner().page_token;
        let peer = |router_id: &str| operator::Peer {
            router_id: router_id.to_owned(),
            ..operator::Peer::default()
        };
        let (router_id, next) = match token.as_str() {
            "" => ("192.0.2.11", "second"),
            _ => ("192.0.2.12", ""),
        };
        Ok(Response::new(operator::ListPeersResponse {
            peers: vec![peer(router_id)],
            next_page_token: next.to_owned(),
            replica: 1,
        }))
    }

    async fn list_routes(
        &self,
        request: Request<operator::ListRoutesRequest>,
    ) -> Result<Response<operator::ListRoutesResponse>, Status> {
        let request = request.into_inner();
        if request.family == "stuck" {
            let next_page_token = "again".to_owned();
            let answer = operator::ListRoutesResponse {
                next_page_token,
                ..Default::default()
            };
            return Ok(Response::new(answer));
        }
        let asked = format!("{request:?}");
        Err(Status::invalid_argument(asked))
    }

    async fn get_peer(
        &self,
        request: Request<operator::GetPeerRequest>,
    ) -> Result<Response<operator::PeerDetail>, Status> {
        let peer = operator::Peer {
            address: request.into_inner().peer,
            state: "Active".to_owned(),
            ..operator::Peer::default()
        };
        Ok(Response::new(operator::PeerDetail {
            peer: Some(peer),
            ..operator::PeerDetail::default()
        }))
    }

    async fn get_route(
        &self,
        request: Request<operator::GetRouteRequest>,
    ) -> Result<Response<operator::GetRouteResponse>, Status> {
        let asked = format!("{:?}", request.into_inner());
        Err(Status::not_found(asked))
    }

    async fn list_segments(
        &self,
        _: Request<operator::ListSegmentsRequest>,
    ) -> Result<Response<operator::ListSegmentsResponse>, Status> {
        Ok(Response::new(operator::ListSegmentsResponse::default()))
    }

    async fn list_neighbors(
        &self,
        request: Request<operator::ListNeighborsRequest>,
    ) -> Result<Response<operator::ListNeighborsResponse>, Status> {
        let request = request.into_inner();
        let neighbor = operator::Neighbor {
            vni: request.vni,
            ip: request.ip,
            duplicate: request.duplicates,
            ..operator::Neighbor::default()
        };
        Ok(Response::new(operator::ListNeighborsResponse {
            neighbors: vec![neighbor],
            ..operator::ListNeighborsResponse::default()
        }))
    }

    async fn list_flood_lists(
        &self,
        _: Request<operator::ListFloodListsRequest>,
    ) -> Result<Response<operator::ListFloodListsResponse>, Status> {
        Ok(Response::new(operator::ListFloodListsResponse::default()))
    }

    async fn list_moves(
        &self,
        _: Request<operator::ListMovesRequest>,
    ) -> Result<Response<operator::ListMovesResponse>, Status> {
        Ok(Response::new(operator::ListMovesResponse::default()))
    }

    async fn clear_moves(
        &self,
        _: Request<operator::ClearMovesRequest>,
    ) -> Result<Response<operator::ClearMovesResponse>, Status> {
        Ok(Response::new(operator::ClearMovesResponse::default()))
    }

    type DumpRibStream =
        tokio_stream::Iter<std::vec::IntoIter<Result<operator::DumpRibResponse, Status>>>;

    async fn dump_rib(
        &self,
        request: Request<operator::DumpRibRequest>,
    ) -> Result<Response<Self::DumpRibStream>, Status> {
        let part = |octets: &[u8]| {
            Ok(operator::DumpRibResponse {
                octets: octets.to_vec().into(),
            })
        };
        let last = match request.get_ref().families.as_slice() {
            [] => part(b"RT"),
            [family] if family == "large" => part(&[0; 1 << 16]),
            [..] => Err(Status::unavailable("the replica is stopping")),
        };
        Ok(Response::new(tokio_stream::iter(vec![part(b"M"), last])))
    }

    async fn list_vteps(
        &self,
        _: Request<operator::ListVtepsRequest>,
    ) -> Result<Response<operator::ListVtepsResponse>, Status> {
        Err(Status::unavailable("no majority of replicas answers"))
    }

    async fn list_replicas(
        &self,
        _: Request<operator::ListReplicasRequest>,
    ) -> Result<Response<operator::ListReplicasResponse>, Status> {
        std::future::pending().await
    }

    async fn get_plan(
        &self,
        request: Request<operator::GetPlanRequest>,
    ) -> Result<Response<operator::Plan>, Status> {
        let leaf = request.into_inner().leaf;
        Err(Status::not_found(format!(
            "leaf: the fabric has no switch named {leaf:?}"
        )))
    }

    async fn diff_plan(
        &self,
        request: Request<operator::DiffPlanRequest>,
    ) -> Result<Response<operator::PlanDiff>, Status> {
        let leaf = request.into_inner().leaf;
        if leaf.is_empty() {
            return Err(Status::failed_precondition(
                "only the leader knows: ask replica 2",
            ));
        }
        let differs = leaf == "leaf2";
        let prefix = operator::PrefixDiff {
            differs,
            ..operator::PrefixDiff::default()
        };
        let unknown = match leaf.as_str() {
            "leaf3" => "no weft-agent there says what its own routing has",
            _ => "",
        };
        let leaf = operator::LeafDiff {
            leaf,
            unknown: unknown.to_owned(),
            prefixes: vec![prefix],
            ..operator::LeafDiff::default()
        };
        Ok(Response::new(operator::PlanDiff {
            revision: 7,
            leaves: vec![leaf],
        }))
    }

    async fn get_agent(
        &self,
        _: Request<operator::GetAgentRequest>,
    ) -> Result<Response<operator::AgentDetail>, Status> {
        Ok(Response::new(operator::AgentDetail::default()))
    }

    async fn set_balance(
        &self,
        request: Request<operator::SetBalanceRequest>,
    ) -> Result<Response<operator::Balance>, Status> {
        let leaf = operator::LeafBalance {
            leaf: request.get_ref().leaf.clone(),
            mode: request.get_ref().mode,
            own: true,
            agent_address: "192.0.2.11:9340".to_owned(),
        };
        Ok(Response::new(operator::Balance {
            leaves: vec![leaf],
            ..operator::Balance::default()
        }))
    }

    async fn get_balance(
        &self,
        _: Request<operator::GetBalanceRequest>,
    ) -> Result<Response<operator::Balance>, Status> {
        Ok(Response::new(operator::Balance::default()))
    }

    async fn list_agents(
        &self,
        _: Request<operator::ListAgentsRequest>,
    ) -> Result<Response<operator::ListAgentsResponse>, Status> {
        Ok(Response::new(operator::ListAgentsResponse::default()))
    }

    async fn reload_config(
        &self,
        request: Request<operator::ReloadConfigRequest>,
    ) -> Result<Response<operator::ReloadConfigResponse>, Status> {
        let request = request.into_inner();
        if request.text == "asn = 0\n" {
            let reason = format!("{}: bgp.asn: AS 0 is reserved", request.name);
            return Err(Status::invalid_argument(reason));
        }
        if request.text.starts_with("asm") {
            let reason = format!("{}: line 1\n  |\n1 | asm\u{7}\n  | ^^^\n", request.name);
            return Err(Status::invalid_argument(reason));
        }
        let changed = operator::ConfigChange {
            subject: "peer_group leaves".to_owned(),
            change: "changed".to_owned(),
            knob: "hold_secs".to_owned(),
            old: "9".to_owned(),
            new: "30".to_owned(),
            effect: "session reset".to_owned(),
        };
        let removed = operator::ConfigChange {
            subject: "peer 192.0.2.1".to_owned(),
            change: "removed".to_owned(),
            effect: "applied".to_owned(),
            ..operator::ConfigChange::default()
        };
        Ok(Response::new(operator::ReloadConfigResponse {
            changes: vec![changed, removed],
            file: "weft.toml".to_owned(),
            replica: 3,
        }))
    }

    async fn get_config(
        &self,
        request: Request<operator::GetConfigRequest>,
    ) -> Result<Response<operator::GetConfigResponse>, Status> {
        let request = request.into_inner();
        let value = |knob: &str, value: &str, from: &str| operator::ConfigValue {
            subject: request.subject.clone(),
            knob: knob.to_owned(),
            value: value.to_owned(),
            from: from.to_owned(),
        };
        let (values, next) = match (request.page_token.as_str(), request.all) {
            ("", _) => (vec![value("hold_secs", "9", "group")], "second"),
            (_, true) => (vec![value("strict", "false", "default")], ""),
            (_, false) => (Vec::new(), ""),
        };
        Ok(Response::new(operator::GetConfigResponse {
            values,
            next_page_token: next.to_owned(),
            ..operator::GetConfigResponse::default()
        }))
    }
}

#[tonic::async_trait]
impl fabric_server::FabricService for Replica {
    async fn apply_fabric(
        &self,
        request: Request<tonic::Streaming<fabric::ApplyFabricRequest>>,
    ) -> Result<Response<tonic::codegen::BoxStream<fabric::ApplyFabricResponse>>, Status> {
        let mut parts = request.into_inner();
        let first = parts.message().await?.unwrap_or_default();
        if first.display_name == "bad" {
            return Err(Status::invalid_argument(
                "links[3].a.switch_name: no switch is named \"leaf9\"",
            ));
        }
        let mut answers = Vec::new();
        while let Some(part) = parts.message().await? {
            let created = part.hosts.into_iter().map(|host| fabric::ResourceChange {
                kind: fabric::ResourceKind::Host.into(),
                name: host.name,
                r#type: fabric::ChangeType::Created.into(),
                ..fabric::ResourceChange::default()
            });
            answers.push(Ok(fabric::ApplyFabricResponse {
                changes: created.collect(),
                ..fabric::ApplyFabricResponse::default()
            }));
        }
        answers.push(Ok(fabric::ApplyFabricResponse {
            generation: if first.validate_only { 100 } else { 1 },
            ..fabric::ApplyFabricResponse::default()
        }));
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }

    async fn get_fabric(
        &self,
        _: Request<fabric::GetFabricRequest>,
    ) -> Result<Response<fabric::GetFabricResponse>, Status> {
        Ok(Response::new(fabric::GetFabricResponse {
            display_name: "example".to_owned(),
            ..Default::default()
        }))
    }

    async fn list_switches(
        &self,
        request: Request<fabric::ListSwitchesRequest>,
    ) -> Result<Response<fabric::ListSwitchesResponse>, Status> {
        let (name, next) = match request.into_inner().page_token.as_str() {
            "" => ("leaf1", "second"),
            _ => ("leaf2", ""),
        };
        Ok(Response::new(fabric::ListSwitchesResponse {
            switches: vec![fabric::Switch {
                name: name.to_owned(),
                role: fabric::SwitchRole::Leaf.into(),
                ..Default::default()
            }],
            next_page_token: next.to_owned(),
            ..Default::default()
        }))
    }

    async fn list_hosts(
        &self,
        _: Request<fabric::ListHostsRequest>,
    ) -> Result<Response<fabric::ListHostsResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn list_links(
        &self,
        _: Request<fabric::ListLinksRequest>,
    ) -> Result<Response<fabric::ListLinksResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn list_host_ports(
        &self,
        _: Request<fabric::ListHostPortsRequest>,
    ) -> Result<Response<fabric::ListHostPortsResponse>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn update_link(
        &self,
        request: Request<fabric::UpdateLinkRequest>,
    ) -> Result<Response<fabric::UpdateLinkResponse>, Status> {
        let request = request.into_inner();
        let paths = request.update_mask.unwrap_or_default().paths;
        assert_eq!(paths, ["admin_state"]);
        let link = request.resource.unwrap_or_default();
        match link.name.as_str() {
            "leaf1:eth1--spine1:eth1" => {
                let down = link.admin_state() == fabric::AdminState::Down;
                let header = fabric::ResponseHeader {
                    revision: if down { 5 } else { 6 },
                    ..Default::default()
                };
                Ok(Response::new(fabric::UpdateLinkResponse {
                    header: Some(header),
                    resource: Some(link),
                }))
            }
            other => Err(Status::not_found(format!(
                "name: no link is named {other:?}"
            ))),
        }
    }
}

/// Starts the replica, types `words` at it, and gives what was printed.
async fn typed(words: &[&str]) -> (String, Result<(), Failure>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .add_service(operator_server::OperatorServer::new(Replica))
        .add_service(fabric_server::FabricServiceServer::new(Replica))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let (printed, result) = typed_at(address, words).await;
    server.abort();
    (printed.replace(&address.to_string(), "ADDRESS"), result)
}

async fn typed_at(address: SocketAddr, words: &[&str]) -> (String, Result<(), Failure>) {
    let address = address.to_string();
    let head = ["weft", "--address", &address];
    let arguments = Arguments::try_parse_from(head.iter().chain(words)).unwrap();
    let mut out = Vec::new();
    let result = ask(arguments, &mut out).await;
    (String::from_utf8(out).unwrap(), result)
}

/// What is said on standard error, and the exit code.
async fn refused(words: &[&str]) -> (String, u8) {
    let failure = typed(words).await.1.unwrap_err();
    let said = told(&failure);
    let address = said.find("127.0.0.1:").map(|at| {
        let rest = &said[at + "127.0.0.1:".len()..];
        let digits = rest.chars().take_while(char::is_ascii_digit).count();
        said.replace(&said[at..at + "127.0.0.1:".len() + digits], "ADDRESS")
    });
    (address.unwrap_or(said), failure.exit_code())
}

#[tokio::test]
async fn pages_are_followed_to_the_end() {
    let (printed, result) = typed(&["peer", "list"]).await;
    result.unwrap();
    let ids: Vec<_> = printed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(ids, ["ROUTER-ID", "192.0.2.11", "192.0.2.12"]);
    let (printed, _) = typed(&["-o", "json", "peer", "list"]).await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    assert_eq!(rows.len(), 2);
}

#[tokio::test]
async fn a_page_that_repeats_itself_ends_the_list() {
    let (said, code) = refused(&["route", "list", "--family", "stuck"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("ADDRESS gives the page \"again\" again and again", 1)
    );
}

#[tokio::test]
async fn filters_reach_the_replica() {
    let words = [
        "route",
        "list",
        "--type",
        "2",
        "--vni",
        "100",
        "--mac",
        "00:00:5e:00:53:01",
        "--peer",
        "192.0.2.11",
        "--consistency",
        "serializable",
    ];
    let (said, _) = refused(&words).await;
    let expected = operator::ListRoutesRequest {
        page_size: crate::dialog::PAGE_SIZE,
        consistency: operator::Consistency::Serializable.into(),
        family: "l2vpn-evpn".to_owned(),
        route_type: 2,
        vni: 100,
        mac: "00:00:5e:00:53:01".to_owned(),
        peer: "192.0.2.11".to_owned(),
        ..operator::ListRoutesRequest::default()
    };
    assert_eq!(said, format!("{expected:?}"));
}

#[tokio::test]
async fn an_empty_list_is_a_list() {
    for (format, expected) in [("json", "[]\n"), ("yaml", "[]\n")] {
        assert_eq!(typed(&["agent", "list", "-o", format]).await.0, expected);
    }
    assert_eq!(typed(&["agent", "list"]).await.0.lines().count(), 1);
}

#[tokio::test]
async fn nothing_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let failure = typed_at(address, &["peer", "list"]).await.1.unwrap_err();
    assert_eq!(
        failure.to_string(),
        format!("no answer from {address}: connection refused")
    );
    assert_eq!(failure.exit_code(), 2);
}

#[tokio::test]
async fn something_else_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let other = tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(
                &mut socket,
                b"HTTP/1.1 400 Bad Request\r\n\r\n",
            )
            .await;
        }
    });
    let failure = typed_at(address, &["peer", "list"]).await.1.unwrap_err();
    other.abort();
    assert_eq!(failure.exit_code(), 2, "{failure}");
    assert!(
        failure
            .to_string()
            .starts_with(&format!("no answer from {address}: ")),
        "{failure}"
    );
}

#[tokio::test]
async fn a_server_without_the_service_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder()
        .add_service(fabric_server::FabricServiceServer::new(Replica))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let failure = typed_at(address, &["peer", "list"]).await.1.unwrap_err();
    server.abort();
    let expected = format!("no answer from {address}: no weft that knows the request");
    assert_eq!((failure.to_string(), failure.exit_code()), (expected, 2));
}

#[tokio::test]
async fn no_majority_is_no_answer() {
    let (said, code) = refused(&["vtep", "list"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("no answer from ADDRESS: no majority of replicas answers", 2)
    );
}

#[tokio::test]
async fn a_late_answer_is_none() {
    let (said, code) = refused(&["--timeout", "1", "replica", "list"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("no answer from ADDRESS: nothing within 1 s", 2)
    );
}

#[tokio::test]
async fn a_refusal_is_told_as_the_replica_words_it() {
    let (said, code) = refused(&["plan", "show", "--leaf", "leaf9"]).await;
    assert_eq!(
        (said.as_str(), code),
        ("leaf: the fabric has no switch named \"leaf9\"", 1)
    );
}

#[tokio::test]
async fn links_are_set_by_name() {
    let link = "leaf1:eth1--spine1:eth1";
    assert_eq!(
        typed(&["fabric", "link", link, "down"]).await.0,
        format!("link {link} down, revision 5\n")
    );
    assert_eq!(
        typed(&["fabric", "link", link, "up"]).await.0,
        format!("link {link} up, revision 6\n")
    );
    let (said, code) = refused(&["fabric", "link", "x", "up"]).await;
    assert_eq!((said.as_str(), code), ("name: no link is named \"x\"", 1));
}

#[tokio::test]
async fn a_fabric_file_is_applied_or_refused_with_its_name() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    writeln!(file, "name: example\nhosts: [{{name: h1}}, {{name: h2}}]").unwrap();
    assert_eq!(
        typed(&["fabric", "apply", &path]).await.0,
        "fabric example applied: 2 created, 0 updated, 0 deleted, generation 1\n"
    );
    assert_eq!(
        typed(&["fabric", "apply", &path, "--dry-run"]).await.0,
        "fabric example valid, nothing changed; it would be: 2 created, 0 updated, 0 deleted, generation 100\n"
    );
    writeln!(file, "nam: 1").unwrap();
    let (said, code) = refused(&["fabric", "apply", &path]).await;
    let expected = format!(
        "{path}:3:1: unknown field `nam`, expected one of `name`, `switches`, `hosts`, `links`, `host_ports`, `generation`, `revision`"
    );
    assert_eq!((said, code), (expected, 1));
    std::fs::write(&path, "name: bad\n").unwrap();
    let (said, code) = refused(&["fabric", "apply", &path]).await;
    assert_eq!(
        (said, code),
        (
            format!("{path}: links[3].a.switch_name: no switch is named \"leaf9\""),
            1
        )
    );
    let (said, code) = refused(&["fabric", "apply", "/nonexistent/f.yaml"]).await;
    assert_eq!(
        (said.as_str(), code),
        (
            "/nonexistent/f.yaml: No such file or directory (os error 2)",
            1
        )
    );
}

#[tokio::test]
async fn the_shown_fabric_has_the_fields_of_a_file() {
    let (printed, result) = typed(&["fabric", "show", "-o", "yaml"]).await;
    result.unwrap();
    let switches = "- name: leaf1\n  role: leaf\n  vtep_address: ''\n  agent_address: ''\n\
                    - name: leaf2\n  role: leaf\n  vtep_address: ''\n  agent_address: ''\n";
    assert_eq!(
        printed,
        format!("name: example\nswitches:\n{switches}links: []\nhost_ports: []\ngeneration: 0\n")
    );
}

#[test]
fn arguments_are_checked_before_anything_is_asked() {
    for words in [
        &["weft", "--address", "localhost", "peer", "list"][..],
        &["weft", "--address", ":7401", "peer", "list"],
        &["weft", "--address", "a b:7401", "peer", "list"],
        &["weft", "--address", "localhost:0", "peer", "list"],
        &["weft", "--timeout", "0", "peer", "list"],
        &["weft", "route", "list", "--type", "256"],
        &["weft", "route", "list", "--vni", "16777216"],
        &["weft", "fabric", "link", "x", "sideways"],
    ] {
        assert!(Arguments::try_parse_from(words).is_err(), "{words:?}");
    }
    let arguments = Arguments::try_parse_from(["weft", "peer", "list"]).unwrap();
    assert_eq!(
        (arguments.address.as_str(), arguments.timeout),
        ("127.0.0.1:7401", 10)
    );
    assert!(
        Arguments::try_parse_from(["weft", "--address", "[2001:db8::1]:7401", "peer", "list"])
            .is_ok()
    );
}

#[tokio::test]
async fn a_closed_standard_output_is_no_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = Server::builder()
        .add_service(operator_server::OperatorServer::new(Replica))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let arguments =
        Arguments::try_parse_from(["weft", "--address", &address, "peer", "list"]).unwrap();
    let result = tokio::time::timeout(Duration::from_secs(20), ask(arguments, &mut Closed))
        .await
        .unwrap();
    server.abort();
    assert!(matches!(result, Err(Failure::Unread)), "{result:?}");
}

#[tokio::test]
async fn a_reload_is_one_line_for_each_difference() {
    let lines = "peer_group leaves: hold_secs: 9 -> 30 (session reset)\npeer 192.0.2.1: removed (applied)\n";
    assert_eq!(
        typed(&["config", "reload"]).await.0,
        format!("{lines}replica 3: weft.toml reloaded: 2 differences\n")
    );
    assert_eq!(
        typed(&["config", "reload", "--dry-run"]).await.0,
        format!("{lines}replica 3: weft.toml valid, nothing changed: 2 differences\n")
    );
    let (printed, _) = typed(&["config", "reload", "-o", "json"]).await;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&printed).unwrap();
    assert_eq!(rows[0]["effect"], "session reset");
    assert_eq!(rows[1]["change"], "removed");
}

#[tokio::test]
async fn a_file_is_compared_by_the_replica() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let (printed, _) = typed(&["config", "diff", &path]).await;
    let end = format!("replica 3: {path}: 2 differences\n");
    assert!(printed.ends_with(&end), "{printed}");
    std::fs::write(&path, "asn = 0\n").unwrap();
    let (said, code) = refused(&["config", "diff", &path]).await;
    assert_eq!(
        (said, code),
        (format!("{path}: bgp.asn: AS 0 is reserved"), 1)
    );
    std::fs::write(&path, "asm = 0\n").unwrap();
    let (said, _) = refused(&["config", "diff", &path]).await;
    let marked = "line 1\n  |\n1 | asm\\u{7}\n  | ^^^";
    assert_eq!(said, format!("{path}: {marked}"));
    let (said, code) = refused(&["config", "diff", "/nonexistent/f.toml"]).await;
    let expected = "/nonexistent/f.toml: No such file or directory (os error 2)";
    assert_eq!((said.as_str(), code), (expected, 1));
}

#[tokio::test]
async fn values_say_where_they_come_from() {
    let words = ["config", "show", "peer", "192.0.2.1"];
    let header = "SUBJECT         KNOB       VALUE  FROM\n";
    let own = "peer 192.0.2.1  hold_secs  9      group\n";
    assert_eq!(typed(&words).await.0, format!("{header}{own}"));
    let (printed, _) = typed(&[&words[..], &["--all"]].concat()).await;
    assert_eq!(printed.lines().count(), 3, "{printed}");
}

#[tokio::test]
async fn a_dump_that_ends_early_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rib.mrt");
    let file = path.to_str().unwrap();
    let (printed, _) = typed(&["rib", "dump", file]).await;
    assert_eq!(printed, format!("{file}: 3 octets\n"));
    assert_eq!(std::fs::read(&path).unwrap(), b"MRT");
    assert_eq!(typed(&["rib", "dump", "-"]).await.0, "MRT");
    std::fs::remove_file(&path).unwrap();
    let (_, code) = refused(&["rib", "dump", file, "--family", "rtc"]).await;
    assert_eq!(code, 2);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_dump_that_cannot_be_written_names_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rib.mrt");
    let file = path.to_str().unwrap();
    // Too little for the buffer, and too much for it.
    for family in [&[][..], &["--family", "large"]] {
        std::os::unix::fs::symlink("/dev/full", format!("{file}.part")).unwrap();
        let (said, code) = refused(&[&["rib", "dump", file], family].concat()).await;
        let expected = format!("{file}: No space left on device (os error 28)");
        assert_eq!((said, code), (expected, 1), "{family:?}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn the_form_of_a_key_says_its_family() {
    for (key, family) in [
        ("[3]:[0]:[32]:[192.0.2.1]", "l2vpn-evpn"),
        ("203.0.113.0/24", "ipv4-unicast"),
        ("2001:db8::/32", "ipv6-unicast"),
    ] {
        let (said, code) = refused(&["route", "show", key]).await;
        assert!(said.contains(&format!("family: {family:?}")), "{said}");
        assert_eq!(code, 1);
    }
    let (said, _) = refused(&["route", "show", "64496:RT:1", "--family", "rtc"]).await;
    assert!(said.contains("family: \"rtc\""), "{said}");
}

#[tokio::test]
async fn one_peer_and_views_are_asked_for() {
    let (printed, _) = typed(&["peer", "show", "192.0.2.1"]).await;
    assert!(printed.contains("address:        192.0.2.1\n"), "{printed}");
    let words = [
        "neighbor",
        "list",
        "--vni",
        "7",
        "--ip",
        "192.0.2.9",
        "--duplicates",
    ];
    let (printed, _) = typed(&words).await;
    assert!(printed.contains("7    192.0.2.9"), "{printed}");
    assert!(printed.contains("duplicate"), "{printed}");
    let (printed, _) = typed(&["segment", "list"]).await;
    assert_eq!(printed.lines().count(), 1);
    let (said, code) = refused(&["segment", "show", "00:00"]).await;
    assert_eq!((said.as_str(), code), ("there is no segment \"00:00\"", 1));
    for words in [["flood", "list"], ["mac", "moves"]] {
        assert_eq!(typed(&words).await.0.lines().count(), 1);
    }
}

#[tokio::test]
async fn a_plan_that_differs_is_printed_and_ends_with_its_own_code() {
    let (printed, result) = typed(&["plan", "diff", "--leaf", "leaf1", "-o", "json"]).await;
    result.unwrap();
    let diff: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(diff["leaves"][0]["prefixes"][0]["differs"], false);
    let (printed, result) = typed(&["plan", "diff", "--leaf", "leaf2"]).await;
    assert!(printed.starts_with("plan 7, 1 leaf\n"), "{printed}");
    let failure = result.unwrap_err();
    assert_eq!(
        (failure.to_string().as_str(), failure.exit_code()),
        ("1 prefix differs", 3)
    );
    let said = refused(&["plan", "diff", "--leaf", "leaf3"]).await;
    assert_eq!(said, ("not compared: leaf3".to_owned(), 3));
    let said = refused(&["plan", "diff"]).await;
    assert_eq!(said, ("only the leader knows: ask replica 2".to_owned(), 1));
}

#[tokio::test]
async fn a_table_that_is_not_empty_in_time_is_named() {
    let (printed, result) = typed(&["balance", "off", "--leaf", "leaf1", "--wait", "0"]).await;
    result.unwrap();
    assert!(printed.contains("leaf1  off"), "{printed}");
    let said = refused(&["balance", "off", "--leaf", "leaf1", "--wait", "1"]).await;
    let expected = "off: 0 of 1 tables are empty; not those of leaf1 (not known yet)";
    assert_eq!(said, (expected.to_owned(), 3));
}

#[tokio::test]
async fn a_mode_is_set_and_shown() {
    let (printed, result) = typed(&["balance", "on", "--leaf", "leaf1"]).await;
    result.unwrap();
    assert!(printed.contains("leaf1  on"), "{printed}");
}
