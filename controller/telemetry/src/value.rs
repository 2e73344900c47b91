//! Values as gNMI servers write them: typed, JSON or JSON_IETF (RFC 7951), of one leaf or of a whole subtree, taken apart
//! into leaves. It refuses to know which leaves there are.

use serde_json::Value as Json;
use weft_proto::gnmi::TypedValue;
use weft_proto::gnmi::typed_value::Value as Typed;

use crate::oddities::Odd;
use crate::place::{STEPS_MAX, Step, key_name, local};

/// A leaf's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    /// A string, an enumeration or an identity, and a number of 64 bits in JSON_IETF.
    Text(&'a str),
    /// A number that is not negative.
    Number(u64),
    /// Something else.
    Other,
}

/// A value before it is taken apart.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    /// Of one leaf.
    Scalar(Scalar<'a>),
    /// Of a leaf or a subtree.
    Json(Json),
}

/// Takes a leaf with its path, or what is wrong there.
pub(crate) type Each<'e, 's> = dyn FnMut(&[Step<'s>], Result<Scalar<'s>, Odd>) + 'e;

impl Scalar<'_> {
    /// The value as a counter. None: it is none.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Scalar::Number(number) => Some(number),
            Scalar::Text(text) => text.trim().parse().ok(),
            Scalar::Other => None,
        }
    }
}

/// Reads a typed value.
///
/// # Errors
///
/// JSON that cannot be parsed, no value, and octets whose meaning is not said.
pub(crate) fn value(typed: Option<&TypedValue>) -> Result<Value<'_>, Odd> {
    let scalar = match typed.and_then(|typed| typed.value.as_ref()) {
        None => return Err(Odd::NoValue),
        Some(Typed::JsonVal(octets) | Typed::JsonIetfVal(octets)) => {
            let json = serde_json::from_slice(octets);
            return json.map(Value::Json).map_err(|_| Odd::Json);
        }
        Some(Typed::StringVal(text) | Typed::AsciiVal(text)) => Scalar::Text(text),
        Some(Typed::UintVal(number)) => Scalar::Number(*number),
        Some(Typed::IntVal(number)) => u64::try_from(*number).map_or(Scalar::Other, Scalar::Number),
        Some(Typed::DoubleVal(number)) => float(*number),
        Some(Typed::FloatVal(number)) => float(f64::from(*number)),
        Some(Typed::DecimalVal(decimal)) => match u64::try_from(decimal.digits) {
            Ok(digits) if decimal.precision == 0 => Scalar::Number(digits),
            _ => Scalar::Other,
        },
        Some(Typed::BoolVal(_)) => Scalar::Other,
        Some(
            Typed::BytesVal(_) | Typed::LeaflistVal(_) | Typed::AnyVal(_) | Typed::ProtoBytes(_),
        ) => return Err(Odd::Encoding),
    };
    Ok(Value::Scalar(scalar))
}

/// Some servers write counters as floating-point numbers.
fn float(number: f64) -> Scalar<'static> {
    // Beyond 2^53 it is not known which number was meant.
    if number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, not negative, below 2^53"
        )]
        return Scalar::Number(number as u64);
    }
    Scalar::Other
}

impl Value<'_> {
    /// Gives each leaf of the value, which is at a path, with its own path; and each list entry whose key is missing.
    pub(crate) fn leaves<'s>(&'s self, at: &[Step<'s>], each: &mut Each<'_, 's>) {
        let mut steps = at.to_vec();
        match self {
            Self::Scalar(scalar) => each(&steps, Ok(*scalar)),
            Self::Json(json) => walk(&mut steps, json, each),
        }
    }
}

fn walk<'s>(steps: &mut Vec<Step<'s>>, json: &'s Json, each: &mut Each<'_, 's>) {
    match json {
        Json::Object(members) => {
            if steps.len() >= STEPS_MAX {
                return each(steps, Err(Odd::LongPath));
            }
            for (name, below) in members {
                let name = local(name);
                steps.push(Step { name, key: None });
                walk(steps, below, each);
                steps.pop();
            }
        }
        Json::Array(entries) => list(steps, entries, each),
        Json::String(text) => each(steps, Ok(Scalar::Text(text))),
        Json::Number(number) => {
            let whole = number.as_u64().map(Scalar::Number);
            let scalar = whole.or_else(|| number.as_f64().map(float));
            each(steps, Ok(scalar.unwrap_or(Scalar::Other)));
        }
        Json::Bool(_) | Json::Null => each(steps, Ok(Scalar::Other)),
    }
}

