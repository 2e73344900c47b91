//! Integers of ProtoJSON. Numbers and texts may both have a fraction or an exponent if the value is whole; prost-reflect reads them of
//! numbers only. Knows texts and trees, and no message by its name.

use prost_reflect::{Kind, MessageDescriptor};
use serde_json::Value;

/// Returns the integer that a text is: "7", "-7", "4e11", "400000000000.0" or "1.5e1". None: the value is not whole, or has more
/// than 38 digits, or the text is no number.
pub fn whole(text: &str) -> Option<i128> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
        None => (text, 0_i32),
    };
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (mantissa, ""),
    };
    let unsigned = integer.strip_prefix(['-', '+']).unwrap_or(integer);
    let is_decimal = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if unsigned.is_empty() || !is_decimal(unsigned) || !is_decimal(fraction) {
        return None;
    }
    let digits = [unsigned, fraction].concat();
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some(0);
    }
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let shift = i64::from(exponent) + zeros - i64::try_from(fraction.len()).ok()?;
    let power = 10_i128.checked_pow(u32::try_from(shift).ok()?)?;
    let value = significant.parse::<i128>().ok()?.checked_mul(power)?;
    Some(if integer.starts_with('-') {
        -value
    } else {
        value
    })
}

/// Writes the integers of a message that are texts without fraction and exponent.
pub(super) fn write_plainly(kind: &MessageDescriptor, message: &mut Value) {
    let Value::Object(fields) = message else {
        return;
    };
    for (name, value) in fields {
        let field = kind.get_field_by_name(name);
        let Some(field) = field.or_else(|| kind.get_field_by_json_name(name)) else {
            continue;
        };
        match (field.kind(), value) {
            (Kind::Message(entry), Value::Object(entries)) if field.is_map() => {
                let kind = entry.map_entry_value_field().kind();
                entries.values_mut().for_each(|it| write_one(&kind, it));
            }
            (kind, Value::Array(items)) => items.iter_mut().for_each(|it| write_one(&kind, it)),
            (kind, value) => write_one(&kind, value),
        }
    }
}

fn write_one(kind: &Kind, value: &mut Value) {
    match kind {
        Kind::Message(kind) => write_plainly(kind, value),
        Kind::Int32
        | Kind::Int64
        | Kind::Uint32
        | Kind::Uint64
        | Kind::Sint32
        | Kind::Sint64
        | Kind::Fixed32
        | Kind::Fixed64
        | Kind::Sfixed32
        | Kind::Sfixed64 => {
            if let Some(number) = value.as_str().and_then(whole) {
                *value = Value::from(number.to_string());
            }
        }
        Kind::Double | Kind::Float | Kind::Bool | Kind::String | Kind::Bytes | Kind::Enum(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_an_integer_if_its_value_is_whole() {
        let digits = format!("1{}", "0".repeat(38));
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-0.0e-7", Some(0)),
            ("0e2147483647", Some(0)),
            ("18446744073709551615", Some(u64::MAX.into())),
            ("-9223372036854775808", Some(i64::MIN.into())),
            ("4e11", Some(400_000_000_000)),
            ("4E+11", Some(400_000_000_000)),
            ("400000000000.0", Some(400_000_000_000)),
            ("1.5e1", Some(15)),
            ("150e-1", Some(15)),
            ("-1.50e1", Some(-15)),
            ("00000000000000000000000000000000000000007", Some(7)),
            (&digits, Some(10_i128.pow(38))),
            ("1e39", None),
            ("1e2147483647", None),
            ("1e2147483648", None),
            ("1e-1", None),
            ("1.5", None),
            ("15e-1", None),
            ("", None),
            ("-", None),
            (".5e1", None),
            ("5.", None),
            ("1e", None),
            ("1e1.0", None),
            ("1e1e1", None),
            ("--1", None),
            (" 1", None),
            ("1_000", None),
            ("0x10", None),
            ("NaN", None),
            ("Infinity", None),
            ("٣", None),
        ] {
            assert_eq!(whole(text), expected, "{text}");
        }
    }
}
