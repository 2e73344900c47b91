//! The client against a gNMI server behind TLS and a login, over a socket of the loopback: which certificates it takes,
//! and what it says of the others.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};
use weft_agent::agent::Config;
use weft_agent::driver::Driver;
use weft_agent::fib::Ids;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::{gnmi, gribi};
use weft_telemetry::{Authorities, Client, Connect, Heard, Options, connect_tcp, connect_tls};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(called: &str) -> Authority {
    authority_until(called, LAST_YEAR)
}

fn authority_until(called: &str, last_year: i32) -> Authority {
    let mut parameters = CertificateParams::default();
    let name = &mut parameters.distinguished_name;
    name.push(DnType::CommonName, called);
    parameters.not_after = date_time_ymd(last_year, 12, 31);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key")).expect("a CA")
}

/// A certificate for some names, valid to the end of a year, and its key.
fn identity(by: &Authority, names: &[&str], last_year: i32) -> Identity {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut parameters = CertificateParams::new(names).expect("names");
    parameters.not_before = date_time_ymd(2001, 1, 1);
    parameters.not_after = date_time_ymd(last_year, 12, 31);
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.signed_by(&key, by).expect("signed");
    Identity::from_pem(certificate.pem(), key.serialize_pem())
}

/// A certificate that a switch has signed for itself, and its identity.
fn own(is_ca: bool, host: &str, last_year: i32) -> (String, Identity) {
    let mut parameters = CertificateParams::new([host.to_owned()]).expect("names");
    parameters.not_before = date_time_ymd(2001, 1, 1);
    parameters.not_after = date_time_ymd(last_year, 12, 31);
    if is_ca {
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("signed").pem();
    let identity = Identity::from_pem(&certificate, key.serialize_pem());
    (certificate, identity)
}

fn trusting(authority: &Authority) -> Connect {
    let authorities = Authorities::from_pem(authority.pem().as_bytes()).expect("a CA");
    Arc::new(move |address| connect_tls(&authorities, address))
}

/// weft-agent's gNMI service with TLS, and behind a login if there is one; its port.
async fn serve(identity: Identity, login: Option<[&'static str; 2]>) -> u16 {
    let config = Config {
        network_instance: "DEFAULT".into(),
        ids: Ids::new(0x5700_0000).expect("a range"),
        prefixes: vec!["0.0.0.0/0".parse().expect("a prefix")],
        pins: true,
        lease: Duration::from_secs(3600),
        allow_override: false,
    };
    let mut driver = Driver::start(config, Recorded::new(Vec::new()))
        .await
        .expect("readable");
    let (commands, queue) = gribi::commands();
    let service = gnmi::service(commands, driver.changes());
    tokio::spawn(async move { driver.run(queue, std::future::pending()).await });
    let check = move |request: Request<()>| {
        let sent = |name| {
            request
                .metadata()
                .get(name)
                .map(AsciiMetadataValue::as_bytes)
        };
        let sent = ["username", "password"].map(sent);
        match login.map(|login| login.map(|it| Some(it.as_bytes()))) {
            Some(login) if sent != login => {
                Err(Status::unauthenticated("unknown user or password"))
            }
            Some(_) | None => Ok(request),
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a socket");
    let port = listener.local_addr().expect("bound").port();
    let server = Server::builder()
        .tls_config(ServerTlsConfig::new().identity(identity))
        .expect("an identity")
        .layer(tonic::service::InterceptorLayer::new(check))
        .add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener).fuse()));
    port
}

/// What a client hears first: a sample, or why it hears nothing.
async fn hear(connect: Connect, address: String, login: Option<[&str; 2]>) -> Result<(), String> {
    let mut metadata = MetadataMap::new();
    if let Some([username, password]) = login {
        metadata.insert("username", username.parse().expect("ASCII"));
        metadata.insert("password", password.parse().expect("ASCII"));
    }
    let options = Options {
        metadata,
        ..Options::default()
    };
    let began = tokio::time::Instant::now();
    let clock = Arc::new(move || began.elapsed());
    let (client, mut heard) = Client::new(address.into(), connect, clock, options);
    let client = tokio::spawn(client.run());
    heard.mark_unchanged();
    let changed = timeout(Duration::from_secs(10), heard.changed()).await;
    changed.expect("heard in time").expect("a client");
    let first = match &*heard.borrow() {
        Heard::Sample(_) => Ok(()),
        Heard::Silent(why) => Err(why.clone()),
    };
    client.abort();
    first
}

const LAST_YEAR: i32 = 2999;

#[tokio::test]
async fn a_switch_is_heard_over_tls_by_its_name_or_address() {
    let authority = authority("ours");
    let port = serve(
        identity(&authority, &["localhost", "127.0.0.1"], LAST_YEAR),
        None,
    )
    .await;
    for host in ["localhost", "127.0.0.1"] {
        let heard = hear(trusting(&authority), format!("{host}:{port}"), None).await;
        assert_eq!(heard, Ok(()), "{host}");
    }
}

#[tokio::test]
async fn a_certificate_that_does_not_hold_is_a_reason() {
    // Two of one name differ in their keys only.
    let [ours, other, namesake] = ["ours", "other", "ours"].map(authority);
    for (by, name, last_year, reason) in [
        (&other, "127.0.0.1", LAST_YEAR, "no listed CA has signed it"),
        (&namesake, "127.0.0.1", LAST_YEAR, "not signed by the key"),
        (&ours, "127.0.0.1", 2002, "days ago: renew it"),
        (&ours, "192.0.2.1", LAST_YEAR, "not valid for 127.0.0.1"),
    ] {
        let port = serve(identity(by, &[name], last_year), None).await;
        let heard = hear(trusting(&ours), format!("127.0.0.1:{port}"), None).await;
        let why = heard.expect_err("not heard");
        assert!(why.starts_with("no TLS connection: "), "{why}");
        assert!(why.contains(reason), "{why}");
    }
}

/// As `openssl req -x509` makes them, a certificate of a CA by default.
#[tokio::test]
async fn a_certificate_that_is_listed_itself_is_taken_for_its_names() {
    let ours = authority("ours");
    for (is_ca, host, last_year, expected) in [
        (true, "127.0.0.1", LAST_YEAR, Ok(())),
        (false, "127.0.0.1", LAST_YEAR, Ok(())),
        (true, "192.0.2.1", LAST_YEAR, Err("not valid for 127.0.0.1")),
        (
            false,
            "192.0.2.1",
            LAST_YEAR,
            Err("not valid for 127.0.0.1"),
        ),
        (true, "127.0.0.1", 2002, Err("days ago: renew it")),
    ] {
        let (certificate, identity) = own(is_ca, host, last_year);
        let port = serve(identity, None).await;
        let address = || format!("127.0.0.1:{port}");
        let listed = Authorities::from_pem(certificate.as_bytes()).expect("a certificate");
        let listed: Connect = Arc::new(move |address| connect_tls(&listed, address));
        match (hear(listed, address(), None).await, expected) {
            (heard, Ok(())) => assert_eq!(heard, Ok(()), "{is_ca} {host}"),
            (heard, Err(reason)) => {
                let why = heard.expect_err("not heard");
                assert!(why.contains(reason), "{why}");
            }
        }
        // Another one is listed.
        let why = hear(trusting(&ours), address(), None).await;
        let why = why.expect_err("not heard");
        assert!(why.contains("list it") || last_year == 2002, "{why}");
    }
}

/// RFC 5280 §6.1: the anchor of trust is whatever is listed.
#[tokio::test]
async fn a_listed_certificate_needs_no_listed_ca() {
    let nobody = authority_until("nobody", 2002);
    let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).expect("names");
    parameters.not_after = date_time_ymd(LAST_YEAR, 12, 31);
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.signed_by(&key, &nobody).expect("signed").pem();
    let listed = Authorities::from_pem(certificate.as_bytes()).expect("a certificate");
    let listed: Connect = Arc::new(move |address| connect_tls(&listed, address));
    // The CA has expired: only a switch that sends it could make that matter.
    let both = format!("{certificate}{}", nobody.pem());
    for sent in [&certificate, &both] {
        let port = serve(Identity::from_pem(sent, key.serialize_pem()), None).await;
        let heard = hear(Arc::clone(&listed), format!("127.0.0.1:{port}"), None).await;
        assert_eq!(heard, Ok(()));
    }
}

