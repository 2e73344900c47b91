//! Checks the JSON of a request against what its message can hold: every field at fault by its path, all of them at once. What
//! passes is read without a loss. Knows no call.

use std::cell::RefCell;
use std::fmt;
use std::ops::RangeInclusive;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::request::well_known;
use crate::fabric::fact::InvalidFabric;

/// Notes what is wrong with a body that is a message; `below` is the field that the body stands for, or empty.
///
/// # Errors
/// The body is not JSON.
pub(super) fn check(
    kind: &MessageDescriptor,
    body: &[u8],
    below: &str,
    faults: &mut InvalidFabric,
) -> Result<(), serde_json::Error> {
    let found = RefCell::new(std::mem::take(faults));
    let mut text = serde_json::Deserializer::from_slice(body);
    let root = Check {
        wanted: &Wanted::One(Kind::Message(kind.clone())),
        path: &Path {
            before: None,
            step: Step::Name(below),
        },
        faults: &found,
    };
    let read = root.deserialize(&mut text).and_then(|()| text.end());
    *faults = found.into_inner();
    read
}

/// What is wrong with the text of a value that JSON has as a string; None: nothing.
pub(super) fn text_fault(kind: &Kind, text: &str) -> Option<String> {
    let is_one = match kind {
        // What is no base64 is refused when it is read.
        Kind::String | Kind::Bytes => true,
        Kind::Bool => false,
        Kind::Double | Kind::Float => text.parse::<f64>().is_ok(),
        Kind::Enum(kind) => kind.get_value_by_name(text).is_some(),
        Kind::Message(kind) if well_known(kind) => {
            weft_proto::json::read(kind.clone(), Value::from(text)).is_ok()
        }
        Kind::Message(_) => false,
        integer => {
            let number = weft_proto::json::whole(text);
            number.is_some_and(|number| holds(integer, number))
        }
    };
    (!is_one).then(|| other_kind(kind, text))
}

/// The fault of a parameter of a query or a path: as [`text_fault`], but an integer has digits only.
pub(super) fn parameter_fault(kind: &Kind, text: &str) -> Option<String> {
    let is_integer = range(kind).is_some() && !matches!(kind, Kind::Enum(_));
    if is_integer && text.parse::<i128>().is_err() {
        return Some(other_kind(kind, text));
    }
    text_fault(kind, text)
}

fn other_kind(kind: &Kind, text: &str) -> String {
    let shown: String = text.chars().take(SHOWN).collect();
    format!("{shown:?} is not {}", named(kind))
}

/// What a place of the body has to hold.
enum Wanted {
    /// A list, an object by keys, or one value.
    Field(FieldDescriptor),
    One(Kind),
}

impl Wanted {
    /// The kind of the one value; None: there are many.
    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Field(field) if field.is_list() || field.is_map() => None,
            Self::Field(field) => Some(field.kind()),
            Self::One(kind) => Some(kind.clone()),
        }
    }

    fn named(&self) -> String {
        match self {
            Self::Field(field) if field.is_list() => "a list".to_owned(),
            Self::Field(field) if field.is_map() => "an object".to_owned(),
            Self::Field(field) => named(&field.kind()),
            Self::One(kind) => named(kind),
        }
    }
}

/// Where something stands.
struct Path<'a> {
    before: Option<&'a Self>,
    step: Step<'a>,
}

enum Step<'a> {
    Name(&'a str),
    Index(usize),
}

