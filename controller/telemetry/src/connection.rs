//! How a connection to a gRPC server of a switch is opened: over TCP, or over TLS. It refuses to know what is asked
//! over it, and from which files certificates come.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

/// Opens a connection to the server at an address, `host:port`; an error is text for a person.
pub type Connect = Arc<dyn Fn(Arc<str>) -> Connecting + Send + Sync>;

/// A connection on its way.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Channel, String>> + Send>>;

/// The CAs that the certificate of a switch is checked against.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorities {
    pem: Arc<[u8]>,
    count: usize,
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorities").field(&self.count).finish()
    }
}

impl Authorities {
    /// Reads certificates in PEM, of which there must be one at least.
    ///
    /// # Errors
    /// What is wrong with them, for a person.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| format!("not PEM: {error}"))?;
            let added = roots.add(certificate);
            added.map_err(|error| format!("certificate {}: {error}", roots.len() + 1))?;
        }
        match roots.len() {
            0 => Err("no certificate in PEM".to_owned()),
            count => Ok(Self {
                pem: pem.into(),
                count,
            }),
        }
    }
}

/// Connects over TCP, without TLS.
#[must_use]
pub fn connect_tcp(address: Arc<str>) -> Connecting {
    Box::pin(async move {
        let endpoint = endpoint("http", &address)?;
        let connected = endpoint.connect().await;
        connected.map_err(|error| format!("no connection: {}", innermost(&error)))
    })
}

/// Connects over TLS. One of these CAs must have signed the server's certificate, for the host in the address.
#[must_use]
pub fn connect_tls(authorities: &Authorities, address: Arc<str>) -> Connecting {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(&authorities.pem))
        .timeout(ANSWER_MAX)
        // Servers of some switches speak HTTP/2 without saying so by ALPN.
        .assume_http2(true);
    Box::pin(async move {
        let endpoint = endpoint("https", &address)?.tls_config(tls);
        let endpoint = endpoint.map_err(|error| format!("no TLS: {}", innermost(&error)))?;
        let connected = endpoint.connect().await;
        connected.map_err(|error| format!("no TLS connection: {}", innermost(&error)))
    })
}

fn endpoint(scheme: &str, address: &str) -> Result<Endpoint, String> {
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
    let endpoint = endpoint.map_err(|error| format!("address {address:?}: {error}"))?;
    Ok(endpoint
        .connect_timeout(ANSWER_MAX)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(ANSWER_MAX)
        .keep_alive_while_idle(true))
}

/// The cause that says something: "transport error" does not.
fn innermost(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// How long connecting, a TLS handshake and an answer to an HTTP/2 ping may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Between two HTTP/2 pings: finds a dead switch while nothing is sent.
const KEEPALIVE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_refused() {
        let refused = |pem: &str| Authorities::from_pem(pem.as_bytes()).unwrap_err();
        assert_eq!(refused(""), "no certificate in PEM");
        assert_eq!(refused("switches"), "no certificate in PEM");
        let framed = |text: &str| {
            refused(&format!(
                "-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n"
            ))
        };
        assert!(framed("!").starts_with("not PEM: "), "{}", framed("!"));
        let nonsense = framed("c3dpdGNo");
        assert!(nonsense.starts_with("certificate 1: "), "{nonsense}");
    }

    #[test]
    fn authorities_are_compared_and_counted() {
        let made = || {
            let parameters = rcgen::CertificateParams::new(["leaf1".to_owned()]).unwrap();
            let key = rcgen::KeyPair::generate().unwrap();
            parameters.self_signed(&key).unwrap().pem()
        };
        let (one, other) = (made(), made());
        let read = |pem: &str| Authorities::from_pem(pem.as_bytes()).unwrap();
        assert_eq!(read(&one), read(&one));
        assert_ne!(read(&one), read(&other));
        let both = read(&format!("{one}{other}"));
        assert_eq!(format!("{both:?}"), "Authorities(2)");
    }
}
