//! Socket options through `setsockopt(2)`, the one file that says `unsafe`. It refuses to know where a
//! key comes from and what a socket is for.

#![expect(
    unsafe_code,
    reason = "libc has no safe setsockopt, and neither socket2 nor nix knows these options"
)]

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;

use libc::{c_int, c_void, socklen_t};
use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};
use zeroize::Zeroize;

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

fn set<T>(socket: &impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let len = socklen_t::try_from(size_of::<T>()).expect("an option is small");
    // SAFETY: the descriptor is open while `socket` is borrowed. `value` is a live reference to `len`
    // octets, each initialized: `T` is a `c_int` or `TcpMd5Sig`, which have no padding. The kernel
    // reads at most `len` octets, during the call, and keeps no pointer.
    let status = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            ptr::from_ref(value).cast::<c_void>(),
            len,
        )
    };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `struct tcp_md5sig` of linux/tcp.h, which libc does not have.
#[repr(C)]
struct TcpMd5Sig {
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
/// linux/tcp.h; libc does not have it.
const TCP_AO_INFO: c_int = 40;