impl Path<'_> {
    fn is_root(&self) -> bool {
        self.before.is_none() && matches!(self.step, Step::Name(""))
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.before.filter(|before| !before.is_root());
        if let Some(before) = before {
            before.fmt(f)?;
        }
        match self.step {
            Step::Name("") => f.write_str("body"),
            Step::Name(name) if before.is_some() => write!(f, ".{name}"),
            Step::Name(name) => f.write_str(name),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Checks one value, and what is in it.
#[derive(Clone, Copy)]
struct Check<'a> {
    wanted: &'a Wanted,
    path: &'a Path<'a>,
    faults: &'a RefCell<InvalidFabric>,
}

impl Check<'_> {
    fn fault(self, reason: impl fmt::Display) {
        self.faults.borrow_mut().fault(self.path, reason);
    }

    /// Notes that a value is none of those that can stand here.
    fn is_not(self, value: impl fmt::Display) {
        self.fault(format_args!("{value} is not {}", self.wanted.named()));
    }

    fn integer(self, number: i128) {
        let holds = match self.wanted.kind() {
            Some(Kind::Double | Kind::Float) => true,
            Some(kind) => holds(&kind, number),
            None => false,
        };
        if !holds {
            self.is_not(number);
        }
    }

    fn at<'b>(self, wanted: &'b Wanted, path: &'b Path<'b>) -> Check<'b>
    where
        Self: 'b,
    {
        Check {
            wanted,
            path,
            faults: self.faults,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<(), D::Error> {
        text.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.wanted.named())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        if !matches!(self.wanted.kind(), Some(Kind::Bool)) {
            self.is_not(value);
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.integer(number.into());
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.integer(number.into());
        Ok(())
    }

    /// A number with a fraction or an exponent, or beyond 64 bits: what is above 2^53 is another one by now.
    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        let is_whole = number.fract() == 0.0 && number.abs() <= EXACT_MAX;
        match self.wanted.kind() {
            Some(Kind::Double | Kind::Float) => {}
            Some(Kind::Enum(_)) | None => self.is_not(number),
            Some(kind) if is_whole && holds(&kind, number as i128) => {}
            Some(kind) => self.fault(format_args!("not written as {}", named(&kind))),
        }
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.wanted.kind() {
            Some(kind) => text_fault(&kind, text)
                .into_iter()
                .for_each(|it| self.fault(it)),
            None => self.is_not("a text"),
        }
        Ok(())
    }

    /// Absent, wherever something can be.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if matches!(self.wanted, Wanted::One(_)) {
            self.is_not("null");
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Wanted::Field(field) = self.wanted else {
            self.is_not("a list");
            return IgnoredAny.visit_seq(list).map(|_| ());
        };
        if !field.is_list() {
            self.is_not("a list");
            return IgnoredAny.visit_seq(list).map(|_| ());
        }
        let wanted = Wanted::One(field.kind());
        let mut index = 0;
        loop {
            let path = Path {
                before: Some(self.path),
                step: Step::Index(index),
            };
            if list.next_element_seed(self.at(&wanted, &path))?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<(), A::Error> {
        match self.wanted {
            Wanted::Field(field) if field.is_map() => self.values(field, object),
            wanted => match wanted.kind() {
                Some(Kind::Message(kind)) if !well_known(&kind) => self.fields(&kind, object),
                _ => {
                    self.is_not("an object");
                    IgnoredAny.visit_map(object).map(|_| ())
                }
            },
        }
    }
}

impl Check<'_> {
    /// Checks an object with keys of its own.
    fn values<'de, A: MapAccess<'de>>(
        self,
        field: &FieldDescriptor,
        mut object: A,
    ) -> Result<(), A::Error> {
        let entry = field.kind();
        let Some(entry) = entry.as_message() else {
            return IgnoredAny.visit_map(object).map(|_| ());
        };
        let wanted = Wanted::One(entry.map_entry_value_field().kind());
        let mut met = std::collections::BTreeSet::new();
        while let Some(key) = object.next_key::<String>()? {
            let path = Path {
                before: Some(self.path),
                step: Step::Name(&key),
            };
            let value = self.at(&wanted, &path);
            object.next_value_seed(value)?;
            if met.contains(&key) {
                value.fault(TWICE);
            }
            met.insert(key);
        }
        Ok(())
    }

    /// Checks an object whose keys are fields of a message.
    fn fields<'de, A: MapAccess<'de>>(
        self,
        kind: &MessageDescriptor,
        mut object: A,
    ) -> Result<(), A::Error> {
        let mut met = Vec::new();
        while let Some(key) = object.next_key_seed(Key(kind))? {
            let name = match &key {
                Ok(field) => field.name(),
                Err(name) => name,
            };
            let path = Path {
                before: Some(self.path),
                step: Step::Name(name),
            };
            match &key {
                Ok(field) => {
                    let wanted = Wanted::Field(field.clone());
                    let value = self.at(&wanted, &path);
                    object.next_value_seed(value)?;
                    if met.contains(&field.number()) {
                        value.fault(TWICE);
                    }
                    met.push(field.number());
                }
                Err(_) => {
                    self.at(self.wanted, &path)
                        .fault(format_args!("{} has no such field", kind.name()));
                    object.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The field that a key names, or the key.
struct Key<'a>(&'a MessageDescriptor);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Result<FieldDescriptor, String>;

    fn deserialize<D: Deserializer<'de>>(self, text: D) -> Result<Self::Value, D::Error> {
        text.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Result<FieldDescriptor, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let field = self.0.get_field_by_name(name);
        let field = field.or_else(|| self.0.get_field_by_json_name(name));
        Ok(field.ok_or_else(|| name.chars().take(SHOWN).collect()))
    }
}

/// The integers that a kind holds; None if it is another kind. An enum holds numbers that it does not name.
fn range(kind: &Kind) -> Option<RangeInclusive<i128>> {
    Some(match kind {
        Kind::Uint32 | Kind::Fixed32 => 0..=u32::MAX.into(),
        Kind::Uint64 | Kind::Fixed64 => 0..=u64::MAX.into(),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Enum(_) => {
            i32::MIN.into()..=i32::MAX.into()
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => i64::MIN.into()..=i64::MAX.into(),
        _ => return None,
    })
}

/// Whether a kind holds an integer.
fn holds(kind: &Kind, number: i128) -> bool {
    range(kind).is_some_and(|range| range.contains(&number))
}

/// What a value of a kind is, for people.
fn named(kind: &Kind) -> String {
    match kind {
        Kind::String => "a text".to_owned(),
        Kind::Bytes => "a text in base64".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Double | Kind::Float => "a number".to_owned(),
        Kind::Enum(kind) => format!("one of {}", names(kind)),
        Kind::Message(kind) => match kind.full_name() {
            "google.protobuf.Timestamp" => "a time as RFC 3339 has it".to_owned(),
            "google.protobuf.Duration" => "a time in seconds, \"1.5s\"".to_owned(),
            "google.protobuf.FieldMask" => "paths of fields with commas between them".to_owned(),
            _ => "an object".to_owned(),
        },
        integer => match range(integer) {
            Some(range) => format!("an integer from {} to {}", range.start(), range.end()),
            None => "a value".to_owned(),
        },
    }
}

/// The values that an enum names, but for 0: that is as if nothing was said.
fn names(kind: &EnumDescriptor) -> String {
    let names = kind.values().filter(|value| value.number() != 0);
    let names: Vec<_> = names.map(|value| value.name().to_owned()).collect();
    names.join(", ")
}

const TWICE: &str = "it is there twice";
/// Letters of a foreign text that a fault repeats.
const SHOWN: usize = 64;
/// Up to 2^53 each integer is a number with a fraction too.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(kind: &str, body: &str) -> Vec<String> {
        let kind = weft_proto::json::descriptor(kind).unwrap();
        let mut faults = InvalidFabric::default();
        check(&kind, body.as_bytes(), "", &mut faults).unwrap();
        faults.faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_field_at_fault_is_named_by_its_path() {
        let body = r#"{"display_name": 7, "bogus": {"a": [1]}, "links": [{}, {"capacity_bps": -1, "a": {"address": true},
            "labels": {"x": "y", "z": 1, "x": "w"}}], "switches": [{"role": "LEAF"}, null, []], "hosts": {}, "hosts": null,
            "validate_only": "true", "generation": 1.5}"#;
        let expected = [
            "display_name: 7 is not a text",
            "bogus: ApplyFabricRequest has no such field",
            "links[1].capacity_bps: -1 is not an integer from 0 to 18446744073709551615",
            "links[1].a.address: true is not a text",
            "links[1].labels.z: 1 is not a text",
            "links[1].labels.x: it is there twice",
            "switches[0].role: \"LEAF\" is not one of SWITCH_ROLE_LEAF, SWITCH_ROLE_SPINE",
            "switches[1]: null is not an object",
            "switches[2]: a list is not an object",
            "hosts: an object is not a list",
            "hosts: it is there twice",
            "validate_only: \"true\" is not true or false",
            "generation: not written as an integer from 0 to 18446744073709551615",
        ];
        assert_eq!(faults("weft.v1.ApplyFabricRequest", body), expected);
        assert_eq!(
            faults("weft.v1.Link", "[]"),
            ["body: a list is not an object"]
        );
        let nested = Path {
            before: Some(&Path {
                before: None,
                step: Step::Name("resource"),
            }),
            step: Step::Name("name"),
        };
        assert_eq!(nested.to_string(), "resource.name");
    }

    #[test]
    fn a_number_that_would_become_another_one_is_refused() {
        let of = |number: &str| faults("weft.v1.Link", &format!("{{\"capacity_bps\": {number}}}"));
        for number in [
            "18446744073709551615",
            "1e9",
            "2.0",
            "9007199254740992.0",
            "\"7\"",
            "null",
        ] {
            assert_eq!(of(number), Vec::<String>::new(), "{number}");
        }
        for number in [
            "18446744073709551616",
            "9007199254740994.0",
            "1e300",
            "-0.5",
            "\"7.5\"",
            "\"18446744073709551616\"",
            "\"\"",
            "\"-1\"",
        ] {
            assert_eq!(of(number).len(), 1, "{number}");
        }
    }

    /// A field of each kind that requests have.
    const FIELDS: [(&str, &str); 13] = [
        ("Link", "capacity_bps"),
        ("ApplyFabricRequest", "generation"),
        ("ListLinksRequest", "page_size"),
        ("Link", "derating_percent"),
        ("ApplyFabricRequest", "validate_only"),
        ("Link", "name"),
        ("Link", "admin_state"),
        ("WatchRequest", "kinds"),
        ("WatchRequest", "progress_interval"),
        ("UpdateLinkRequest", "update_mask"),
        ("Job", "expire_time"),
        ("Link", "labels"),
        ("ApplyFabricRequest", "links"),
    ];

    /// Values that some kind takes, or almost takes.
    const VALUES: &str = r#"
        null true false 0 -0 1 -1 1.0 1.5 1e2 1E+2 -1e2 1e-2 4e11 4.0e11 1e400 2147483647 2147483648 -2147483649 4294967295
        4294967296 4294967295.0 9007199254740991 9007199254740992.0 18446744073709551615
        "" "0" "-0" "1" "-1" "+1" "01" "1.0" "1.5" "1." ".5" "1e2" "1E+2" "150e-1" "15e-1" "4e11" "400000000000.0" "1e400" "e1"
        "4294967295.0" "4294967296.0" "18446744073709551615" "18446744073709551616" "1.8446744073709551615e19" "-9223372036854775809"
        "0x10" "1_000" "NaN" "Infinity" "-Infinity" "true" "null"
        "1s" "1.5s" "-1s" "1e2s" "0.0000000001s" "315576000001s" "2026-11-28T00:00:00Z" "2026-11-28T00:00:00.5+01:00"
        "2026-11-28" "10000-01-01T00:00:00Z" "capacityBps" "capacity_bps" "a,b" "ADMIN_STATE_UP" "admin_state_up"
        [] [null] [1] [1.0] ["1"] ["RESOURCE_KIND_LINK"] [[]] [{}] {} {"x":"y"} {"x":1} {"x":null} {"x":[]} {"name":"x"}
    "#;

    #[test]
    fn the_check_takes_what_the_readers_take() {
        for (message, field) in FIELDS {
            let kind = weft_proto::json::descriptor(&format!("weft.v1.{message}")).unwrap();
            for value in VALUES.split_whitespace().chain(["\" 1\"", "\"1 \""]) {
                let body = format!("{{\"{field}\": {value}}}");
                let mut faults = InvalidFabric::default();
                let checked = check(&kind, body.as_bytes(), "", &mut faults);
                let passes = checked.is_ok() && faults.is_empty();
                let streamed = super::super::request::message(kind.clone(), body.as_bytes());
                let tree = serde_json::from_str(&body);
                let tree = tree.and_then(|tree| weft_proto::json::read(kind.clone(), tree));
                let read = (streamed.is_ok(), tree.is_ok());
                assert_eq!((passes, passes), read, "{message} {body} {faults:?}");
                assert_eq!(streamed.ok(), tree.ok(), "{message} {body}");
            }
        }
    }

    /// Conformance of ProtoJSON: "Exponent notation is accepted in both quoted and unquoted forms."
    #[test]
    fn an_integer_has_the_same_value_in_each_form() {
        let kind = weft_proto::json::descriptor("weft.v1.Link").unwrap();
        for (form, expected) in [
            ("400000000000", 400_000_000_000),
            ("4e11", 400_000_000_000),
            ("\"400000000000\"", 400_000_000_000),
            ("\"4e11\"", 400_000_000_000),
            ("\"4.0E+11\"", 400_000_000_000),
            ("\"400000000000.0\"", 400_000_000_000),
            ("\"18446744073709551615.0\"", u64::MAX),
        ] {
            let body = format!("{{\"capacityBps\": {form}, \"labels\": {{\"version\": \"1.0\"}}}}");
            assert_eq!(faults("weft.v1.Link", &body), Vec::<String>::new());
            let read = super::super::request::message(kind.clone(), body.as_bytes());
            let link: weft_proto::v1::Link = read.unwrap().transcode_to().unwrap();
            assert_eq!(link.capacity_bps, expected, "{form}");
            assert_eq!(link.labels["version"], "1.0", "a text stays as it is");
        }
    }

    #[test]
    fn what_passes_is_read() {
        for (kind, body) in [
            (
                "weft.v1.WatchRequest",
                r#"{"progressInterval": "1.5s", "kinds": [1, "RESOURCE_KIND_LINK"], "routes": {}}"#,
            ),
            (
                "weft.v1.UpdateLinkRequest",
                r#"{"update_mask": "capacityBps", "resource": null}"#,
            ),
            ("weft.v1.ListLinksRequest", r#"{"page_size": -1}"#),
        ] {
            assert_eq!(faults(kind, body), Vec::<String>::new(), "{kind}");
            let descriptor = weft_proto::json::descriptor(kind).unwrap();
            let value = serde_json::from_str(body).unwrap();
            weft_proto::json::read(descriptor, value).unwrap();
        }
        let watch = r#"{"progress_interval": "1", "kinds": "RESOURCE_KIND_LINK"}"#;
        let expected = [
            "progress_interval: \"1\" is not a time in seconds, \"1.5s\"",
            "kinds: a text is not a list",
        ];
        assert_eq!(faults("weft.v1.WatchRequest", watch), expected);
    }
}