/// The entries of a list. One that is not read here, and a leaf-list, have no entries.
fn list<'s>(steps: &mut Vec<Step<'s>>, entries: &'s [Json], each: &mut Each<'_, 's>) {
    let Some(last) = steps.last().copied() else {
        return each(steps, Err(Odd::Value));
    };
    let Some(key_name) = key_name(last.name) else {
        return;
    };
    for entry in entries {
        let members = entry.as_object().into_iter().flatten();
        let key = members
            .filter(|(name, _)| local(name) == key_name)
            .find_map(|(_, value)| value.as_str());
        // Where the path has the key already, there is one entry.
        let Some(key) = last.key.or(key) else {
            each(steps, Err(Odd::Key));
            continue;
        };
        steps.pop();
        steps.push(Step {
            key: Some(key),
            ..last
        });
        walk(steps, entry, each);
        steps.pop();
        steps.push(last);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_proto::gnmi::Decimal64;

    use super::*;
    use crate::place::shown;

    fn taken_apart(at: &[Step<'_>], value: &Value<'_>) -> Vec<String> {
        let mut found = Vec::new();
        value.leaves(at, &mut |steps, scalar| {
            found.push(match scalar {
                Ok(scalar) => format!("{} {scalar:?}", shown(steps)),
                Err(odd) => format!("{} {odd}", shown(steps)),
            });
        });
        found
    }

    #[test]
    fn a_counter_is_written_in_many_ways() {
        let decimal = |digits, precision| Typed::DecimalVal(Decimal64 { digits, precision });
        let table = [
            ("uint", Typed::UintVal(7), Some(7)),
            ("int", Typed::IntVal(7), Some(7)),
            ("below zero", Typed::IntVal(-7), None),
            ("a string", Typed::StringVal("7".into()), Some(7)),
            ("ascii", Typed::AsciiVal(" 7\n".into()), Some(7)),
            ("double", Typed::DoubleVal(7.0), Some(7)),
            ("a part", Typed::DoubleVal(7.5), None),
            ("no number", Typed::DoubleVal(f64::NAN), None),
            ("infinite", Typed::DoubleVal(f64::INFINITY), None),
            ("decimal", decimal(7, 0), Some(7)),
            ("decimal with a part", decimal(75, 1), None),
            ("the greatest", Typed::UintVal(u64::MAX), Some(u64::MAX)),
            ("json", Typed::JsonVal("7".into()), Some(7)),
            ("json of a float", Typed::JsonVal("7.0".into()), Some(7)),
            ("ietf", Typed::JsonIetfVal("\"7\"".into()), Some(7)),
            (
                "ietf, the greatest",
                Typed::JsonIetfVal("\"18446744073709551615\"".into()),
                Some(u64::MAX),
            ),
            (
                "too great",
                Typed::JsonIetfVal("\"18446744073709551616\"".into()),
                None,
            ),
            ("bool", Typed::BoolVal(true), None),
            ("null", Typed::JsonVal("null".into()), None),
        ];
        for (case, typed, expected) in table {
            let typed = TypedValue { value: Some(typed) };
            let value = value(Some(&typed)).expect(case);
            let mut number = None;
            value.leaves(&[], &mut |_, scalar| number = scalar.expect(case).number());
            assert_eq!(number, expected, "{case}");
        }
    }

    #[test]
    fn what_cannot_be_read_has_a_reason() {
        let table = [
            ("nothing", None, Odd::NoValue),
            ("half a JSON", Some(Typed::JsonVal("{".into())), Odd::Json),
            ("octets", Some(Typed::BytesVal("7".into())), Odd::Encoding),
            (
                "deep",
                Some(Typed::JsonVal("[".repeat(10_000).into())),
                Odd::Json,
            ),
        ];
        for (case, typed, odd) in table {
            let read = value(Some(&TypedValue { value: typed })).map(drop);
            assert_eq!(read, Err(odd), "{case}");
        }
    }

    #[test]
    fn a_subtree_is_taken_apart() {
        let tree = json!({"openconfig-interfaces:interface": [
            {"name": "eth1", "state": {"oper-status": "UP", "counters": {"in-octets": "5"}}},
            {"state": {"oper-status": "UP"}},
            {"name": "eth2", "tags": [1, 2], "state": {"mtu": 9100}},
        ]});
        let at = [Step {
            name: "interfaces",
            key: None,
        }];
        assert_eq!(
            taken_apart(&at, &Value::Json(tree)),
            [
                "/interfaces/interface[eth1]/name Text(\"eth1\")",
                "/interfaces/interface[eth1]/state/counters/in-octets Text(\"5\")",
                "/interfaces/interface[eth1]/state/oper-status Text(\"UP\")",
                "/interfaces/interface list entry without usable key",
                "/interfaces/interface[eth2]/name Text(\"eth2\")",
                "/interfaces/interface[eth2]/state/mtu Number(9100)",
            ]
        );
    }
}
