//! Text that comes from peers and switches, written so that it cannot move the cursor, nor turn what stands beside it around.
//! Knows JSON and YAML, and no noun.

use std::fmt::Write;
use std::io;

use serde::Serialize;
use serde_yaml_ng::Value;

/// A text with its control characters spelled out, and those that change the direction of what follows.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || turns(character) {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// The same for a text of several lines, which stay lines.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(printable).collect();
    lines.join("\n")
}

/// A text, or what stands for none.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

/// JSON on one line.
pub(super) fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(escaped(serde_json::to_string(value)?))
}

/// JSON on many lines.
pub(super) fn json_lines(value: &impl Serialize) -> io::Result<String> {
    Ok(escaped(serde_json::to_string_pretty(value)?))
}

/// YAML, with the end of its last line.
pub(super) fn yaml(value: &impl Serialize) -> io::Result<String> {
    let value = serde_yaml_ng::to_value(value).map_err(io::Error::other)?;
    let mut text = String::new();
    node(&mut text, &value, 0)?;
    Ok(text)
}

/// JSON whose strings have no character that a terminal acts upon: outside of strings there is none.
fn escaped(json: String) -> String {
    if json.bytes().all(|it| it < 0x7f) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, '\u{7f}'..='\u{9f}') || turns(character) {
            let written = write!(escaped, "\\u{:04x}", u32::from(character));
            written.expect("a string takes any text");
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Whether a character changes the direction of text, or ends a line where none should end: those of Unicode's bidirectional
/// algorithm (UAX #9 §2), and its separators.
fn turns(character: char) -> bool {
    matches!(
        character,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

/// Writes a value whose first line begins at column `indent`.
fn node(text: &mut String, value: &Value, indent: usize) -> io::Result<()> {
    match value {
        Value::Mapping(entries) if !entries.is_empty() => {
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    text.extend(std::iter::repeat_n(' ', indent));
                }
                text.push_str(&scalar(key)?);
                text.push(':');
                let inner = match value {
                    Value::Mapping(entries) if !entries.is_empty() => indent + 2,
                    // The dashes stand below the key.
                    Value::Sequence(items) if !items.is_empty() => indent,
                    leaf => {
                        text.push(' ');
                        node(text, leaf, indent)?;
                        continue;
                    }
                };
                text.push('\n');
                text.extend(std::iter::repeat_n(' ', inner));
                node(text, value, inner)?;
            }
        }
        Value::Sequence(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.extend(std::iter::repeat_n(' ', indent));
                }
                text.push_str("- ");
                node(text, item, indent + 2)?;
            }
        }
        leaf => {
            text.push_str(&scalar(leaf)?);
            text.push('\n');
        }
    }
    Ok(())
}

/// A value on one line; what is to be escaped stands in quotation marks, as in JSON.
fn scalar(value: &Value) -> io::Result<String> {
    // YAML 1.1 has times, and numbers to the base 60: what a MAC address may look like.
    let is_taken_for_another = |text: &str| {
        let first = text.trim_start_matches(['-', '+']);
        first.starts_with(|it: char| it.is_ascii_digit()) && text.contains([':', '-'])
    };
    if let Value::String(text) = value
        && (text.chars().any(|it| it.is_control() || turns(it)) || is_taken_for_another(text))
    {
        return json(text);
    }
    let text = serde_yaml_ng::to_string(value).map_err(io::Error::other)?;
    Ok(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_and_nothing_else_moves_the_cursor() {
        let text = "weft.toml: line 2\n  |\n2 | asm = \u{1b}[2J1\r\n  | ^^^\rx\n";
        let printed = "weft.toml: line 2\n  |\n2 | asm = \\u{1b}[2J1\n  | ^^^\\rx";
        assert_eq!(printable_lines(text), printed);
    }

    /// What a peer may call itself: an FQDN that turns around what follows, ends lines and clears the screen.
    const HOSTILE: &str = "leaf\u{202e}1\u{2028}\u{61c}\u{200f}\u{2069}\u{9b}2J\u{7f}\n\u{1b}é";

    #[test]
    fn a_hostile_name_is_spelled_out_in_every_form() {
        assert_eq!(
            printable(HOSTILE),
            "leaf\\u{202e}1\\u{2028}\\u{61c}\\u{200f}\\u{2069}\\u{9b}2J\\u{7f}\\n\\u{1b}é"
        );
        let expected = "\"leaf\\u202e1\\u2028\\u061c\\u200f\\u2069\\u009b2J\\u007f\\n\\u001bé\"";
        let object = serde_json::json!({ "names": [HOSTILE, "leaf2"], HOSTILE: {} });
        let (line, lines, yaml) = (
            json(&object).unwrap(),
            json_lines(&object).unwrap(),
            yaml(&object).unwrap(),
        );
        for text in [&line, &lines, &yaml] {
            assert_eq!(text.matches(expected).count(), 2, "{text}");
            let moves = |it: char| (it.is_control() && it != '\n') || turns(it);
            assert!(!text.contains(moves), "{text}");
        }
        for text in [line, lines] {
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&text).unwrap(),
                object
            );
        }
        let read: serde_json::Value = serde_yaml_ng::from_str(&yaml).unwrap();
        assert_eq!(read, object);
    }

    #[test]
    fn yaml_is_read_back_as_it_was() {
        let object = serde_json::json!([
            { "a": [], "b": {}, "c": [[1, 2], [[], [{ "d": null }]]], "e": { "f": [{ "g": "" }, { "h": -1.5 }] } },
            "10:20:30:40:50:10", "1970-01-01T00:16:40Z", "2026-11-24", "true", "1", "- x", "a: b", "#", " y ", "null", "~", "0x1", true, "'", "\"", "two\nlines", "é",
        ]);
        let text = yaml(&object).unwrap();
        let read: serde_json::Value = serde_yaml_ng::from_str(&text).unwrap();
        assert_eq!(read, object, "{text}");
        assert!(text.contains("- \"10:20:30:40:50:10\"\n- \"1970-01-01T00:16:40Z\"\n"));
        assert!(
            text.starts_with("- a: []\n  b: {}\n  c:\n  - - 1\n    - 2\n"),
            "{text}"
        );
    }
}
