//! A BFD control packet as a datagram: no octets make the decoder panic, and what it takes encodes to the
//! same octets.

#![no_main]

use libfuzzer_sys::fuzz_target;

use weft_bfd::packet::{Fault, LEN, Packet};

fuzz_target!(|octets: &[u8]| {
    match Packet::decode(octets) {
        Ok(packet) => same(&packet, octets),
        Err(fault) => {
            assert_eq!(fault == Fault::Short, octets.len() < LEN);
            assert!(!fault.to_string().is_empty());
        }
    }
});

/// What came, but for a length that counts octets after the packet: ours counts none.
fn same(packet: &Packet, octets: &[u8]) {
    let mut expected = *octets.first_chunk::<LEN>().expect("a packet has its octets");
    assert!(usize::from(expected[3]) <= octets.len());
    expected[3] = 24;
    assert_eq!(packet.encode(), expected);
    assert_eq!(Packet::decode(&expected), Ok(*packet));
    assert!(!packet.diagnostic.to_string().is_empty());
}