#[tokio::test]
async fn a_login_that_is_refused_is_a_reason() {
    let authority = authority("ours");
    let identity = identity(&authority, &["127.0.0.1"], LAST_YEAR);
    let port = serve(identity, Some(["weft", "a secret"])).await;
    let hear = |login| hear(trusting(&authority), format!("127.0.0.1:{port}"), login);
    assert_eq!(hear(Some(["weft", "a secret"])).await, Ok(()));
    for login in [None, Some(["weft", "another"])] {
        let why = hear(login).await.expect_err("refused");
        assert_eq!(
            why,
            "login refused (UNAUTHENTICATED): unknown user or password"
        );
    }
}

#[tokio::test]
async fn one_end_without_tls_is_a_reason() {
    let authority = authority("ours");
    let port = serve(identity(&authority, &["127.0.0.1"], LAST_YEAR), None).await;
    let why = hear(Arc::new(connect_tcp), format!("127.0.0.1:{port}"), None).await;
    assert!(why.is_err());
    let clear = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = clear.local_addr().unwrap().port();
    let server = Server::builder().add_routes(tonic::service::Routes::default());
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(clear).fuse()));
    let why = hear(trusting(&authority), format!("127.0.0.1:{port}"), None).await;
    let why = why.expect_err("not heard");
    assert!(why.starts_with("no TLS connection: "), "{why}");
}
