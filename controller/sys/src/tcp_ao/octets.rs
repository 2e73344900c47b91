//! The structures of linux/tcp.h for TCP-AO as octets, each field at its place: so none has padding. Knows no socket.

use std::net::IpAddr;

use zeroize::Zeroizing;

use super::{Algorithm, MasterKey, Status};
use crate::options::{TCP_AO_INFO_LEN, TCP_AO_KEY_COUNT};

/// `struct sockaddr_storage`, and the length of the prefix.
pub(super) type Whose = ([u8; ADDRESS_LEN], u8);

/// A key that a socket holds, and for whom.
pub(super) struct Held {
    pub(super) whose: Whose,
    pub(super) send_id: u8,
    pub(super) recv_id: u8,
    /// Algorithm and secret.
    material: Zeroizing<Vec<u8>>,
}

impl Held {
    pub(super) fn parse(octets: &[u8]) -> Self {
        let mut address = [0; ADDRESS_LEN];
        address.copy_from_slice(&octets[..ADDRESS_LEN]);
        let end = [held::MAC_LEN, held::FLAGS, held::KEY_LEN].map(|at| octets[at]);
        // In one piece: what grows leaves a copy behind.
        let material = [&octets[held::ALGORITHM..TCP_AO_KEY_COUNT], &end].concat();
        let material = Zeroizing::new(material);
        Self {
            whose: (address, octets[held::PREFIX_LEN]),
            send_id: octets[held::SEND_ID],
            recv_id: octets[held::RECV_ID],
            material,
        }
    }

    /// The same key, whoever it is for.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.send_id, self.recv_id) == (other.send_id, other.recv_id)
            && self.material == other.material
    }

    /// RFC 5925 §3.1: no two keys of a connection have an id in common.
    pub(super) fn collides(&self, other: &Self) -> bool {
        self.send_id == other.send_id || self.recv_id == other.recv_id
    }
}

/// `struct tcp_ao_add`. With `begin` the connection begins with this key.
pub(super) fn added(
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

/// `struct tcp_ao_del`. With `instead` the key goes although it is in use.
pub(super) fn removed(
    (address, prefix_len): &Whose,
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

/// `struct tcp_ao_info_opt`, as it is set.
pub(super) fn required(next: Option<u8>) -> [u8; TCP_AO_INFO_LEN] {
    let mut octets = [0; TCP_AO_INFO_LEN];
    let bits = AO_REQUIRED | next.map_or(0, |_| SET_NEXT);
    octets[..4].copy_from_slice(&bits.to_ne_bytes());
    octets[info::NEXT] = next.unwrap_or_default();
    octets
}

/// `struct tcp_ao_info_opt`, as it is got.
pub(super) fn status_of(octets: &[u8; TCP_AO_INFO_LEN]) -> Status {
    let count = |at: usize| {
        let octets = octets[at..at + 8].try_into();
        u64::from_ne_bytes(octets.expect("eight octets"))
    };
    Status {
        send_id: octets[info::CURRENT],
        recv_id: octets[info::NEXT],
        good: count(info::GOOD),
        dropped: count(info::BAD) + count(info::UNKNOWN) + count(info::UNSIGNED),
    }
}

/// `struct sockaddr_storage` with an address and port 0, and the length of the prefix in bits; without one
/// it is for the address alone.
pub(super) fn whose(peer: IpAddr, prefix_len: Option<u8>) -> Whose {
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

impl Algorithm {
    /// As linux/crypto names it.
    fn name(self) -> &'static [u8] {
        match self {
            Self::HmacSha1 => b"hmac(sha1)",
            Self::AesCmac => b"cmac(aes128)",
        }
    }
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
    use super::super::Algorithm;
    use super::*;
    use crate::Key;

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
    fn a_status_is_read_as_in_c() {
        let mut octets = [0; TCP_AO_INFO_LEN];
        octets[6..8].copy_from_slice(&[5, 7]);
        for (at, count) in (8..48).step_by(8).zip([1_u64, 10, 100, 1000, 10_000]) {
            octets[at..at + 8].copy_from_slice(&count.to_ne_bytes());
        }
        let expected = Status {
            send_id: 5,
            recv_id: 7,
            good: 1,
            dropped: 1110,
        };
        assert_eq!(status_of(&octets), expected);
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
