//! TCP-AO (RFC 5925), which signs each segment with one of several keys: how keys come on listeners and
//! connections, and how they change there. It refuses to know where a key comes from, and when it changes.
//!
//! # How keys change without loss
//!
//! Each segment names the key that signed it, and the key that its sender would like to be answered with.
//! So both ends may hold several keys, and the order is: the new key is added after the old one at both
//! ends, then it is moved to the first place at both ends, then the old one is removed at both. Nothing is
//! dropped meanwhile, however long it takes (`tests/tcp_ao.rs`).
//!
//! A key that is removed while the other end still signs with it is removed nevertheless. Then each end
//! drops what the other sends until the other has the new key too, and all octets arrive in order, as long as
//! nobody loses patience.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use libc::IPPROTO_TCP;
use socket2::{Domain, Socket, Type};

use self::octets::{Held, Whose, added, removed, required, status_of, whose};
use crate::Key;
use crate::options::{
    TCP_AO_ADD_KEY, TCP_AO_DEL_KEY, TCP_AO_INFO, TCP_AO_KEY_COUNT, TCP_AO_KEY_LEN, set,
    tcp_ao_info, tcp_ao_keys,
};

mod octets;

/// What a master key is used with: a message authentication code of 96 bits and a function that derives
/// the keys of a connection, RFC 5926 §3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC-SHA-1-96 with KDF_HMAC_SHA1, RFC 5926 §3.1.1.1 and §3.2.1.
    HmacSha1,
    /// AES-128-CMAC-96 with KDF_AES_128_CMAC, RFC 5926 §3.1.1.2 and §3.2.2.
    AesCmac,
}

/// A master key tuple, RFC 5925 §3.1, without the connections that it is for. `Debug` does not show the
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterKey {
    /// Names the key in what is sent; the other end's `recv_id`.
    pub send_id: u8,
    /// Names the key in what is received; the other end's `send_id`.
    pub recv_id: u8,
    /// Must be the other end's.
    pub algorithm: Algorithm,
    /// The other options of TCP are signed too, which is RFC 5925's default; must be as at the other end.
    pub tcp_options: bool,
    /// The secret.
    pub secret: Key,
}

/// Why a connection does not take its keys.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// It began without TCP-AO, and cannot begin with it any more.
    #[error("the connection is not signed with TCP-AO")]
    Unsigned,
    /// It holds another key under an id of this one; a new key needs a new id.
    #[error(
        "the connection holds another TCP-AO key with send id {send_id} or receive id {recv_id}"
    )]
    Changed {
        /// Of the key that it does not take.
        send_id: u8,
        /// Of the key that it does not take.
        recv_id: u8,
    },
    /// What the system said.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// What a signed connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The id of the key that signs what is sent, as the other end wishes.
    pub send_id: u8,
    /// The id of the key that the other end is asked to sign with.
    pub recv_id: u8,
    /// Segments with a good signature.
    pub good: u64,
    /// Segments dropped: with a bad signature, with a key that is not here, without a signature.
    pub dropped: u64,
}

/// Adds a key to a listener, for the addresses under a prefix. Who is under it connects with one of the keys
/// that the listener holds for that address, or not at all. `peer` must be of the socket's family.
///
/// # Errors
///
/// `EEXIST` if a prefix that overlaps has one of the ids already, `EKEYREJECTED` if one that overlaps has a
/// key of TCP-MD5, `ENOMEM` above `net.core.optmem_max`, `ENOPROTOOPT` from a kernel without TCP-AO.
pub fn admit(
    listener: &impl AsFd,
    peer: IpAddr,
    prefix_len: Option<u8>,
    key: &MasterKey,
) -> io::Result<()> {
    add(listener, peer, prefix_len, key, false)
}

/// Removes a key from a listener; connections keep theirs. To remove a key that is not there is no error.
///
/// # Errors
///
/// What the system said.
pub fn dismiss(
    listener: &impl AsFd,
    peer: IpAddr,
    prefix_len: Option<u8>,
    key: &MasterKey,
) -> io::Result<()> {
    let whose = whose(peer, prefix_len);
    match remove(listener, &whose, (key.send_id, key.recv_id), None) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}

