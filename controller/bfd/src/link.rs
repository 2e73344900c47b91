//! Whether two addresses are on one link, by what the interfaces of this host say. Knows no session.

use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// Whether `remote` is in the network of the interface that has the address `local`: then RFC 5881 is meant,
/// else RFC 5883. A loopback's own address is in no network with another.
///
/// # Errors
/// The system does not tell of its interfaces.
pub fn is_shared(local: IpAddr, remote: IpAddr) -> io::Result<bool> {
    let mut interfaces = getifaddrs()?;
    Ok(interfaces.any(|interface| {
        let own = interface.address.as_ref().and_then(ip);
        let mask = interface.netmask.as_ref().and_then(ip);
        let other_end = interface.destination.as_ref().and_then(ip);
        own == Some(local)
            && (other_end == Some(remote)
                || mask.is_some_and(|mask| is_same_network(local, remote, mask)))
    }))
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|it| it.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|it| it.ip().into()))
}

fn is_same_network(one: IpAddr, other: IpAddr, mask: IpAddr) -> bool {
    match (one, other, mask) {
        (IpAddr::V4(one), IpAddr::V4(other), IpAddr::V4(mask)) => one & mask == other & mask,
        (IpAddr::V6(one), IpAddr::V6(other), IpAddr::V6(mask)) => one & mask == other & mask,
        (IpAddr::V4(_) | IpAddr::V6(_), _, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_tells_who_is_on_the_link() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for (one, other, mask, same) in [
            ("192.0.2.0", "192.0.2.1", "255.255.255.254", true),
            ("192.0.2.1", "192.0.2.2", "255.255.255.254", false),
            ("192.0.2.1", "192.0.2.2", "255.255.255.255", false),
            ("2001:db8::1", "2001:db8::2", "ffff:ffff:ffff:ffff::", true),
            (
                "2001:db8::1",
                "2001:db8:1::2",
                "ffff:ffff:ffff:ffff::",
                false,
            ),
            ("192.0.2.1", "2001:db8::2", "255.255.255.0", false),
        ] {
            let found = is_same_network(ip(one), ip(other), ip(mask));
            assert_eq!(found, same, "{one} {other} {mask}");
        }
    }

    #[test]
    fn this_host_is_on_its_own_link() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(is_shared(ip("127.0.0.1"), ip("127.0.0.2")).unwrap());
        assert!(!is_shared(ip("127.0.0.1"), ip("192.0.2.1")).unwrap());
        assert!(!is_shared(ip("192.0.2.77"), ip("192.0.2.78")).unwrap());
    }
}
