//! TCP-AO against a real kernel, over the loopback. No privilege is needed, but a kernel with TCP-AO: on another
//! one each test says that it tested nothing. `interop/kernel/run.sh` runs them on one.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a test from end to end; the kernel's own timers are what is measured"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Once;
use std::time::{Duration, Instant};
use std::{io, thread};

use socket2::{Domain, Socket, Type};
use weft_sys::tcp_ao::{Algorithm, MasterKey, TurnError, admit, dismiss, protect, status, turn};
use weft_sys::{Key, md5_key, tcp_ao_supported};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Whether there is anything to test; says so loudly if there is not.
fn supported() -> bool {
    static SAID: Once = Once::new();
    let supported = tcp_ao_supported();
    if !supported {
        // Not by a macro, whose output is kept back when a test passes.
        let said = b"\nNOT TESTED: THIS KERNEL HAS NO TCP-AO (CONFIG_TCP_AO, Linux 6.7)\n";
        SAID.call_once(|| io::stderr().write_all(said).unwrap());
    }
    supported
}

fn key(id: u8, secret: &str) -> MasterKey {
    MasterKey {
        send_id: id,
        recv_id: id,
        algorithm: Algorithm::HmacSha1,
        tcp_options: true,
        secret: Key::new(secret.as_bytes()).unwrap(),
    }
}

fn socket(address: IpAddr) -> Socket {
    Socket::new(Domain::for_address((address, 0).into()), Type::STREAM, None).unwrap()
}

/// A listener that holds keys for an address.
fn listener(address: IpAddr, prefix_len: Option<u8>, keys: &[MasterKey]) -> TcpListener {
    let socket = socket(address);
    for key in keys {
        admit(&socket, address, prefix_len, key).unwrap();
    }
    socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
    socket.listen(8).unwrap();
    socket.into()
}

fn dial(to: &TcpListener, keys: &[MasterKey]) -> io::Result<TcpStream> {
    let address = to.local_addr().unwrap();
    let socket = socket(address.ip());
    if !keys.is_empty() {
        protect(&socket, address.ip(), keys).unwrap();
    }
    socket.connect_timeout(&address.into(), Duration::from_millis(400))?;
    Ok(socket.into())
}

fn refused_silently(result: io::Result<TcpStream>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
}

/// Both ends of a connection, at rest.
fn connection(listener: &TcpListener, keys: &[MasterKey]) -> (TcpStream, TcpStream) {
    let near = dial(listener, keys).unwrap();
    let (far, _) = listener.accept().unwrap();
    for end in [&near, &far] {
        end.set_nodelay(true).unwrap();
        end.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    }
    (near, far)
}

fn carries(from: &mut TcpStream, to: &mut TcpStream, octets: &[u8]) {
    from.write_all(octets).unwrap();
    let mut read = vec![0; octets.len()];
    to.read_exact(&mut read).unwrap();
    assert_eq!(read, octets);
}

/// There and back twice, so that each has heard what the other asks for.
fn talk(near: &mut TcpStream, far: &mut TcpStream) {
    for _ in 0..2 {
        carries(near, far, b"there");
        carries(far, near, b"back");
    }
}

/// Which key each end signs with.
fn signing(near: &TcpStream, far: &TcpStream) -> (u8, u8) {
    let id = |end: &TcpStream| status(end).unwrap().unwrap().send_id;
    (id(near), id(far))
}

#[test]
fn only_the_right_key_connects() {
    if !supported() {
        return;
    }
    for address in [V4, V6] {
        for algorithm in [Algorithm::HmacSha1, Algorithm::AesCmac] {
            // The longer ones are not of AES's 128 bits: the kernel derives from them.
            for secret in ["sixteen octets!!", "right"] {
                let right = MasterKey {
                    algorithm,
                    ..key(1, secret)
                };
                let listener = listener(address, None, std::slice::from_ref(&right));
                let (mut near, mut far) = connection(&listener, std::slice::from_ref(&right));
                talk(&mut near, &mut far);
                let status = status(&near).unwrap().unwrap();
                assert!(status.good > 0 && status.dropped == 0, "{status:?}");
                assert_eq!((status.send_id, status.recv_id), (1, 1));

                let wrong = MasterKey {
                    secret: Key::new(b"wrong").unwrap(),
                    ..right.clone()
                };
                refused_silently(dial(&listener, &[wrong]));
                let other_id = MasterKey {
                    send_id: 2,
                    ..right.clone()
                };
                refused_silently(dial(&listener, &[other_id]));
                let other_options = MasterKey {
                    tcp_options: false,
                    ..right
                };
                refused_silently(dial(&listener, &[other_options]));
                refused_silently(dial(&listener, &[]));
            }
        }
    }
}

#[test]
fn ids_may_differ_by_direction() {
    if !supported() {
        return;
    }
    let there = MasterKey {
        send_id: 1,
        recv_id: 200,
        ..key(0, "one")
    };
    let here = MasterKey {
        send_id: 200,
        recv_id: 1,
        ..key(0, "one")
    };
    let listener = listener(V4, None, &[there]);
    let (mut near, mut far) = connection(&listener, &[here]);
    talk(&mut near, &mut far);
    assert_eq!(signing(&near, &far), (200, 1));
}

