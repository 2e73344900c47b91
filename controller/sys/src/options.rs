//! Socket options through `setsockopt(2)`, the one file that says `unsafe`. It refuses to know where a
//! key comes from and what a socket is for.

#![expect(
    unsafe_code,
    reason = "libc has no safe setsockopt, and neither socket2 nor nix knows these options"
)]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libc::{c_int, c_void, socklen_t};
use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};
use zeroize::{Zeroize, Zeroizing};

/// Sets the key with which segments from and to `peer` are signed (TCP-MD5, RFC 2385), or removes it.
///
/// With `prefix_len` in bits the key holds for all addresses under that prefix, which is for
/// listeners; of several keys the one with the longest prefix counts. A connection takes the key that
/// its listener had when the first segment came; from then on it has keys of its own, so a change is
/// made on both. `peer` must be of the socket's family. To remove a key that is not there is no error.
///
/// # Errors
///
/// `InvalidInput` if the key is empty or longer than 80 octets, or the prefix is longer than the
/// address; otherwise what the system said, such as `ENOPROTOOPT` from a kernel without TCP-MD5.
pub fn md5_key(
    socket: &impl AsFd,
    peer: IpAddr,
    prefix_len: Option<u8>,
    key: Option<&[u8]>,
) -> io::Result<()> {
    let octets = key.unwrap_or_default();
    let bits = if peer.is_ipv4() { 32 } else { 128 };
    if octets.len() > KEY_LEN_MAX
        || key.is_some_and(<[u8]>::is_empty)
        || prefix_len.is_some_and(|len| len > bits)
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut option = TcpMd5Sig {
        address: SockAddr::from(SocketAddr::new(peer, 0)).as_storage(),
        flags: if prefix_len.is_some() { FLAG_PREFIX } else { 0 },
        prefix_len: prefix_len.unwrap_or_default(),
        key_len: u16::try_from(octets.len()).expect("at most KEY_LEN_MAX"),
        interface: 0,
        key: [0; KEY_LEN_MAX],
    };
    option.key[..octets.len()].copy_from_slice(octets);
    let name = if prefix_len.is_some() {
        libc::TCP_MD5SIG_EXT
    } else {
        libc::TCP_MD5SIG
    };
    let result = set(socket, libc::IPPROTO_TCP, name, &option);
    option.key.zeroize();
    match result {
        Err(error) if key.is_none() && error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}

/// Drops packets that come with a TTL or hop limit below `ttl` (GTSM, RFC 5082 §3): 255 for a peer
/// on the same link, 256 - n for one that is n hops away, 0 for any. On a listener it also holds for
/// the first segment of a connection. `v6` says the socket's family.
///
/// # Errors
///
/// What the system said.
pub fn min_ttl(socket: &impl AsFd, v6: bool, ttl: u8) -> io::Result<()> {
    let (level, name) = if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT)
    } else {
        (libc::IPPROTO_IP, libc::IP_MINTTL)
    };
    set(socket, level, name, &c_int::from(ttl))
}

/// Whether this kernel has TCP-AO (RFC 5925): Linux from 6.7, if it was built with it.
#[must_use]
pub fn tcp_ao_supported() -> bool {
    let Ok(socket) = Socket::new(Domain::IPV4, Type::STREAM, None) else {
        return false;
    };
    // Too short to be taken: a kernel that knows the option says EINVAL.
    let probe: c_int = 0;
    match set(&socket, libc::IPPROTO_TCP, TCP_AO_INFO, &probe) {
        Ok(()) => true,
        Err(error) => error.raw_os_error() == Some(libc::EINVAL),
    }
}

/// The settings and counters of TCP-AO that a socket has: `struct tcp_ao_info_opt`.
///
/// # Errors
///
/// `ENOENT` from a socket that has no TCP-AO; otherwise what the system said.
pub(crate) fn tcp_ao_info(socket: &impl AsFd) -> io::Result<[u8; TCP_AO_INFO_LEN]> {
    let mut octets = [0; TCP_AO_INFO_LEN];
    get(socket, TCP_AO_INFO, &mut octets, TCP_AO_INFO_LEN)?;
    Ok(octets)
}

