//! The end of a path's key: which NLRI, and which of the peer's paths to it. Knows no family.
//!
//! The octets of an NLRI key do not say where they end, so a path identifier (RFC 7911 §3) stands before
//! them, behind a mark; without an identifier the key is what it always was.
//!
//! ```text
//! nlri-key                       path identifier 0
//! 0xff path-id(4) nlri-key       any other; also 0, where the NLRI key begins with 0xff itself
//! ```
//!
//! The first octet of an NLRI key is a prefix length of at most 128, or an EVPN route type: only type
//! 255, which nobody has defined, needs the mark for itself.

use weft_bgp::family::Family;

/// Writes the end of a key.
pub fn write_path(path_id: u32, nlri_key: &[u8], out: &mut Vec<u8>) {
    if path_id != 0 || nlri_key.first() == Some(&MARK) {
        out.push(MARK);
        out.extend_from_slice(&path_id.to_be_bytes());
    }
    out.extend_from_slice(nlri_key);
}

/// Reads the end of a key: the path identifier, and the octets of the NLRI key. `None` if weft writes no
/// such key.
pub fn read_path(octets: &[u8]) -> Option<(u32, &[u8])> {
    let Some(marked) = octets.strip_prefix(&[MARK]) else {
        return Some((0, octets));
    };
    let (path_id, nlri_key) = marked.split_first_chunk()?;
    let path_id = u32::from_be_bytes(*path_id);
    let needed = path_id != 0 || nlri_key.first() == Some(&MARK);
    needed.then_some((path_id, nlri_key))
}

/// Families whose paths are facts.
pub const FAMILIES: [Family; 4] = [
    Family::L2VPN_EVPN,
    Family::IPV4_UNICAST,
    Family::IPV6_UNICAST,
    Family::RTC,
];

/// Before a path identifier.
const MARK: u8 = 0xff;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_path_is_found_again(
            path_id in prop_oneof![Just(0), any::<u32>()],
            nlri_key in proptest::collection::vec(prop_oneof![Just(0xff), any::<u8>()], 1..40),
        ) {
            let mut octets = Vec::new();
            write_path(path_id, &nlri_key, &mut octets);
            prop_assert_eq!(read_path(&octets), Some((path_id, &nlri_key[..])));
        }

        /// No two spellings of one path, or a withdrawal could miss it.
        #[test]
        fn what_is_read_is_written_alike(
            octets in proptest::collection::vec(prop_oneof![Just(0xff), Just(0), any::<u8>()], 1..12),
        ) {
            if let Some((path_id, nlri_key)) = read_path(&octets) {
                let mut again = Vec::new();
                write_path(path_id, nlri_key, &mut again);
                prop_assert_eq!(again, octets);
            }
        }
    }

    #[test]
    fn without_an_identifier_a_key_is_the_nlri_key() {
        let mut octets = Vec::new();
        write_path(0, &[2, 1, 7], &mut octets);
        assert_eq!(octets, [2, 1, 7]);
        octets.clear();
        write_path(9, &[2, 1, 7], &mut octets);
        assert_eq!(octets, [0xff, 0, 0, 0, 9, 2, 1, 7]);
    }
}
