//! The program with TLS and a login: who is served by it, and with which arguments it does not start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status};
use weft_proto::agent::v1::WatchStatusRequest;
use weft_proto::agent::v1::agent_service_client::AgentServiceClient;
use weft_proto::gnmi::CapabilityRequest;
use weft_proto::gnmi::g_nmi_client::GNmiClient;
use weft_proto::gribi::g_ribi_client::GRibiClient;
use weft_proto::gribi::{AftType, Empty, GetRequest, get_request::NetworkInstance};

use crate::switch::{LISTEN, on_switch};

/// Writes `cert.pem` for 127.0.0.1, `key.pem` and `password`; the CA as PEM.
fn equip(folder: &Path) -> String {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(parameters, KeyPair::generate().expect("a key"));
    let ca = ca.expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let parameters = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
    let certificate = parameters.signed_by(&key, &ca).expect("signed");
    for (name, content) in [
        ("cert.pem", certificate.pem()),
        ("key.pem", key.serialize_pem()),
        ("password", "a secret\n".to_owned()),
    ] {
        let path = folder.join(name);
        fs::write(&path, content).expect("writable");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("ours");
    }
    ca.pem()
}

/// Over TLS, trusting this CA.
fn channel(ca: &str) -> Channel {
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
    let endpoint = Endpoint::from_shared(format!("https://{LISTEN}")).expect("an address");
    endpoint.tls_config(tls).expect("a CA").connect_lazy()
}

/// How gRIBI, gNMI and the status answer calls of a user with this password.
async fn answers(channel: Channel, password: &'static str) -> [Result<(), Code>; 3] {
    let login = move |mut request: Request<()>| -> Result<_, Status> {
        let metadata = request.metadata_mut();
        metadata.insert("username", "weft".parse().expect("ASCII"));
        metadata.insert("password", password.parse().expect("ASCII"));
        Ok(request)
    };
    let line = || InterceptedService::new(channel.clone(), login);
    let get = GetRequest {
        network_instance: Some(NetworkInstance::All(Empty {})),
        aft: AftType::All.into(),
    };
    let status = WatchStatusRequest::default();
    let capabilities = CapabilityRequest::default();
    [
        GRibiClient::new(line()).get(get).await.map(drop),
        GNmiClient::new(line())
            .capabilities(capabilities)
            .await
            .map(drop),
        AgentServiceClient::new(line())
            .watch_status(status)
            .await
            .map(drop),
    ]
    .map(|answer| answer.map_err(|status| status.code()))
}

#[test]
fn everything_is_served_over_tls_to_who_has_the_login() {
    on_switch(async |switch| {
        let folder = tempfile::tempdir().expect("writable");
        let ca = equip(folder.path());
        let [cert, key, password] = ["cert.pem", "key.pem", "password"]
            .map(|name| folder.path().join(name).display().to_string());
        let tls = ["--tls-cert", &cert, "--tls-key", &key];
        let login = ["--username", "weft", "--password-file", &password];
        let daemon = switch.daemon(&[&tls[..], &login[..]].concat());
        daemon.ready().await;
        let served = answers(channel(&ca), "a secret").await;
        assert_eq!(served, [Ok(()); 3]);
        let refused = answers(channel(&ca), "another").await;
        assert_eq!(refused, [Err(Code::Unauthenticated); 3]);
        // Who trusts another CA sends nothing, and nothing is served in clear.
        let other = equip(tempfile::tempdir().expect("writable").path());
        for channel in [channel(&other), daemon.channel()] {
            let lost = answers(channel, "a secret").await;
            assert!(lost.iter().all(Result::is_err), "{lost:?}");
        }
        daemon.stop().await;
    });
}

#[test]
fn half_of_tls_or_of_a_login_is_refused() {
    on_switch(async |switch| {
        let folder = tempfile::tempdir().expect("writable");
        let _ca = equip(folder.path());
        let [cert, key, password] = ["cert.pem", "key.pem", "password"]
            .map(|name| folder.path().join(name).display().to_string());
        for arguments in [
            &["--tls-cert", &cert][..],
            &["--tls-key", &key],
            &["--tls-cert", &cert, "--tls-key", &key, "--username", "weft"],
            &["--username", "weft", "--password-file", &password],
            &["--tls-cert", &key, "--tls-key", &cert],
        ] {
            assert!(!switch.daemon(arguments).ended(), "{arguments:?}");
        }
    });
}