/// Up to `count` of the keys of TCP-AO that a socket holds, each a `struct tcp_ao_getsockopt`. The first one
/// says how many there are.
///
/// # Errors
///
/// `ENOENT` from a socket that has no TCP-AO; otherwise what the system said.
pub(crate) fn tcp_ao_keys(socket: &impl AsFd, count: u16) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut octets = Zeroizing::new(vec![0; usize::from(count) * TCP_AO_KEY_LEN]);
    let fields = octets.get_mut(TCP_AO_KEY_COUNT..TCP_AO_KEY_COUNT + 6);
    let fields = fields.ok_or(io::ErrorKind::InvalidInput)?;
    fields[..4].copy_from_slice(&u32::from(count).to_ne_bytes());
    fields[4..].copy_from_slice(&TCP_AO_GET_ALL.to_ne_bytes());
    get(socket, TCP_AO_GET_KEYS, &mut octets, TCP_AO_KEY_LEN)?;
    Ok(octets)
}

/// Reads an option of TCP into `octets`, saying that it has `len` of them.
fn get(socket: &impl AsFd, name: c_int, octets: &mut [u8], len: usize) -> io::Result<()> {
    assert!(len <= octets.len());
    let mut len = socklen_t::try_from(len).expect("an option is small");
    // SAFETY: the descriptor is open while `socket` is borrowed. The kernel writes during the call only:
    // the length into `len`, and at most `len` octets, which `octets` has, of a live unique reference. Of
    // `TCP_AO_GET_KEYS` it writes as many times `len` octets as the count in `octets` says, and
    // `tcp_ao_keys`, who alone asks for that, has put there how many `octets` has room for.
    let status = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            name,
            octets.as_mut_ptr().cast::<c_void>(),
            ptr::from_mut(&mut len),
        )
    };
    result(status)
}

pub(crate) fn set<T>(socket: &impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()>
where
    T: Plain + ?Sized,
{
    let len = socklen_t::try_from(size_of_val(value)).expect("an option is small");
    // SAFETY: the descriptor is open while `socket` is borrowed. `value` is a live reference to `len`
    // octets, each initialized: what is `Plain` has no padding. The kernel reads at most `len` octets,
    // during the call, and keeps no pointer.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast::<c_void>(),
            len,
        )
    };
    result(status)
}

fn result(status: c_int) -> io::Result<()> {
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What can be read as octets.
///
/// # Safety
///
/// It has no padding: each octet of it is initialized.
pub(crate) unsafe trait Plain {}

// SAFETY: an integer has no padding.
unsafe impl Plain for c_int {}
// SAFETY: octets have no padding.
unsafe impl Plain for [u8] {}
// SAFETY: its fields fill it, which is asserted below.
unsafe impl Plain for TcpMd5Sig {}

/// `struct tcp_md5sig` of linux/tcp.h, which libc does not have.
#[repr(C)]
pub(crate) struct TcpMd5Sig {
    address: SockAddrStorage,
    flags: u8,
    prefix_len: u8,
    key_len: u16,
    interface: c_int,
    key: [u8; KEY_LEN_MAX],
}

const _: () = assert!(
    size_of::<TcpMd5Sig>() == 216,
    "as in C, and without padding"
);

/// The longest key, in octets.
pub(crate) const KEY_LEN_MAX: usize = libc::TCP_MD5SIG_MAXKEYLEN;
/// linux/tcp.h, TCP_MD5SIG_FLAG_PREFIX.
const FLAG_PREFIX: u8 = 0x01;
/// linux/tcp.h, as are all these; libc does not have them.
pub(crate) const TCP_AO_ADD_KEY: c_int = 38;
pub(crate) const TCP_AO_DEL_KEY: c_int = 39;
pub(crate) const TCP_AO_INFO: c_int = 40;
const TCP_AO_GET_KEYS: c_int = 41;
/// Octets of `struct tcp_ao_info_opt`.
pub(crate) const TCP_AO_INFO_LEN: usize = 48;
/// Octets of `struct tcp_ao_getsockopt`.
pub(crate) const TCP_AO_KEY_LEN: usize = 304;
/// Where it counts: a `u32`, and after it the `u16` with `TCP_AO_GET_ALL`.
pub(crate) const TCP_AO_KEY_COUNT: usize = 272;
/// The third bit.
const TCP_AO_GET_ALL: u16 = if cfg!(target_endian = "little") {
    1 << 2
} else {
    1 << 13
};
