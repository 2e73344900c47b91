//! JSON at the port of a lone replica, with its own store and reflector behind it.

use std::net::SocketAddr;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, Version, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tonic::transport::server::TcpConnectInfo;
use tower::ServiceExt;

use crate::operator::lone::Lone;

/// A request that is let in, unless something is changed in it.
fn request(method: &str, path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path)
        .header(header::HOST, "127.0.0.1:7401")
        .header(header::CONTENT_TYPE, "application/json");
    request.body(body.into()).unwrap()
}

async fn send(lone: &Lone, request: Request<Body>) -> (StatusCode, Value) {
    let answer = lone.http.clone().oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (status, value)
}

async fn ask(lone: &Lone, method: &str, path: &str, body: Value) -> (StatusCode, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    send(lone, request(method, path, body)).await
}

/// Number, reason or name of the code, and fields of a refusal.
async fn refused(lone: &Lone, request: Request<Body>) -> (u16, String, Vec<String>) {
    let (status, said) = send(lone, request).await;
    let error = &said["error"];
    assert_eq!(error["code"], status.as_u16(), "{said}");
    let details = error["details"].as_array().unwrap();
    let reason = details.iter().find_map(|it| it["reason"].as_str());
    let fields = details
        .iter()
        .flat_map(|it| it["field_violations"].as_array());
    let fields = fields.flatten().filter_map(|it| it["field"].as_str());
    let fields = fields.map(str::to_owned).collect();
    let name = error["status"].as_str().unwrap();
    (status.as_u16(), reason.unwrap_or(name).to_owned(), fields)
}