#[test]
fn a_key_for_a_prefix_holds_for_its_addresses_and_none_overlaps_with_its_ids() {
    if !supported() {
        return;
    }
    let network = IpAddr::from([127, 0, 0, 0]);
    let socket = socket(V4);
    admit(&socket, network, Some(8), &key(1, "range")).unwrap();
    let error = admit(&socket, V4, None, &key(1, "one")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EEXIST));
    md5_key(&socket, V4, None, Some(b"one")).unwrap_err();
    socket.bind(&SocketAddr::new(V4, 0).into()).unwrap();
    socket.listen(8).unwrap();
    let listener = TcpListener::from(socket);
    let (mut near, mut far) = connection(&listener, &[key(1, "range")]);
    talk(&mut near, &mut far);
    refused_silently(dial(&listener, &[]));
    // What was accepted goes by its peer's keys from then on, not by the prefix's.
    turn(&far, V4, &[key(1, "range")]).unwrap();
    talk(&mut near, &mut far);
}

#[test]
fn a_dismissed_key_is_not_asked_for() {
    if !supported() {
        return;
    }
    let listener = listener(V4, None, &[key(1, "one")]);
    refused_silently(dial(&listener, &[]));
    let (mut near, mut far) = connection(&listener, &[key(1, "one")]);
    dismiss(&listener, V4, None, &key(1, "one")).unwrap();
    dismiss(&listener, V4, None, &key(1, "one")).expect("to remove nothing is no error");
    talk(&mut near, &mut far);
    dial(&listener, &[]).unwrap();
    let (plain, _) = listener.accept().unwrap();
    assert_eq!(status(&plain).unwrap(), None);
    let turned = turn(&plain, V4, &[key(1, "one")]);
    assert!(matches!(turned, Err(TurnError::Unsigned)), "{turned:?}");
}

#[test]
fn keys_roll_over_step_by_step_and_nothing_is_dropped() {
    if !supported() {
        return;
    }
    for address in [V4, V6] {
        let (old, new) = (key(1, "old"), key(2, "new"));
        let (before, both, turned, after) = (
            [old.clone()],
            [old.clone(), new.clone()],
            [new.clone(), old],
            [new],
        );
        let listener = listener(address, None, &before);
        let (mut near, mut far) = connection(&listener, &before);
        talk(&mut near, &mut far);
        assert_eq!(signing(&near, &far), (1, 1));
        for keys in [&both[..], &turned, &after] {
            turn(&near, address, keys).unwrap();
            talk(&mut near, &mut far);
            turn(&far, address, keys).unwrap();
            talk(&mut near, &mut far);
        }
        assert_eq!(signing(&near, &far), (2, 2));
        for end in [&near, &far] {
            let status = status(end).unwrap().unwrap();
            assert_eq!(status.dropped, 0, "{status:?}");
        }
        turn(&near, address, &after).expect("to turn again changes nothing");
        talk(&mut near, &mut far);
    }
}

#[test]
fn a_key_that_changes_at_once_a_second_apart_loses_nothing() {
    if !supported() {
        return;
    }
    let listener = listener(V4, None, &[key(1, "old")]);
    let (mut near, mut far) = connection(&listener, &[key(1, "old")]);
    talk(&mut near, &mut far);
    turn(&near, V4, &[key(2, "new")]).unwrap();
    near.write_all(b"from near").unwrap();
    far.write_all(b"from far").unwrap();
    thread::sleep(Duration::from_secs(1));
    turn(&far, V4, &[key(2, "new")]).unwrap();
    let changed = Instant::now();
    let mut read = [0; 9];
    far.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"from near");
    near.read_exact(&mut read[..8]).unwrap();
    assert_eq!(&read[..8], b"from far");
    eprintln!("a second apart: all there {:?} after", changed.elapsed());
    talk(&mut near, &mut far);
    assert_eq!(signing(&near, &far), (2, 2));
}

#[test]
fn a_connection_takes_no_other_secret_under_an_id_that_it_holds() {
    if !supported() {
        return;
    }
    for algorithm in [Algorithm::HmacSha1, Algorithm::AesCmac] {
        let held = MasterKey {
            algorithm,
            ..key(1, "held")
        };
        let listener = listener(V4, None, std::slice::from_ref(&held));
        let (mut near, mut far) = connection(&listener, std::slice::from_ref(&held));
        let other = MasterKey {
            secret: Key::new(b"other").unwrap(),
            ..held.clone()
        };
        let half = MasterKey { send_id: 2, ..held };
        for key in [other, half] {
            let turned = turn(&far, V4, &[key]);
            assert!(
                matches!(turned, Err(TurnError::Changed { .. })),
                "{turned:?}"
            );
        }
        talk(&mut near, &mut far);
    }
}

#[test]
fn a_kernel_says_whether_it_takes_a_key() {
    let tried = [Algorithm::HmacSha1, Algorithm::AesCmac].map(|algorithm| {
        let key = MasterKey {
            algorithm,
            ..key(1, "one")
        };
        key.try_out()
    });
    for tried in tried {
        match tcp_ao_supported() {
            true => tried.unwrap(),
            false => {
                let error = tried.unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::ENOPROTOOPT));
            }
        }
    }
}

/// Not a promise, a number: how many peers a listener can hold keys for.
#[test]
fn a_listener_holds_keys_for_many_peers() {
    if !supported() {
        return;
    }
    let listener = listener(V4, None, &[]);
    let peers = (1..=4096_u32).map(|at| IpAddr::from((0x0a00_0000 + at).to_be_bytes()));
    let admitted = peers.map(|peer| admit(&listener, peer, None, &key(1, "one")));
    let count = admitted.take_while(Result::is_ok).count();
    eprintln!("a listener holds the keys of {count} peers, or of more");
    assert!(count >= 16);
}
