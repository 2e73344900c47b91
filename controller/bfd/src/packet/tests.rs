//! Packets: one vector, one test for each check, and no octets that panic.

use proptest::prelude::*;

use super::*;

/// Laid out by hand from RFC 5880 §4.1.
const UP: [u8; 24] = [
    0x23, 0xe0, 0x03, 0x18, // version 1, neighbor signaled down; Up, poll; 3; 24 octets
    0x00, 0x00, 0x00, 0x01, // mine
    0xc0, 0x00, 0x02, 0x01, // yours
    0x00, 0x04, 0x93, 0xe0, // 300 ms
    0x00, 0x03, 0x0d, 0x40, // 200 ms
    0x00, 0x00, 0xc3, 0x50, // 50 ms
];

#[test]
fn a_packet_reads_and_writes_as_the_rfc_draws_it() {
    let packet = Packet::decode(&UP).unwrap();
    assert_eq!(
        packet,
        Packet {
            diagnostic: Diagnostic::NeighborSignaledDown,
            state: State::Up,
            poll: true,
            final_bit: false,
            control_plane_independent: false,
            demand: false,
            multiplier: NonZeroU8::new(3).unwrap(),
            mine: discriminator(1),
            yours: Some(discriminator(0xc000_0201)),
            desired_min_tx: Interval(300_000),
            required_min_rx: Interval(200_000),
            required_min_echo_rx: Interval(50_000),
        }
    );
    assert_eq!(packet.encode(), UP);
}

fn discriminator(value: u32) -> Discriminator {
    Discriminator(NonZeroU32::new(value).unwrap())
}

/// The packet with some octets changed.
fn with(changes: &[(usize, u8)]) -> Result<Packet, Fault> {
    let mut octets = UP;
    for (at, octet) in changes {
        octets[*at] = *octet;
    }
    Packet::decode(&octets)
}

#[test]
fn each_check_of_the_rfc_has_its_fault() {
    assert_eq!(Packet::decode(&[]), Err(Fault::Short));
    assert_eq!(Packet::decode(&UP[..23]), Err(Fault::Short));
    assert_eq!(with(&[(0, 0x03)]), Err(Fault::Version(0)));
    assert_eq!(with(&[(0, 0x43)]), Err(Fault::Version(2)));
    assert_eq!(with(&[(3, 23)]), Err(Fault::LengthBelowLeast(23)));
    assert_eq!(with(&[(3, 25)]), Err(Fault::LengthBeyondDatagram(25)));
    assert_eq!(with(&[(3, 255)]), Err(Fault::LengthBeyondDatagram(255)));
    assert_eq!(with(&[(2, 0)]), Err(Fault::Multiplier));
    assert_eq!(with(&[(1, 0xe1)]), Err(Fault::Multipoint));
    assert_eq!(with(&[(7, 0)]), Err(Fault::MyDiscriminator));
    let unlearned = [(8, 0), (10, 0), (11, 0)];
    for (state, bits) in [(State::Init, 0x80), (State::Up, 0xc0)] {
        let changes = [&unlearned[..], &[(1, bits)]].concat();
        assert_eq!(with(&changes), Err(Fault::YourDiscriminator(state)));
    }
    for bits in [0x00, 0x40] {
        let changes = [&unlearned[..], &[(1, bits)]].concat();
        assert_eq!(with(&changes).unwrap().yours, None);
    }
    assert_eq!(with(&[(1, 0xe4)]), Err(Fault::LengthBelowLeast(24)));
    let mut authenticated = [0; 26];
    authenticated[..24].copy_from_slice(&UP);
    authenticated[1] |= AUTHENTICATED;
    authenticated[3] = 26;
    assert_eq!(Packet::decode(&authenticated), Err(Fault::Authenticated));
}

#[test]
fn octets_after_the_packet_do_not_count() {
    let mut longer = UP.to_vec();
    longer.extend([0xff; 40]);
    assert_eq!(Packet::decode(&longer), Packet::decode(&UP));
}

#[test]
fn every_diagnostic_survives_a_round_trip() {
    for code in 0..=31 {
        assert_eq!(Diagnostic::from_code(code).code(), code);
    }
    assert_eq!(Diagnostic::from_code(9), Diagnostic::Unknown(9));
}

#[test]
fn an_interval_has_a_most() {
    assert_eq!(Interval::of(Duration::from_millis(300)), Interval(300_000));
    assert_eq!(Interval::of(Duration::MAX), Interval(u32::MAX));
}

proptest! {
    #[test]
    fn no_octets_panic_and_what_is_accepted_is_canonical(octets in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(packet) = Packet::decode(&octets) {
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
    }

    /// As above, with the octets that most random packets fail by set right.
    #[test]
    fn what_is_sent_is_what_came(mut octets in any::<[u8; 24]>(), more in 0_u8..4) {
        octets[0] = octets[0] & DIAGNOSTIC | VERSION << 5;
        octets[1] &= !(AUTHENTICATED | MULTIPOINT);
        octets[3] = LEN_OCTET;
        let mut longer = octets.to_vec();
        longer.extend(std::iter::repeat_n(0xaa, more.into()));
        match Packet::decode(&longer) {
            Ok(packet) => prop_assert_eq!(packet.encode(), octets),
            Err(fault) => prop_assert!(matches!(
                fault,
                Fault::Multiplier | Fault::MyDiscriminator | Fault::YourDiscriminator(_)
            )),
        }
    }
}
