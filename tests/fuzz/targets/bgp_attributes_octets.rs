//! Attributes as stored: no octets make the decoder panic, and what it takes it gives back.

#![no_main]

use libfuzzer_sys::fuzz_target;

use weft_bgp::attribute::Attributes;

fuzz_target!(|octets: &[u8]| {
    let Ok(mut attributes) = Attributes::from_octets(octets) else { return };
    attributes.unknown.clear();
    let stored = attributes.to_octets();
    assert_eq!(Attributes::from_octets(&stored).as_ref(), Ok(&attributes));
    assert_eq!(attributes.to_octets(), stored);
});
