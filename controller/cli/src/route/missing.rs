//! Reasons of an empty list of routes: a MAC address, peer or VNI that nobody knows. Knows no column.

use tonic::Code;
use weft_proto::v1::{self as proto, SessionState};

use super::page;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Row, printable};
use crate::peer;

/// Refuses a request that names a MAC address, peer or VNI which nobody knows.
pub(super) async fn check(
    request: &proto::ListRoutesRequest,
    connection: &Connection,
) -> Result<(), Failure> {
    if let Some(vni) = request.vni {
        check_vni(vni, request, connection).await?;
    }
    if let Some(peer) = &request.peer {
        check_peer(peer, connection).await?;
    }
    match &request.mac {
        Some(mac) => check_mac(mac, request, connection).await,
        None => Ok(()),
    }
}

/// Refuses a VNI that no route has; the family and the consistency are those of the request.
pub(crate) async fn check_vni(
    vni: u32,
    request: &proto::ListRoutesRequest,
    connection: &Connection,
) -> Result<(), Failure> {
    let of_vni = proto::ListRoutesRequest {
        vni: Some(vni),
        ..first(request)
    };
    if has_routes(&of_vni, connection).await? {
        return Ok(());
    }
    Err(Failure::Refused(format!("no route has VNI {vni}")))
}

/// Returns a request for one route, without a filter.
fn first(request: &proto::ListRoutesRequest) -> proto::ListRoutesRequest {
    proto::ListRoutesRequest {
        page_size: 1,
        consistency: request.consistency,
        family: request.family,
        ..proto::ListRoutesRequest::default()
    }
}

async fn has_routes(
    request: &proto::ListRoutesRequest,
    connection: &Connection,
) -> Result<bool, Failure> {
    let question = async || page(connection, request, String::new()).await;
    Ok(!connection.read(question).await?.rows.is_empty())
}

async fn check_peer(name: &str, connection: &Connection) -> Result<(), Failure> {
    let question = async || {
        let mut client = connection.peers().await?;
        let name = name.to_owned();
        let call = client.get_peer(proto::GetPeerRequest { name });
        match connection.status(call).await? {
            Err(status) if status.code() != Code::NotFound => {
                Err(Failure::from_status(connection.address(), &status))
            }
            answer => Ok(answer.is_ok()),
        }
    };
    if connection.read(question).await? {
        return Ok(());
    }
    let name = printable(name);
    let reason = format!("no such peer: {name}; `weft peer list` has those that are known");
    Err(Failure::Refused(reason))
}

/// Refuses a MAC address that no route has; the message names the peers with a session, none of which announces it.
async fn check_mac(
    mac: &str,
    request: &proto::ListRoutesRequest,
    connection: &Connection,
) -> Result<(), Failure> {
    let of_mac = proto::ListRoutesRequest {
        mac: Some(mac.to_owned()),
        ..first(request)
    };
    if has_routes(&of_mac, connection).await? {
        return Ok(());
    }
    let ask = async |token| peer::page(connection, token).await;
    // The address is unknown, whoever has a session.
    let peers = connection.every(ask, |_| ()).await.unwrap_or_default();
    let reason = format!(
        "no route has the MAC address {}{}",
        printable(mac),
        silent(&peers)
    );
    Err(Failure::Refused(reason))
}

/// Returns the part of a sentence that names the peers with a session.
fn silent(peers: &[proto::Peer]) -> String {
    let is_up = |peer: &&proto::Peer| {
        let session = peer.session.as_ref();
        session.is_some_and(|it| it.state() == SessionState::Established)
    };
    let names: Vec<String> = peers.iter().filter(is_up).map(Row::name).collect();
    let named = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len().checked_sub(NAMED_MAX) {
        _ if names.is_empty() => "; no peer has a session".to_owned(),
        None | Some(0) => format!("; none of these peers announces it: {}", printable(&named)),
        Some(more) => format!(
            "; none of these peers announces it: {} and {more} more",
            printable(&named)
        ),
    }
}

/// Peers that a line names; `weft peer list` has all.
const NAMED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_are_silent_about_a_mac_address_are_named() {
        let peer = |last: usize, state: SessionState| proto::Peer {
            session: Some(proto::PeerSession {
                address: format!("192.0.2.{last}"),
                state: state.into(),
                ..proto::PeerSession::default()
            }),
            ..proto::Peer::default()
        };
        let idle = peer(99, SessionState::Idle);
        assert_eq!(
            silent(std::slice::from_ref(&idle)),
            "; no peer has a session"
        );
        let mut peers = vec![idle, peer(1, SessionState::Established)];
        let text = "; none of these peers announces it: 192.0.2.1";
        assert_eq!(silent(&peers), text);
        peers.extend((2..=10).map(|last| peer(last, SessionState::Established)));
        let text = silent(&peers);
        assert!(text.ends_with(", 192.0.2.8 and 2 more"), "{text}");
    }
}