fn fabric() -> Value {
    let leaf = |n: u32| json!({"name": format!("leaf{n}"), "role": "SWITCH_ROLE_LEAF", "vtep_address": format!("10.255.0.{n}")});
    let link = |n: u32| {
        json!({
            "a": {"switch_name": format!("leaf{n}"), "interface_name": "eth1", "address": format!("10.1.{n}.1")},
            "b": {"switch_name": "spine1", "interface_name": format!("eth{n}"), "address": format!("10.1.{n}.2")},
            "capacity_bps": 400_000_000_000_u64,
        })
    };
    json!({
        "display_name": "lab",
        "switches": [leaf(1), leaf(2), {"name": "spine1", "role": "SWITCH_ROLE_SPINE"}],
        "links": [link(1), link(2)],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fabric_is_declared_changed_and_read() {
    let lone = Lone::start().await;
    let (status, said) = ask(&lone, "POST", "/v1/fabric:apply", fabric()).await;
    assert_eq!(status, StatusCode::OK, "{said}");
    assert_eq!(said["changes"].as_array().unwrap().len(), 5);
    assert!(said["header"]["revision"].is_u64());
    let path = "/v1/links/leaf1:eth1--spine1:eth1";
    let (_, link) = ask(&lone, "GET", path, Value::Null).await;
    assert_eq!(link["resource"]["capacity_bps"], 400_000_000_000_u64);
    assert_eq!(link["resource"]["admin_state"], "ADMIN_STATE_UP");
    let body = json!({"admin_state": "ADMIN_STATE_DOWN"});
    let masked = format!("{path}?update_mask=admin_state&validate_only=true&force=true");
    let (status, said) = ask(&lone, "PATCH", &masked, body.clone()).await;
    assert_eq!(
        (status, &said["resource"]["admin_state"]),
        (StatusCode::OK, &json!("ADMIN_STATE_DOWN"))
    );
    let (_, link) = ask(&lone, "GET", path, Value::Null).await;
    assert_eq!(link["resource"]["admin_state"], "ADMIN_STATE_UP");
    let last = refused(&lone, request("PATCH", path, body.to_string())).await;
    assert_eq!((last.0, last.1.as_str()), (400, "LAST_PATH"));
    let forced = format!("{path}?force=true");
    let (status, _) = ask(&lone, "PATCH", &forced, body).await;
    assert_eq!(status, StatusCode::OK);
    let (_, page) = ask(&lone, "GET", "/v1/links?page_size=1", Value::Null).await;
    assert_eq!(page["links"][0]["admin_state"], "ADMIN_STATE_DOWN");
    assert_ne!(page["next_page_token"], "");
    let (status, _) = ask(&lone, "DELETE", path, Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    let gone = refused(&lone, request("GET", path, "")).await;
    assert_eq!((gone.0, gone.1.as_str()), (404, "NO_SUCH_RESOURCE"));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused_by_the_name_of_its_field() {
    let mut lone = Lone::start().await;
    lone.create("h1", "").await.unwrap();
    for (method, path, body, fields) in [
        ("POST", "/v1/hosts", r#"{"nam": "h1"}"#, "resource.nam"),
        ("POST", "/v1/hosts", "{", "body"),
        ("POST", "/v1/hosts", "", "resource"),
        ("POST", "/v1/hosts", r#"{"name": ""}"#, "resource.name"),
        (
            "POST",
            "/v1/hosts?resource.name=x",
            r#"{"name": "h1"}"#,
            "resource.name",
        ),
        (
            "PATCH",
            "/v1/hosts/h1",
            r#"{"name": "h2"}"#,
            "resource.name",
        ),
        (
            "PATCH",
            "/v1/hosts/h1?update_mask=nobody",
            r#"{"labels": {}}"#,
            "update_mask",
        ),
        ("GET", "/v1/peers?page_size=x", "", "page_size"),
        ("GET", "/v1/peers?page_size=-1", "", "page_size"),
        ("GET", "/v1/peers?page_size=1e1", "", "page_size"),
        ("GET", "/v1/peers?page_size=1&page_size=2", "", "page_size"),
        ("GET", "/v1/peers?nobody=1", "", "nobody"),
        ("GET", "/v1/peers?x=%ff", "", "query"),
        ("GET", "/v1/peers", "{}", "body"),
        ("GET", "/v1/routes?family=7", "", "family"),
        ("GET", "/v1/routes?family=ADDRESS_FAMILY_IPX", "", "family"),
        ("GET", "/v1/vnis/16777216", "", "vni"),
        ("GET", "/v1/vnis/x", "", "vni"),
        (
            "GET",
            "/v1/watch?progress_interval=1",
            "",
            "progress_interval",
        ),
    ] {
        let (status, _, named) = refused(&lone, request(method, path, body)).await;
        assert_eq!(status, 400, "{method} {path} {body}");
        assert_eq!(named, [fields], "{method} {path} {body}");
    }
    let long = "x".repeat(super::BODY_MAX + 1);
    let (status, _, named) = refused(&lone, request("POST", "/v1/hosts", long)).await;
    assert_eq!((status, named), (400, vec!["body".to_owned()]));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_page_is_not_let_in() {
    let lone = Lone::start().await;
    let edited = |edit: &dyn Fn(&mut Request<Body>)| {
        let mut request = request("POST", "/v1/hosts", r#"{"name": "h1"}"#);
        edit(&mut request);
        request
    };
    let with = |name: header::HeaderName, value: &'static str| {
        edited(&|it| {
            it.headers_mut().insert(&name, value.parse().unwrap());
        })
    };
    for (request, expected) in [
        (with(header::HOST, "weft.example"), (403, "FOREIGN_HOST")),
        (with(header::HOST, ""), (403, "FOREIGN_HOST")),
        (
            edited(&|it| drop(it.headers_mut().remove(header::HOST))),
            (400, "INVALID_FIELDS"),
        ),
        (
            edited(&|it| {
                let other = "localhost".parse().unwrap();
                it.headers_mut().append(header::HOST, other);
            }),
            (400, "INVALID_FIELDS"),
        ),
        (
            edited(&|it| {
                let latin_1 = header::HeaderValue::from_bytes(b"w\xe9ft").unwrap();
                it.headers_mut().insert(header::HOST, latin_1);
            }),
            (400, "INVALID_FIELDS"),
        ),
        (
            with(header::ORIGIN, "http://evil.example"),
            (403, "FOREIGN_ORIGIN"),
        ),
        (with(header::ORIGIN, "null"), (403, "FOREIGN_ORIGIN")),
        (with(header::CONTENT_TYPE, "text/plain"), (415, "NOT_JSON")),
    ] {
        let (status, reason, _) = refused(&lone, request).await;
        assert_eq!((status, reason.as_str()), expected);
    }
    let far: SocketAddr = "192.0.2.7:4000".parse().unwrap();
    let far = edited(&|it| {
        it.extensions_mut().insert(TcpConnectInfo {
            local_addr: None,
            remote_addr: Some(far),
        });
    });
    let (status, reason, _) = refused(&lone, far).await;
    assert_eq!((status, reason.as_str()), (403, "INSECURE"));
    let (_, hosts) = ask(&lone, "GET", "/v1/hosts", Value::Null).await;
    assert_eq!(hosts["hosts"], json!([]));
    for (host, origin) in [
        ("localhost:7401", "http://localhost:7401"),
        ("[::1]:7401", "http://[::1]:7401"),
        ("10.0.0.1", "http://10.0.0.1"),
        ("LocalHost.:7401", "http://localhost.:7401"),
    ] {
        let mut own = request("GET", "/v1/hosts", "");
        own.headers_mut()
            .insert(header::HOST, host.parse().unwrap());
        own.headers_mut()
            .insert(header::ORIGIN, origin.parse().unwrap());
        assert_eq!(send(&lone, own).await.0, StatusCode::OK);
    }
    lone.stop().await;
}

/// RFC 9112 §3.2. Load balancers and monitoring systems send HTTP/1.0, some of them OPTIONS, and a kubelet comes from afar.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_is_answered_whoever_sends_it() {
    let lone = Lone::start().await;
    let far: SocketAddr = "192.0.2.7:4000".parse().unwrap();
    let asked = |method: &str, path: &str, version: Version, host: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path).version(version);
        if let Some(host) = host {
            request = request.header(header::HOST, host);
        }
        let mut request = request.body(Body::empty()).unwrap();
        request.extensions_mut().insert(TcpConnectInfo {
            local_addr: None,
            remote_addr: Some(far),
        });
        request
    };
    let (v1_0, v1_1) = (Version::HTTP_10, Version::HTTP_11);
    for (method, version, host, expected) in [
        ("GET", v1_0, None, StatusCode::OK),
        ("HEAD", v1_0, None, StatusCode::OK),
        ("OPTIONS", v1_0, None, StatusCode::OK),
        ("GET", v1_1, Some("weft.default.svc"), StatusCode::OK),
        ("GET", v1_1, None, StatusCode::BAD_REQUEST),
        ("POST", v1_0, None, StatusCode::METHOD_NOT_ALLOWED),
    ] {
        for path in ["/livez", "/readyz"] {
            let request = asked(method, path, version, host);
            let status = send(&lone, request).await.0;
            assert_eq!(status, expected, "{method} {path} {version:?} {host:?}");
        }
    }
    // All else is for this machine, also over HTTP/1.0.
    let request = asked("GET", "/v1/hosts", v1_0, None);
    let (status, reason, _) = refused(&lone, request).await;
    assert_eq!((status, reason.as_str()), (403, "INSECURE"));
    let mut near = asked("GET", "/v1/hosts", v1_0, None);
    near.extensions_mut().insert(TcpConnectInfo {
        local_addr: None,
        remote_addr: Some("[::ffff:127.0.0.1]:4000".parse().unwrap()),
    });
    assert_eq!(send(&lone, near).await.0, StatusCode::OK);
    // The system does not know the address of a client that has sent a reset.
    let mut unknown = asked("GET", "/v1/hosts", v1_0, None);
    unknown.extensions_mut().insert(TcpConnectInfo {
        local_addr: None,
        remote_addr: None,
    });
    let (status, reason, _) = refused(&lone, unknown).await;
    assert_eq!((status, reason.as_str()), (403, "INSECURE"));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_media_type_has_parameters_and_no_case() {
    let lone = Lone::start().await;
    for (kind, expected) in [
        ("application/json", StatusCode::OK),
        ("Application/JSON ; Charset=UTF-8", StatusCode::OK),
        ("application/jsonl", StatusCode::UNSUPPORTED_MEDIA_TYPE),
        // No service has this path.
        ("APPLICATION/gRPC+proto", StatusCode::OK),
    ] {
        let mut validated = request("POST", "/v1/hosts?validate_only=true", r#"{"name": "h1"}"#);
        let value = kind.parse().unwrap();
        validated.headers_mut().insert(header::CONTENT_TYPE, value);
        let answer = lone.http.clone().oneshot(validated).await.unwrap();
        assert_eq!(answer.status(), expected, "{kind}");
        let is_grpc = answer.headers().contains_key("grpc-status");
        assert_eq!(is_grpc, kind.contains("gRPC"), "{kind}");
    }
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_says_which_methods_it_takes() {
    let lone = Lone::start().await;
    let answer = lone
        .http
        .clone()
        .oneshot(request("PUT", "/v1/hosts/h1", "{}"));
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(answer.headers()[header::ALLOW], "DELETE, GET, PATCH");
    let (status, said) = ask(&lone, "GET", "/v2/hosts", Value::Null).await;
    assert_eq!(
        (status, &said["error"]["status"]),
        (StatusCode::NOT_FOUND, &json!("NOT_FOUND"))
    );
    // Until the replica knows that it leads.
    while ask(&lone, "GET", "/readyz", Value::Null).await.0 != StatusCode::OK {
        tokio::task::yield_now().await;
    }
    for path in ["/livez", "/readyz"] {
        let (status, said) = ask(&lone, "GET", path, Value::Null).await;
        assert_eq!((status, said), (StatusCode::OK, json!("ok\n")));
        let (status, _) = ask(&lone, "POST", path, json!({})).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    }
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_events_and_go_on_after_the_last_one() {
    let mut lone = Lone::start().await;
    lone.create("h1", "").await.unwrap();
    let path = "/v1/watch?kinds=RESOURCE_KIND_HOST&progress_interval=0.1s";
    let answer = lone.http.clone().oneshot(request("GET", path, ""));
    let mut body = answer.await.unwrap().into_body();
    let (said, id) = (event(&mut body).await.1, until_id(&mut body).await);
    assert_eq!(
        (&said["snapshot"], &said["changes"][0]["name"]),
        (&json!(true), &json!("h1"))
    );
    drop(body);
    lone.create("h2", "").await.unwrap();
    let mut again = request("GET", path, "");
    again
        .headers_mut()
        .insert("last-event-id", id.parse().unwrap());
    let mut body = lone.http.clone().oneshot(again).await.unwrap().into_body();
    let (_, said) = event(&mut body).await;
    assert_eq!(
        (&said["snapshot"], &said["changes"][0]["name"]),
        (&json!(false), &json!("h2"))
    );
    drop(body);
    let after = refused(
        &lone,
        request("GET", "/v1/watch?after_revision=99999999", ""),
    )
    .await;
    assert_eq!((after.0, after.1.as_str()), (400, "REVISION_IN_FUTURE"));
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_statuses_are_asked_for_by_their_names_or_all() {
    let lone = Lone::start().await;
    ask(&lone, "POST", "/v1/fabric:apply", fabric()).await;
    let link = "leaf2:eth1--spine1:eth2";
    for (query, links) in [
        ("job_plans.names=train1&link_statuses=", 2),
        (&format!("job_plans=&link_statuses.names={link}"), 1),
    ] {
        let path = format!("/v1/watch?{query}");
        let answer = lone.http.clone().oneshot(request("GET", &path, ""));
        let mut body = answer.await.unwrap().into_body();
        let (_, said) = event(&mut body).await;
        let declared = said["changes"].as_array().unwrap().len();
        assert_eq!((&said["snapshot"], declared), (&json!(true), 0));
        let (id, said) = event(&mut body).await;
        assert!(id.is_some());
        for snapshot in ["job_plan_snapshot", "link_status_snapshot"] {
            assert_eq!(said[snapshot], true, "{said}");
        }
        let changes = said["link_status_changes"].as_array().unwrap();
        assert_eq!(changes.len(), links);
        let last = &changes[links - 1];
        assert_eq!(last["change_type"], "CHANGE_TYPE_CREATED");
        assert_eq!(last["link_status"]["link_name"], link);
    }
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_request_is_named_at_once() {
    let lone = Lone::start().await;
    let body = r#"{"name": 7, "nam": "h1", "labels": [], "name": "h1"}"#;
    let mut request = request("POST", "/v1/hosts?validate_only=yes&colour=red", body);
    for name in ["if-match", "last-event-id"] {
        let value = "x".parse().unwrap();
        request.headers_mut().insert(name, value);
    }
    let (status, _, named) = refused(&lone, request).await;
    let expected = [
        "if-match",
        "resource.name",
        "resource.nam",
        "resource.labels",
        "resource.name",
        "validate_only",
        "colour",
    ];
    assert_eq!(
        (status, named.as_slice()),
        (400, &expected.map(str::to_owned)[..])
    );
    let mut request = self::request("GET", "/v1/watch?routes.vni=x&kinds=y", "");
    request
        .headers_mut()
        .insert("last-event-id", "+5".parse().unwrap());
    let (_, _, named) = refused(&lone, request).await;
    assert_eq!(named, ["Last-Event-ID", "routes.vni", "kinds"]);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_is_cut_and_others_hear_on() {
    let mut lone = Lone::start().await;
    let path = "/v1/watch?kinds=RESOURCE_KIND_HOST";
    let slow = lone.http.clone().oneshot(request("GET", path, ""));
    let mut slow = slow.await.unwrap().into_body();
    let fast = lone.http.clone().oneshot(request("GET", path, ""));
    let mut fast = fast.await.unwrap().into_body();
    until_id(&mut fast).await;
    for number in 0..20 {
        let name = format!("h{number}");
        lone.create(&name, "").await.unwrap();
        let (_, said) = event(&mut fast).await;
        assert_eq!(said["changes"][0]["name"], name);
    }
    tokio::time::sleep(crate::operator::watch::PATIENCE * 3 / 2).await;
    let mut text = String::new();
    while let Some(frame) = slow.frame().await {
        text += std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap();
    }
    let (_, last) = text.rsplit_once("event: status").unwrap();
    assert!(last.contains("WATCHER_TOO_SLOW"), "{last}");
    drop(fast);
    lone.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_watch_and_the_next_one_is_refused() {
    let mut lone = Lone::start().await;
    let path = "/v1/watch?kinds=RESOURCE_KIND_HOST";
    let mut bodies = Vec::new();
    for _ in 0..crate::operator::watch::WATCHERS_MAX {
        let answer = lone.http.clone().oneshot(request("GET", path, ""));
        let answer = answer.await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        bodies.push(answer.into_body());
    }
    let (status, reason, _) = refused(&lone, request("GET", path, "")).await;
    assert_eq!((status, reason.as_str()), (429, "TOO_MANY_WATCHERS"));
    // Each of the others hears on.
    lone.create("h1", "").await.unwrap();
    for body in [0, 5_000, 9_999] {
        until_id(&mut bodies[body]).await;
        let (_, said) = event(&mut bodies[body]).await;
        assert_eq!(said["changes"][0]["name"], "h1");
    }
    drop(bodies);
    lone.stop().await;
}

/// The id of the next event that has one: a part of a snapshot has none.
async fn until_id(body: &mut Body) -> String {
    loop {
        if let (Some(id), _) = event(body).await {
            return id;
        }
    }
}

/// Id and message of the next event.
async fn event(body: &mut Body) -> (Option<String>, Value) {
    let frame = body.frame().await.unwrap().unwrap();
    let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
    let (id, data) = text.trim_end().split_once("data: ").unwrap();
    let id = id.trim_end().strip_prefix("id: ").map(str::to_owned);
    (id, serde_json::from_str(data).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_describes_each_call_and_refers_to_nothing_that_is_not_there() {
    let lone = Lone::start().await;
    let (_, document) = ask(&lone, "GET", "/openapi.json", Value::Null).await;
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split(r##""$ref":"#/components/schemas/"##).skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
    for (name, schema) in schemas.iter().filter(|(name, _)| !name.contains('.')) {
        assert_ne!(schema["description"], "", "{name}");
    }
    for operation in document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(Value::as_object)
    {
        for (verb, operation) in operation {
            assert_ne!(operation["description"], "", "{verb}");
            for parameter in operation["parameters"].as_array().unwrap() {
                assert_ne!(parameter["description"], "", "{parameter}");
            }
        }
    }
    let link = &schemas["Link"]["properties"]["capacity_bps"];
    assert_eq!(
        link["description"],
        "REQUIRED. Bits per second in each direction."
    );
    lone.stop().await;
}

/// Each call of the contract has a handler: none is there in words alone.
#[tokio::test(flavor = "multi_thread")]
async fn every_call_of_the_contract_is_served() {
    let lone = Lone::start().await;
    let services = weft_proto::json::pool().services();
    let mut calls = 0;
    for service in services.filter(|it| it.package_name() == "weft.v1") {
        for method in service.methods() {
            let path = format!("/{}/{}", service.full_name(), method.name());
            // An empty message: no compression, no octets.
            let request = Request::post(&path)
                .version(Version::HTTP_2)
                .header(header::CONTENT_TYPE, "application/grpc")
                .body(Body::from(vec![0; 5]));
            let answer = lone.http.clone().oneshot(request.unwrap());
            let answer = answer.await.unwrap();
            let code = answer.headers().get("grpc-status");
            assert_ne!(code.map(|code| code.as_bytes()), Some(&b"12"[..]), "{path}");
            calls += 1;
        }
    }
    assert!(calls > 40, "{calls}");
    lone.stop().await;
}

/// A page of another site sends what it likes to an address that it may not read from, and its browser asks nobody first.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_asks_no_service() {
    let lone = Lone::start().await;
    let delete = weft_proto::v1::DeleteHostRequest {
        name: "h1".to_owned(),
        ..Default::default()
    };
    ask(&lone, "POST", "/v1/hosts", json!({"name": "h1"})).await;
    let mut octets = vec![0, 0, 0, 0, 4];
    prost::Message::encode(&delete, &mut octets).unwrap();
    let path = "/weft.v1.FabricService/DeleteHost";
    for (version, origin) in [
        (Version::HTTP_11, None),
        (Version::HTTP_11, Some("http://192.0.2.66")),
        (Version::HTTP_2, Some("http://127.0.0.1:7401")),
    ] {
        for kind in ["text/plain", "application/grpc"] {
            let mut request = Request::post(path)
                .version(version)
                .header(header::CONTENT_TYPE, kind);
            if let Some(origin) = origin {
                request = request.header(header::ORIGIN, origin);
            }
            let request = request.body(Body::from(octets.clone())).unwrap();
            let (number, reason, _) = refused(&lone, request).await;
            assert_eq!((number, reason.as_str()), (403, "NOT_GRPC"));
        }
    }
    let (status, _) = ask(&lone, "GET", "/v1/hosts/h1", Value::Null).await;
    assert_eq!(status, StatusCode::OK);
    lone.stop().await;
}

/// Unknown fields, filters and paths of a mask; tokens of other lists: method, path and body, and what is said of it.
const MISTAKES: &str = r#"
GET /v1/routes?colour=red - INVALID_FIELDS colour
GET /v1/routes?vni=x - INVALID_FIELDS vni
GET /v1/routes?mac=zz - INVALID_FIELDS mac
GET /v1/routes?page_token=hosts/h1 - INVALID_FIELDS page_token
GET /v1/hosts?page_size=-1 - INVALID_FIELDS page_size
GET /v1/watch?routes.colour=red - INVALID_FIELDS routes.colour
GET /v1/watch?kinds=99 - INVALID_FIELDS kinds[0]
GET /v1/watch?decisions.kind=99 - INVALID_FIELDS decisions.kind
GET /v1/watch?job_plans.colour=red - INVALID_FIELDS job_plans.colour
GET /v1/watch?link_statuses=red - INVALID_FIELDS link_statuses
GET /v1/watch?after_revision=18446744073709551615 - REVISION_IN_FUTURE
GET /v1/decisions?kind=99 - INVALID_FIELDS kind
GET /v1/decisions?page_token=pins/a - INVALID_FIELDS page_token
POST /v1/hosts {"name":"h1","colour":"red"} INVALID_FIELDS resource.colour
POST /v1/hosts {"name":""} INVALID_FIELDS resource.name
PATCH /v1/links/leaf1:eth1--spine1:eth1?update_mask=colour {} INVALID_FIELDS update_mask
PATCH /v1/links/leaf1:eth1--spine1:eth1?etag=stale {} INVALID_FIELDS etag
PATCH /v1/links/leaf1:eth1--spine1:eth1 {"etag":"stale"} ETAG_MISMATCH
DELETE /v1/switches/leaf1 - IN_USE
DELETE /v1/hosts/nobody - NO_SUCH_RESOURCE
POST /v1/peers/192.0.2.1:reset {} NO_SUCH_RESOURCE
POST /v1/peers/192.0.2.1:refresh {} INVALID_FIELDS direction
GET /v1/nothing - NO_SUCH_PATH
PUT /v1/hosts {} UNKNOWN_METHOD
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named_and_changes_nothing() {
    let lone = Lone::start().await;
    ask(&lone, "POST", "/v1/fabric:apply", fabric()).await;
    let before = ask(&lone, "GET", "/v1/fabric", Value::Null).await.1["generation"].clone();
    for mistake in MISTAKES.trim().lines() {
        let words: Vec<&str> = mistake.split(' ').collect();
        let body = words[2].trim_start_matches('-').to_owned();
        let (number, reason, fields) = refused(&lone, request(words[0], words[1], body)).await;
        assert!((400..500).contains(&number), "{mistake}: {number}");
        assert_eq!(reason, words[3], "{mistake}");
        assert_eq!(fields, words[4..], "{mistake}");
    }
    let after = ask(&lone, "GET", "/v1/fabric", Value::Null).await.1["generation"].clone();
    assert_eq!(before, after);
    lone.stop().await;
}
