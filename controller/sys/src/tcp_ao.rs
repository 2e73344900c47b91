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
use zeroize::Zeroizing;

use crate::Key;
use crate::options::{
    TCP_AO_ADD_KEY, TCP_AO_DEL_KEY, TCP_AO_INFO, TCP_AO_INFO_LEN, TCP_AO_KEY_COUNT, TCP_AO_KEY_LEN,
    set, tcp_ao_info, tcp_ao_keys,
};

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
    let count = |at: usize| {
        let octets = octets[at..at + 8].try_into();
        u64::from_ne_bytes(octets.expect("eight octets"))
    };
    Ok(Some(Status {
        send_id: octets[info::CURRENT],
        recv_id: octets[info::NEXT],
        good: count(info::GOOD),
        dropped: count(info::BAD) + count(info::UNKNOWN) + count(info::UNSIGNED),
    }))
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

impl Algorithm {
    /// As linux/crypto names it.
    fn name(self) -> &'static [u8] {
        match self {
            Self::HmacSha1 => b"hmac(sha1)",
            Self::AesCmac => b"cmac(aes128)",
        }
    }
}

/// A key that a socket holds, and for whom.
struct Held {
    /// `struct sockaddr_storage`, and the length of the prefix.
    whose: ([u8; ADDRESS_LEN], u8),
    send_id: u8,
    recv_id: u8,
    /// Algorithm and secret.
    material: Zeroizing<Vec<u8>>,
}

impl Held {
    fn parse(octets: &[u8]) -> Self {
        let mut address = [0; ADDRESS_LEN];
        address.copy_from_slice(&octets[..ADDRESS_LEN]);
        let mut material = Zeroizing::new(octets[held::ALGORITHM..TCP_AO_KEY_COUNT].to_vec());
        material.extend([
            octets[held::MAC_LEN],
            octets[held::FLAGS],
            octets[held::KEY_LEN],
        ]);
        Self {
            whose: (address, octets[held::PREFIX_LEN]),
            send_id: octets[held::SEND_ID],
            recv_id: octets[held::RECV_ID],
            material,
        }
    }

    /// The same key, whoever it is for.
    fn is_same(&self, other: &Self) -> bool {
        (self.send_id, self.recv_id) == (other.send_id, other.recv_id)
            && self.material == other.material
    }

