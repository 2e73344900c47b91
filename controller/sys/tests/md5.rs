//! TCP-MD5 and the least TTL against a real kernel, over the loopback. No privilege is needed.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a test from end to end; the kernel's own timers are what is measured"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{io, thread};

use socket2::{Domain, Socket, Type};
use weft_sys::{md5_key, min_ttl, tcp_ao_supported};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn socket(address: IpAddr) -> Socket {
    Socket::new(Domain::for_address((address, 0).into()), Type::STREAM, None).unwrap()
}

fn listener(address: IpAddr, prepare: impl FnOnce(&Socket)) -> TcpListener {
    let socket = socket(address);
    prepare(&socket);
    socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
    socket.listen(8).unwrap();
    socket.into()
}

fn dial(to: &TcpListener, prepare: impl FnOnce(&Socket)) -> io::Result<TcpStream> {
    let address = to.local_addr().unwrap();
    let socket = socket(address.ip());
    prepare(&socket);
    socket.connect_timeout(&address.into(), Duration::from_millis(400))?;
    Ok(socket.into())
}

fn refused_silently(result: io::Result<TcpStream>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn only_the_right_key_connects() {
    for address in [V4, V6] {
        let listener = listener(address, |socket| {
            md5_key(socket, address, None, Some(b"right")).unwrap();
        });
        dial(&listener, |socket| {
            md5_key(socket, address, None, Some(b"right")).unwrap();
        })
        .unwrap();
        refused_silently(dial(&listener, |socket| {
            md5_key(socket, address, None, Some(b"wrong")).unwrap();
        }));
        refused_silently(dial(&listener, |_| {}));
    }
}

#[test]
fn a_key_for_a_prefix_holds_for_its_addresses_and_a_longer_prefix_goes_before() {
    for (address, other, short, long) in
        [(V4, "127.0.0.2".parse().unwrap(), 8, 32), (V6, V6, 16, 128)]
    {
        let listener = listener(address, |socket| {
            md5_key(socket, address, Some(short), Some(b"range")).unwrap();
        });
        let dial_from = |from: IpAddr, key: &[u8]| {
            dial(&listener, |socket| {
                socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
                md5_key(socket, address, None, Some(key)).unwrap();
            })
        };
        dial_from(address, b"range").unwrap();
        dial_from(other, b"range").unwrap();
        refused_silently(dial_from(other, b"wrong"));

        md5_key(&listener, address, Some(long), Some(b"one")).unwrap();
        dial_from(address, b"one").unwrap();
        refused_silently(dial_from(address, b"range"));

        md5_key(&listener, address, Some(long), None).unwrap();
        dial_from(address, b"range").unwrap();
    }
}

#[test]
fn a_removed_key_is_not_asked_for() {
    for address in [V4, V6] {
        let listener = listener(address, |socket| {
            md5_key(socket, address, None, Some(b"right")).unwrap();
        });
        refused_silently(dial(&listener, |_| {}));
        md5_key(&listener, address, None, None).unwrap();
        dial(&listener, |_| {}).unwrap();
        md5_key(&listener, address, None, None).expect("to remove nothing is no error");
    }
}

#[test]
fn a_key_has_1_to_80_octets_and_a_prefix_fits_its_family() {
    let socket = socket(V4);
    let invalid = |prefix_len, key: &[u8]| {
        let error = md5_key(&socket, V4, prefix_len, Some(key)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    };
    invalid(None, b"");
    invalid(None, &[b'k'; 81]);
    invalid(Some(33), b"right");
    md5_key(&socket, V4, None, Some(&[b'k'; 80])).unwrap();
}

/// A connection whose ends hold the same key.
fn connection(address: IpAddr) -> (TcpListener, TcpStream, TcpStream) {
    let set = |socket: &Socket| md5_key(socket, address, None, Some(b"old")).unwrap();
    let listener = listener(address, set);
    let near = dial(&listener, set).unwrap();
    let (far, _) = listener.accept().unwrap();
    for end in [&near, &far] {
        end.set_nodelay(true).unwrap();
        end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    (listener, near, far)
}

fn carries(from: &mut TcpStream, to: &mut TcpStream, octets: &[u8]) {
    from.write_all(octets).unwrap();
    let mut read = vec![0; octets.len()];
    to.read_exact(&mut read).unwrap();
    assert_eq!(read, octets);
}

/// What decides how keys roll over: the ends change a second apart, both send meanwhile, and nothing
/// is lost, doubled or reset.
#[test]
fn a_key_that_changes_a_second_apart_on_a_live_connection_loses_nothing() {
    for address in [V4, V6] {
        let (listener, mut near, mut far) = connection(address);
        carries(&mut near, &mut far, b"before");
        carries(&mut far, &mut near, b"before");

        md5_key(&near, address, None, Some(b"new")).unwrap();
        near.write_all(b"from near").unwrap();
        far.write_all(b"from far").unwrap();
        thread::sleep(Duration::from_secs(1));
        far.set_nonblocking(true).unwrap();
        let early = far.read(&mut [0; 16]).unwrap_err();
        assert_eq!(early.kind(), ErrorKind::WouldBlock, "one key only is tried");
        far.set_nonblocking(false).unwrap();

        md5_key(&far, address, None, Some(b"new")).unwrap();
        let changed = Instant::now();
        let mut read = [0; 9];
        far.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"from near");
        let near_to_far = changed.elapsed();
        near.read_exact(&mut read[..8]).unwrap();
        assert_eq!(&read[..8], b"from far");
        println!(
            "{address}: near to far after {near_to_far:?}, far to near after {:?}",
            changed.elapsed()
        );
        assert!(changed.elapsed() < Duration::from_secs(3));
        carries(&mut near, &mut far, b"after");
        carries(&mut far, &mut near, b"after");

        // The listener still has the old key: it is changed for the connections to come.
        refused_silently(dial(&listener, |socket| {
            md5_key(socket, address, None, Some(b"new")).unwrap();
        }));
        md5_key(&listener, address, None, Some(b"new")).unwrap();
        dial(&listener, |socket| {
            md5_key(socket, address, None, Some(b"new")).unwrap();
        })
        .unwrap();
        carries(&mut near, &mut far, b"and later");
    }
}

/// What a peer does that ends its session when its key is changed, and signs its last words with the old key:
/// who has the new key does not hear them, and does when it tries the old one again.
#[test]
fn last_words_under_the_old_key_are_heard_by_who_goes_back_to_it() {
    for address in [V4, V6] {
        let (_listener, mut near, mut far) = connection(address);
        md5_key(&near, address, None, Some(b"new")).unwrap();
        far.write_all(b"cease").unwrap();
        drop(far);
        near.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let silent = near.read(&mut [0; 16]).unwrap_err();
        assert_eq!(silent.kind(), ErrorKind::WouldBlock);

        md5_key(&near, address, None, Some(b"old")).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let mut heard = Vec::new();
        near.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"cease");
    }
}

/// For how long after the second change octets wait, by the time between the changes.
#[test]
#[ignore = "a measurement of half a minute: cargo test -p weft-sys -- --ignored --nocapture"]
fn measure_the_delay_of_a_rollover() {
    for gap_ms in [0, 10, 100, 300, 1_000, 3_000, 10_000] {
        let (_listener, mut near, mut far) = connection(V4);
        md5_key(&near, V4, None, Some(b"new")).unwrap();
        near.write_all(b"x").unwrap();
        thread::sleep(Duration::from_millis(gap_ms));
        md5_key(&far, V4, None, Some(b"new")).unwrap();
        let changed = Instant::now();
        far.read_exact(&mut [0]).unwrap();
        println!("gap {gap_ms} ms: delay {:?}", changed.elapsed());
    }
}

#[test]
fn a_live_connection_takes_its_first_key_and_gives_it_up() {
    for address in [V4, V6] {
        let listener = listener(address, |_| {});
        let mut near = dial(&listener, |_| {}).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        carries(&mut near, &mut far, b"no key");
        for end in [&near, &far] {
            md5_key(end, address, None, Some(b"first")).unwrap();
        }
        carries(&mut near, &mut far, b"signed");
        for end in [&near, &far] {
            md5_key(end, address, None, None).unwrap();
        }
        carries(&mut far, &mut near, b"no key");
    }
}

#[test]
fn a_segment_from_too_far_away_is_dropped() {
    for address in [V4, V6] {
        let set_ttl = |socket: &Socket, ttl: u32| match address {
            IpAddr::V4(_) => socket.set_ttl_v4(ttl).unwrap(),
            IpAddr::V6(_) => socket.set_unicast_hops_v6(ttl).unwrap(),
        };
        let listener = listener(address, |socket| {
            set_ttl(socket, 255);
            min_ttl(socket, address.is_ipv6(), 254).unwrap();
        });
        for (ttl, connects) in [(255, true), (254, true), (253, false), (64, false)] {
            let result = dial(&listener, |socket| set_ttl(socket, ttl));
            assert_eq!(result.is_ok(), connects, "{address} with a TTL of {ttl}");
        }
        min_ttl(&listener, address.is_ipv6(), 0).unwrap();
        dial(&listener, |socket| set_ttl(socket, 64)).unwrap();
    }
}

/// Where the kernel shows how it was built.
#[test]
fn the_probe_for_tcp_ao_agrees_with_the_kernel() {
    let shown = Command::new("zcat").arg("/proc/config.gz").output();
    if let Ok(shown) = shown
        && shown.status.success()
    {
        let built = String::from_utf8(shown.stdout).unwrap();
        assert_eq!(tcp_ao_supported(), built.contains("CONFIG_TCP_AO=y"));
    }
}
