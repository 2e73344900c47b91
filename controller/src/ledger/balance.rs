//! The octets of a mode: `version(1) mode(1)`.

use bytes::Bytes;

use crate::fabric::mode::Mode;

/// The octets of a mode.
pub fn encode_mode(mode: Mode) -> Bytes {
    let mode = match mode {
        Mode::Off => 0,
        Mode::Shadow => 1,
        Mode::On => 2,
    };
    Bytes::copy_from_slice(&[VERSION, mode])
}

/// Reads a mode; `None` if no version of weft that this one knows wrote it.
pub fn decode_mode(value: &[u8]) -> Option<Mode> {
    match value {
        [VERSION, 0] => Some(Mode::Off),
        [VERSION, 1] => Some(Mode::Shadow),
        [VERSION, 2] => Some(Mode::On),
        _ => None,
    }
}

const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_survives_a_round_trip() {
        for mode in [Mode::Off, Mode::Shadow, Mode::On] {
            assert_eq!(decode_mode(&encode_mode(mode)), Some(mode));
        }
    }

    #[test]
    fn a_mode_of_a_later_version_is_not_understood() {
        for octets in [&[][..], &[1], &[1, 3], &[2, 0], &[1, 2, 0]] {
            assert_eq!(decode_mode(octets), None);
        }
    }
}
