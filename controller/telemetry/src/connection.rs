//! How a connection to a gRPC server of a switch is opened: over TCP, or over TLS. It refuses to know what is asked
//! over it, and from which files certificates come.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

use crate::cause;
use crate::trust::Authorities;

/// Opens a connection to the server at an address, `host:port`; an error is text for a person.
pub type Connect = Arc<dyn Fn(Arc<str>) -> Connecting + Send + Sync>;

/// A connection on its way.
pub type Connecting = Pin<Box<dyn Future<Output = Result<Channel, String>> + Send>>;

/// Connects over TCP, without TLS.
#[must_use]
pub fn connect_tcp(address: Arc<str>) -> Connecting {
    Box::pin(async move {
        let endpoint = endpoint("http", &address)?;
        let connected = endpoint.connect().await;
        connected.map_err(|error| format!("no connection: {}", cause::of(&error)))
    })
}

/// Connects over TLS. The server's certificate, for the host in the address, must be one of these, or signed by one.
#[must_use]
pub fn connect_tls(authorities: &Authorities, address: Arc<str>) -> Connecting {
    let verifier = authorities.verifier();
    let tls = ClientTlsConfig::new()
        .timeout(ANSWER_MAX)
        // Servers of some switches speak HTTP/2 without saying so by ALPN.
        .assume_http2(true);
    Box::pin(async move {
        let verifier = verifier.map_err(|fault| format!("no TLS: {fault}"))?;
        let endpoint = endpoint("https", &address)?.tls_config_with_verifier(tls, verifier);
        let endpoint = endpoint.map_err(|error| format!("no TLS: {}", cause::of(&error)))?;
        let connected = endpoint.connect().await;
        connected.map_err(|error| format!("no TLS connection: {}", cause::of(&error)))
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

/// How long connecting, a TLS handshake and an answer to an HTTP/2 ping may take.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Between two HTTP/2 pings: finds a dead switch while nothing is sent.
const KEEPALIVE: Duration = Duration::from_secs(10);
