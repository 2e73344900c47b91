//! IPv4 and IPv6 prefixes: the first octet says which, and whether with path identifiers. No octets make the
//! decoder panic; what it takes it gives back, on the wire and in storage.

#![no_main]

use libfuzzer_sys::fuzz_target;

use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::wire::Writer;

fuzz_target!(|octets: &[u8]| {
    let Some((&flags, nlri)) = octets.split_first() else { return };
    let add_path = flags & 1 != 0;
    if flags & 2 == 0 {
        field::<Prefix4>(nlri, add_path);
    } else {
        field::<Prefix6>(nlri, add_path);
    }
    let _ = (Prefix4::key_from_octets(nlri), Prefix6::key_from_octets(nlri));
});

fn field<N: Nlri>(octets: &[u8], add_path: bool) {
    let mut prefixes = Vec::new();
    let _ = decode_all::<N>(octets, add_path, |id, prefix| prefixes.push((id, prefix)), drop);
    assert!(prefixes.len() <= octets.len());
    let mut out = Writer::new();
    for (id, prefix) in &prefixes {
        if add_path {
            out.u32(*id);
        }
        prefix.encode(&mut out);
    }
    let mut again = Vec::new();
    decode_all::<N>(out.as_slice(), add_path, |id, prefix| again.push((id, prefix)), |error| panic!("{error}"))
        .expect("our own octets are framed");
    assert_eq!(again, prefixes);
    for (_, prefix) in prefixes {
        let (mut key, mut payload) = (Vec::new(), Vec::new());
        N::key_octets(&prefix.key(), &mut key);
        prefix.payload_octets(&mut payload);
        let key = N::key_from_octets(&key).expect("a stored key is a key");
        assert_eq!(N::from_parts(key, &payload), Some(prefix));
    }
}
