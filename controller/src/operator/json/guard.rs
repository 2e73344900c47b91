//! Who may speak JSON to this port: a browser that a foreign page drives may not. Knows no call.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Method, Version, header, request::Parts};
use tonic::Status;
use tonic::transport::server::TcpConnectInfo;

use super::super::refusal;
use crate::fabric::fact::InvalidFabric;

/// What the port lets in.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Clients beyond loopback are answered.
    pub(super) insecure: bool,
    /// Names that clients may call this replica by, beside its addresses and localhost.
    pub(super) hosts: Vec<String>,
}

impl Guard {
    pub(super) fn admit(&self, request: &Parts) -> Result<(), Status> {
        if !self.insecure && !near(request) {
            return Err(refusal::insecure());
        }
        let host = host(request);
        let is_ours = match &host {
            Some(host) => self.ours(host),
            // Browsers always send Host: a client of HTTP/1.0 without it shows no page (RFC 9112 §3.2).
            None => request.version < Version::HTTP_11,
        };
        if !is_ours {
            return Err(refusal::foreign_host());
        }
        if let Some(origin) = request.headers.get(header::ORIGIN) {
            let origin = origin.to_str().ok();
            let origin = origin.and_then(|it| it.strip_prefix("http://"));
            let pair = origin.zip(host.as_deref());
            if !pair.is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host)) {
                return Err(refusal::foreign_origin());
            }
        }
        Ok(())
    }

    /// An address, localhost or a listed name: a name that a stranger's DNS leads here is none of them.
    fn ours(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => return rest.split(']').next().is_some_and(is_address),
            None => absolute(host.split(':').next().unwrap_or(host)),
        };
        let mut hosts = self.hosts.iter().map(|it| absolute(it));
        is_address(name)
            || name.eq_ignore_ascii_case("localhost")
            || hosts.any(|it| it.eq_ignore_ascii_case(name))
    }
}

/// Checks Host: HTTP/1.1 has one (RFC 9112 §3.2), HTTP/1.0 may have none, HTTP/2 has `:authority` instead.
///
/// # Errors
/// INVALID_ARGUMENT, with the fault of the header.
pub(super) fn check_host(request: &Parts) -> Result<(), Status> {
    let mut hosts = request.headers.get_all(header::HOST).iter();
    let fault = match (hosts.next(), hosts.next()) {
        (None, _) if request.version == Version::HTTP_11 => "missing, and HTTP/1.1 needs it",
        (Some(_), Some(_)) => "there twice",
        (Some(host), None) if host.to_str().is_err() => "not the name or address of a host",
        (Some(_), None) | (None, _) => return Ok(()),
    };
    Err(refusal::field("Host", fault))
}

/// A name without the dot of the root, which may end it (RFC 3986 §3.2.2).
fn absolute(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Returns true if the client is on this machine. A client whose address is unknown is not: a reset may hide it.
fn near(request: &Parts) -> bool {
    let info = request.extensions.get::<TcpConnectInfo>();
    let remote = info.and_then(TcpConnectInfo::remote_addr);
    remote.is_some_and(|it: SocketAddr| it.ip().to_canonical().is_loopback())
}

/// What the client calls this replica.
fn host(request: &Parts) -> Option<String> {
    let authority = request.uri.authority().map(|it| it.as_str().to_owned());
    let header = request.headers.get(header::HOST);
    authority.or_else(|| Some(header?.to_str().ok()?.to_owned()))
}

/// Notes conditions of HTTP that a change would not be held to.
pub(super) fn conditions(request: &Parts, faults: &mut InvalidFabric) {
    if request.method == Method::GET {
        return;
    }
    for name in [header::IF_MATCH, header::IF_UNMODIFIED_SINCE] {
        if request.headers.contains_key(&name) {
            let reason =
                "not looked at; a PATCH has the field etag in its body, a DELETE in its query";
            faults.fault(name, reason);
        }
    }
}

/// Whether it is JSON, if its method carries something: a form of a foreign page cannot be.
pub(super) fn media_type_fits(request: &Parts) -> bool {
    let changes = matches!(request.method, Method::POST | Method::PATCH | Method::PUT);
    !changes || media_type(&request.headers) == "application/json"
}

/// Media type of a body, in lower case and without parameters (RFC 9110 §8.3.1); empty if there is none.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    kind.to_ascii_lowercase()
}
