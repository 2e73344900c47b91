//! Route target memberships: no octets make the decoder panic, what it takes it gives back, and the interest that
//! is made of it wants what each of them matches.

#![no_main]

use libfuzzer_sys::fuzz_target;

use weft_bgp::attribute::{Attributes, ExtendedCommunity};
use weft_bgp::constrain::{Interest, Targets};
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::wire::Writer;

fuzz_target!(|octets: &[u8]| {
    let (mut memberships, mut discarded) = (Vec::new(), 0_usize);
    let _ = decode_all::<Membership>(octets, false, |_, it| memberships.push(it), |_| discarded += 1);
    assert!(memberships.len() + discarded <= octets.len());
    for membership in &memberships {
        survives(membership);
    }
    let interest = Interest::of_memberships(memberships.iter().copied());
    for membership in &memberships {
        let target = ExtendedCommunity(membership.target);
        let attributes = Attributes { ext_communities: vec![target], ..Attributes::default() };
        assert!(membership.matches(target));
        assert!(interest.wants(&Targets::of(&attributes)));
    }
});

fn survives(membership: &Membership) {
    let mut out = Writer::new();
    membership.encode(&mut out);
    let mut again = Vec::new();
    decode_all::<Membership>(out.as_slice(), false, |_, it| again.push(it), |error| panic!("{error}"))
        .expect("our own octets are framed");
    assert_eq!(again, [*membership]);
    let (mut key, mut payload) = (Vec::new(), Vec::new());
    Membership::key_octets(&membership.key(), &mut key);
    membership.payload_octets(&mut payload);
    let key = Membership::key_from_octets(&key).expect("a stored key is a key");
    assert_eq!(Membership::from_parts(key, &payload), Some(*membership));
    assert!(!key.to_string().is_empty());
}