/// Gives a socket that is going to connect its keys: it begins with the first, takes each, and takes nothing
/// that is not signed.
///
/// # Errors
///
/// What the system said; the socket must not connect then.
pub fn protect(socket: &impl AsFd, peer: IpAddr, keys: &[MasterKey]) -> io::Result<()> {
    for (at, key) in keys.iter().enumerate() {
        add(socket, peer, None, key, at == 0)?;
    }
    require(socket, None)
}

/// Gives an open connection these keys and takes all others from it. The other end is asked to sign with the
/// first. Nothing happens on a connection that is so already.
///
/// # Errors
///
/// Why it does not; the connection must not be used then.
pub fn turn(connection: &impl AsFd, peer: IpAddr, keys: &[MasterKey]) -> Result<(), TurnError> {
    let held = held(connection)?.ok_or(TurnError::Unsigned)?;
    let mut missing = Vec::new();
    let mut stays = vec![false; held.len()];
    for key in keys {
        let wanted = key.as_held()?;
        match held.iter().position(|held| held.is_same(&wanted)) {
            Some(at) => stays[at] = true,
            None if held.iter().any(|held| held.collides(&wanted)) => {
                return Err(TurnError::Changed {
                    send_id: key.send_id,
                    recv_id: key.recv_id,
                });
            }
            None => missing.push(key),
        }
    }
    for key in missing {
        add(connection, peer, None, key, false)?;
    }
    let first = keys.first().ok_or(TurnError::Unsigned)?;
    require(connection, Some(first.recv_id))?;
    for held in held.iter().zip(stays).filter(|(_, stays)| !stays) {
        let (whose, ids) = (&held.0.whose, (held.0.send_id, held.0.recv_id));
        match remove(connection, whose, ids, None) {
            // In use: the other end has not turned yet.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                remove(connection, whose, ids, Some(first))?;
            }
            result => result?,
        }
    }
    Ok(())
}

/// What a connection does; `None`: it is not signed.
///
/// # Errors
///
/// What the system said, such as `ENOPROTOOPT` from a kernel without TCP-AO.
pub fn status(connection: &impl AsFd) -> io::Result<Option<Status>> {
    let octets = match tcp_ao_info(connection) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        result => result?,
    };
    Ok(Some(status_of(&octets)))
}

impl MasterKey {
    /// Whether this kernel takes such a key: it has TCP-AO, and the algorithm.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` from a kernel without TCP-AO; otherwise what the system said.
    pub fn try_out(&self) -> io::Result<()> {
        self.as_held().map(drop)
    }

    /// As the kernel holds it: an AES key that is not of 128 bits it derives first.
    fn as_held(&self) -> io::Result<Held> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        add(&socket, IpAddr::from([127, 0, 0, 1]), None, self, false)?;
        let held = held(&socket)?.and_then(|mut held| held.pop());
        held.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// The keys that a socket holds; `None` if it has no TCP-AO.
fn held(socket: &impl AsFd) -> io::Result<Option<Vec<Held>>> {
    let octets = match tcp_ao_keys(socket, HELD_MAX) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
        result => result?,
    };
    let count = octets[TCP_AO_KEY_COUNT..TCP_AO_KEY_COUNT + 4].try_into();
    let count = u32::from_ne_bytes(count.expect("four octets"));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let all = octets.chunks_exact(TCP_AO_KEY_LEN);
    Ok(Some(all.take(count).map(Held::parse).collect()))
}

fn add(
    socket: &impl AsFd,
    peer: IpAddr,
    prefix_len: Option<u8>,
    key: &MasterKey,
    begin: bool,
) -> io::Result<()> {
    let octets = added(peer, prefix_len, key, begin);
    set(socket, IPPROTO_TCP, TCP_AO_ADD_KEY, &octets[..])
}

fn remove(
    socket: &impl AsFd,
    whose: &Whose,
    ids: (u8, u8),
    instead: Option<&MasterKey>,
) -> io::Result<()> {
    let octets = removed(whose, ids, instead);
    set(socket, IPPROTO_TCP, TCP_AO_DEL_KEY, &octets[..])
}

/// Nothing without a signature is taken; the other end is asked for a key if one is named.
fn require(socket: &impl AsFd, next: Option<u8>) -> io::Result<()> {
    set(socket, IPPROTO_TCP, TCP_AO_INFO, &required(next)[..])
}

/// No connection has more: the ids that differ are so many.
const HELD_MAX: u16 = 256;
