//! Text that a stranger sent, made safe to log and to show: no control characters, a bounded length. It refuses to know
//! what the text means.

use std::fmt::Write;

/// The text with control and invisible characters written as `\u{..}`, at most `octets_max` octets long before the `…`
/// that stands for what was cut. A cut text equals no text that was not.
#[must_use]
pub fn plain(text: &str, octets_max: usize) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        let before = shown.len();
        if is_unsafe(character) {
            // Writing to a String cannot fail.
            let _written = write!(shown, "\\u{{{:x}}}", u32::from(character));
        } else {
            shown.push(character);
        }
        if shown.len() > octets_max {
            shown.truncate(before);
            shown.push('…');
            break;
        }
    }
    shown
}

/// Makes a text [`plain`] in place; one that is plain already stays as it is.
pub fn make_plain(text: &mut String, octets_max: usize) {
    if text.len() > octets_max || text.contains(is_unsafe) {
        *text = plain(text, octets_max);
    }
}

/// Control characters, and those that hide or turn around the text beside them.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Octets of a name of an interface or of a string in LLDP: IEEE 802.1AB §8.5 has 255 at most.
pub const NAME_MAX: usize = 255;

/// Octets of a text in a message for a person.
pub const SHOWN_MAX: usize = 64;

/// Octets of a sentence of a stranger, such as the message of a gRPC status: two lines of a terminal are read, more are not.
pub const SENTENCE_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_texts() {
        let table = [
            ("an ordinary name", "spine1", 64, "spine1"),
            ("a colour", "a\u{1b}[31mred", 64, "a\\u{1b}[31mred"),
            ("a line", "a\nb", 64, "a\\u{a}b"),
            ("turned around", "a\u{202e}b", 64, "a\\u{202e}b"),
            ("as long as it may be", "abcd", 4, "abcd"),
            ("one longer", "abcde", 4, "abcd…"),
            ("no half of a character", "aé", 2, "a…"),
            ("nothing", "", 4, ""),
        ];
        for (name, text, octets, expected) in table {
            assert_eq!(plain(text, octets), expected, "{name}");
            let mut made = text.to_owned();
            make_plain(&mut made, octets);
            assert_eq!(made, expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_plain_text_is_bounded_and_has_no_control_character(text in any::<String>(), max in 0usize..80) {
            let shown = plain(&text, max);
            prop_assert!(shown.len() <= max + '…'.len_utf8());
            prop_assert!(!shown.contains(char::is_control));
            prop_assert_eq!(plain(&shown, 1024), shown);
        }
    }
}