    /// RFC 5925 §3.1: no two keys of a connection have an id in common.
    fn collides(&self, other: &Self) -> bool {
        self.send_id == other.send_id || self.recv_id == other.recv_id
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

/// `struct tcp_ao_add`. With `begin` the connection begins with this key.
fn added(
    peer: IpAddr,
    prefix_len: Option<u8>,
    key: &MasterKey,
    begin: bool,
) -> Zeroizing<[u8; ADD_LEN]> {
    let (address, prefix_len) = whose(peer, prefix_len);
    let mut octets = Zeroizing::new([0; ADD_LEN]);
    let mut put = |at: usize, field: &[u8]| octets[at..at + field.len()].copy_from_slice(field);
    put(0, &address);
    put(add::ALGORITHM, key.algorithm.name());
    if begin {
        put(add::BITS, &(SET_CURRENT | SET_NEXT).to_ne_bytes());
    }
    let flags = if key.tcp_options { 0 } else { EXCLUDE_OPTIONS };
    let secret = key.secret.octets();
    let len = u8::try_from(secret.len()).expect("at most KEY_LEN_MAX");
    let fields = [prefix_len, key.send_id, key.recv_id, MAC_LEN, flags, len];
    put(add::PREFIX_LEN, &fields);
    put(add::SECRET, secret);
    octets
}

fn remove(
    socket: &impl AsFd,
    whose: &([u8; ADDRESS_LEN], u8),
    ids: (u8, u8),
    instead: Option<&MasterKey>,
) -> io::Result<()> {
    let octets = removed(whose, ids, instead);
    set(socket, IPPROTO_TCP, TCP_AO_DEL_KEY, &octets[..])
}

/// `struct tcp_ao_del`. With `instead` the key goes although it is in use.
fn removed(
    (address, prefix_len): &([u8; ADDRESS_LEN], u8),
    (send_id, recv_id): (u8, u8),
    instead: Option<&MasterKey>,
) -> [u8; DEL_LEN] {
    let mut octets = [0; DEL_LEN];
    let mut put = |at: usize, field: &[u8]| octets[at..at + field.len()].copy_from_slice(field);
    put(0, address);
    put(del::PREFIX_LEN, &[*prefix_len, send_id, recv_id]);
    if let Some(instead) = instead {
        put(del::BITS, &(SET_CURRENT | SET_NEXT).to_ne_bytes());
        put(del::CURRENT, &[instead.send_id, instead.recv_id]);
    }
    octets
}

/// Nothing without a signature is taken; the other end is asked for a key if one is named.
fn require(socket: &impl AsFd, next: Option<u8>) -> io::Result<()> {
    set(socket, IPPROTO_TCP, TCP_AO_INFO, &required(next)[..])
}

/// `struct tcp_ao_info_opt`, as it is set.
fn required(next: Option<u8>) -> [u8; TCP_AO_INFO_LEN] {
    let mut octets = [0; TCP_AO_INFO_LEN];
    let bits = AO_REQUIRED | next.map_or(0, |_| SET_NEXT);
    octets[..4].copy_from_slice(&bits.to_ne_bytes());
    octets[info::NEXT] = next.unwrap_or_default();
    octets
}

/// `struct sockaddr_storage` with an address and port 0, and the length of the prefix in bits; without one
/// it is for the address alone.
fn whose(peer: IpAddr, prefix_len: Option<u8>) -> ([u8; ADDRESS_LEN], u8) {
    let mut octets = [0; ADDRESS_LEN];
    let mut put = |at: usize, field: &[u8]| octets[at..at + field.len()].copy_from_slice(field);
    let (family, bits) = match peer {
        IpAddr::V4(address) => {
            put(4, &address.octets());
            (libc::AF_INET, 32)
        }
        IpAddr::V6(address) => {
            put(8, &address.octets());
            (libc::AF_INET6, 128)
        }
    };
    let family = u16::try_from(family).expect("a family is small");
    put(0, &family.to_ne_bytes());
    (octets, prefix_len.unwrap_or(bits))
}

/// A bit-field of one bit: they begin at the end of lesser address.
const fn bit(at: u32) -> u32 {
    if cfg!(target_endian = "little") {
        1 << at
    } else {
        1 << (31 - at)
    }
}

/// Of every one of the structures.
const SET_CURRENT: u32 = bit(0);
const SET_NEXT: u32 = bit(1);
/// Of `struct tcp_ao_info_opt`.
const AO_REQUIRED: u32 = bit(2);
/// TCP_AO_KEYF_EXCLUDE_OPT.
const EXCLUDE_OPTIONS: u8 = 1 << 1;
/// 96 bits, RFC 5926 §3.2.
const MAC_LEN: u8 = 12;
/// `struct sockaddr_storage`.
const ADDRESS_LEN: usize = 128;
const ADD_LEN: usize = 288;
const DEL_LEN: usize = 144;
/// No connection has more: the ids that differ are so many.
const HELD_MAX: u16 = 256;

/// Where fields of `struct tcp_ao_add` are; the ids and lengths follow that of the prefix.
mod add {
    pub(super) const ALGORITHM: usize = 128;
    pub(super) const BITS: usize = 196;
    pub(super) const PREFIX_LEN: usize = 202;
    pub(super) const SECRET: usize = 208;
}

/// Where fields of `struct tcp_ao_del` are; the ids follow the length of the prefix.
mod del {
    pub(super) const BITS: usize = 132;
    pub(super) const PREFIX_LEN: usize = 138;
    pub(super) const CURRENT: usize = 141;
}

/// Where fields of `struct tcp_ao_info_opt` are.
mod info {
    pub(super) const CURRENT: usize = 6;
    pub(super) const NEXT: usize = 7;
    pub(super) const GOOD: usize = 8;
    pub(super) const BAD: usize = 16;
    pub(super) const UNKNOWN: usize = 24;
    pub(super) const UNSIGNED: usize = 32;
}

/// Where fields of `struct tcp_ao_getsockopt` are; the secret follows the algorithm.
mod held {
    pub(super) const ALGORITHM: usize = 128;
    pub(super) const SEND_ID: usize = 278;
    pub(super) const RECV_ID: usize = 279;
    pub(super) const PREFIX_LEN: usize = 280;
    pub(super) const MAC_LEN: usize = 281;
    pub(super) const FLAGS: usize = 282;
    pub(super) const KEY_LEN: usize = 283;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(send_id: u8, recv_id: u8) -> MasterKey {
        MasterKey {
            send_id,
            recv_id,
            algorithm: Algorithm::HmacSha1,
            tcp_options: false,
            secret: Key::new(b"ab").unwrap(),
        }
    }

    /// The octets that are not 0, with their places. What is expected below a C program printed that fills
    /// the structures of linux/tcp.h (Linux 6.12, x86-64) by name.
    fn sparse(octets: &[u8]) -> Vec<(usize, u8)> {
        let all = octets.iter().copied().enumerate();
        all.filter(|(_, octet)| *octet != 0).collect()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_key_is_added_as_in_c() {
        let octets = added([192, 0, 2, 0].into(), Some(24), &key(1, 3), true);
        assert_eq!(octets.len(), 288);
        let mut expected = vec![(0, 0x02), (4, 0xc0), (6, 0x02)];
        expected.extend((128..).zip(*b"hmac(sha1)"));
        expected.extend([(196, 0x03), (202, 24), (203, 1), (204, 3), (205, 12)]);
        expected.extend([(206, 0x02), (207, 2), (208, b'a'), (209, b'b')]);
        assert_eq!(sparse(&octets[..]), expected);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_key_is_removed_as_in_c() {
        let whose = whose("2001:db8::1".parse().unwrap(), None);
        let octets = removed(&whose, (1, 3), Some(&key(5, 7)));
        assert_eq!(octets.len(), 144);
        let address = [(0, 0x0a), (8, 0x20), (9, 0x01), (10, 0x0d), (11, 0xb8)];
        let mut expected = Vec::from(address);
        expected.extend([(23, 0x01), (132, 0x03), (138, 128), (139, 1), (140, 3)]);
        expected.extend([(141, 5), (142, 7)]);
        assert_eq!(sparse(&octets), expected);
        assert!(!sparse(&removed(&whose, (1, 3), None)).contains(&(132, 3)));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_signature_is_required_as_in_c() {
        assert_eq!(sparse(&required(Some(7))), [(0, 0x06), (7, 7)]);
        assert_eq!(sparse(&required(None)), [(0, 0x04)]);
    }

    #[test]
    fn a_held_key_is_read_as_in_c() {
        let mut octets = vec![0; 304];
        octets[278..284].copy_from_slice(&[1, 3, 32, 12, 2, 16]);
        let held = Held::parse(&octets);
        assert_eq!((held.send_id, held.recv_id, held.whose.1), (1, 3, 32));
        assert!(held.material.ends_with(&[12, 2, 16]));
    }

    #[test]
    fn a_master_key_does_not_show_its_secret() {
        let shown = format!("{:?}", key(1, 3));
        assert!(
            shown.contains("Key(..)") && !shown.contains("ab"),
            "{shown}"
        );
    }
}
