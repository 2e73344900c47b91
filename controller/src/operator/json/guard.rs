//! Who may speak JSON to this port: a browser that a foreign page drives may not. Knows no call.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Method, header, request::Parts};
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
        if !host.as_deref().is_some_and(|host| self.ours(host)) {
            return Err(refusal::foreign_host());
        }
        if let Some(origin) = request.headers.get(header::ORIGIN) {
            let origin = origin
                .to_str()
                .ok()
                .and_then(|it| it.strip_prefix("http://"));
            if origin.is_none() || origin != host.as_deref() {
                return Err(refusal::foreign_origin());
            }
        }
        Ok(())
    }

    /// An address, localhost or a listed name: a name that a stranger's DNS leads here is none of them.
    fn ours(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => return rest.split(']').next().is_some_and(is_address),
            None => host.split(':').next().unwrap_or(host),
        };
        is_address(name)
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|it| it.eq_ignore_ascii_case(name))
    }
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether the client is on this machine; also where the connection is no socket.
fn near(request: &Parts) -> bool {
    let info = request.extensions.get::<TcpConnectInfo>();
    let remote = info.and_then(TcpConnectInfo::remote_addr);
    remote.is_none_or(|it: SocketAddr| it.ip().to_canonical().is_loopback())
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
    !changes || json(&request.headers)
}

fn json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    kind.eq_ignore_ascii_case("application/json")
}
