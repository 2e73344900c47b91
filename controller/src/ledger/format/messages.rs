//! Stored messages by what is on the wire: numbers and kinds of fields, numbers of enums. Names
//! count for nothing.

use std::fmt::Write as _;

use prost_reflect::{Cardinality, DescriptorPool, EnumDescriptor, FieldDescriptor};
use prost_reflect::{Kind as FieldKind, MessageDescriptor};
use weft_proto::v1;

use super::Part;
use crate::fabric::fact::{Kind, Resource};

/// The message of each kind of declared fact.
pub(super) fn parts() -> impl Iterator<Item = Part> {
    Kind::ALL.into_iter().map(|kind| {
        let described = describe(weft_proto::json::pool(), name(kind));
        (format!("message of a {}", kind.noun()), described.into())
    })
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Switch => v1::Switch::MESSAGE,
        Kind::Host => v1::Host::MESSAGE,
        Kind::Link => v1::Link::MESSAGE,
        Kind::HostPort => v1::HostPort::MESSAGE,
        Kind::Job => v1::Job::MESSAGE,
    }
}

fn describe(pool: &DescriptorPool, name: &str) -> String {
    let mut out = String::new();
    write_message(
        &pool.get_message_by_name(name).unwrap(),
        &mut Vec::new(),
        &mut out,
    );
    out
}

/// Writes `{number kind, ...}` in the order of numbers; a message within itself as the depth at
/// which it began.
fn write_message(message: &MessageDescriptor, within: &mut Vec<String>, out: &mut String) {
    if let Some(depth) = within.iter().position(|it| it == message.full_name()) {
        write!(out, "^{depth}").unwrap();
        return;
    }
    within.push(message.full_name().to_owned());
    let mut fields: Vec<FieldDescriptor> = message.fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    out.push('{');
    for field in fields {
        write!(out, "{} {} ", field.number(), repetition(&field)).unwrap();
        match field.kind() {
            FieldKind::Message(inner) => write_message(&inner, within, out),
            FieldKind::Enum(inner) => write_enum(&inner, out),
            scalar => out.push_str(scalar_name(&scalar)),
        }
        out.push(',');
    }
    out.push('}');
    within.pop();
}

fn write_enum(of: &EnumDescriptor, out: &mut String) {
    let mut numbers: Vec<i32> = of.values().map(|value| value.number()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    write!(out, "enum {numbers:?}").unwrap();
}

fn repetition(field: &FieldDescriptor) -> &'static str {
    match field.cardinality() {
        Cardinality::Repeated if field.is_map() => "map",
        Cardinality::Repeated if field.is_packed() => "packed",
        Cardinality::Repeated => "repeated",
        Cardinality::Required => "required",
        Cardinality::Optional if field.supports_presence() => "optional",
        Cardinality::Optional => "single",
    }
}

fn scalar_name(kind: &FieldKind) -> &'static str {
    match kind {
        FieldKind::Double => "double",
        FieldKind::Float => "float",
        FieldKind::Int32 => "int32",
        FieldKind::Int64 => "int64",
        FieldKind::Uint32 => "uint32",
        FieldKind::Uint64 => "uint64",
        FieldKind::Sint32 => "sint32",
        FieldKind::Sint64 => "sint64",
        FieldKind::Fixed32 => "fixed32",
        FieldKind::Fixed64 => "fixed64",
        FieldKind::Sfixed32 => "sfixed32",
        FieldKind::Sfixed64 => "sfixed64",
        FieldKind::Bool => "bool",
        FieldKind::String => "string",
        FieldKind::Bytes => "bytes",
        FieldKind::Message(_) => "message",
        FieldKind::Enum(_) => "enum",
    }
}

/// Changes planted into the descriptors of the contract.
mod planted {
    use prost::Message as _;
    use prost_types::field_descriptor_proto::Type;
    use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};

    use super::*;

    fn contract() -> FileDescriptorSet {
        FileDescriptorSet::decode(weft_proto::FILE_DESCRIPTOR_SET).unwrap()
    }

    /// All stored messages of a contract.
    fn described(contract: &FileDescriptorSet) -> Vec<String> {
        let pool = DescriptorPool::from_file_descriptor_set(contract.clone()).unwrap();
        Kind::ALL
            .iter()
            .map(|kind| describe(&pool, name(*kind)))
            .collect()
    }

    /// A top-level message of package weft.v1.
    fn message<'a>(contract: &'a mut FileDescriptorSet, name: &str) -> &'a mut DescriptorProto {
        let files = contract.file.iter_mut();
        let files = files.filter(|file| file.package() == "weft.v1");
        let mut messages = files.flat_map(|file| &mut file.message_type);
        messages.find(|message| message.name() == name).unwrap()
    }

    /// Stored messages with those that they are made of.
    const STORED: [&str; 12] = [
        "Switch",
        "SwitchLimits",
        "Host",
        "Link",
        "LinkEnd",
        "HostPort",
        "Job",
        "Nic",
        "LayoutDimension",
        "CollectiveGroup",
        "JobFlow",
        "QueuePair",
    ];

    /// Calls `plant` with every field of every stored message, each in a contract of its own, and
    /// gives what is described then.
    fn each_field(plant: impl Fn(&mut FieldDescriptorProto)) -> Vec<(String, Vec<String>)> {
        let fields = STORED.iter().flat_map(|stored| {
            let count = message(&mut contract(), stored).field.len();
            (0..count).map(move |at| (*stored, at))
        });
        let planted = fields.map(|(stored, at)| {
            let mut contract = contract();
            let field = &mut message(&mut contract, stored).field[at];
            let name = format!("{stored}.{}", field.name());
            plant(field);
            (name, described(&contract))
        });
        planted.collect()
    }

    #[test]
    fn a_renamed_field_is_the_same() {
        let before = described(&contract());
        let renamed = each_field(|field| {
            field.name = Some("renamed".to_owned());
            field.json_name = Some("renamed".to_owned());
        });
        assert!(renamed.len() > 50);
        for (name, after) in renamed {
            assert_eq!(after, before, "{name}");
        }
    }

    #[test]
    fn a_renumbered_field_is_another() {
        let before = described(&contract());
        for (name, after) in each_field(|field| field.number = Some(1_999)) {
            assert_ne!(after, before, "{name}");
        }
    }

    #[test]
    fn a_field_of_another_type_is_another() {
        let before = described(&contract());
        let retyped = each_field(|field| {
            let other = if field.r#type() == Type::String {
                Type::Bytes
            } else {
                Type::String
            };
            field.type_name = None;
            field.set_type(other);
            // Only numbers are packed.
            field.options = None;
        });
        for (name, after) in retyped {
            assert_ne!(after, before, "{name}");
        }
    }

    #[test]
    fn a_field_more_or_less_is_another() {
        let before = described(&contract());
        for stored in STORED {
            let mut more = contract();
            let mut field = FieldDescriptorProto {
                name: Some("planted".to_owned()),
                number: Some(1_999),
                ..FieldDescriptorProto::default()
            };
            field.set_type(Type::Bool);
            message(&mut more, stored).field.push(field);
            assert_ne!(described(&more), before, "{stored} with a field more");
            let mut less = contract();
            let removed = &mut message(&mut less, stored).field;
            removed.retain(|field| field.number() != 1);
            assert_ne!(described(&less), before, "{stored} with a field less");
        }
    }

    #[test]
    fn a_renamed_message_is_the_same() {
        let before = described(&contract());
        let mut renamed = contract();
        message(&mut renamed, "LinkEnd").name = Some("Renamed".to_owned());
        for file in &mut renamed.file {
            let fields = file.message_type.iter_mut().flat_map(|it| &mut it.field);
            for field in fields.filter(|field| field.type_name() == ".weft.v1.LinkEnd") {
                field.type_name = Some(".weft.v1.Renamed".to_owned());
            }
        }
        assert_eq!(described(&renamed), before);
    }

    #[test]
    fn an_enum_with_a_number_more_or_another_is_another() {
        let before = described(&contract());
        for plant in [1_999, 0] {
            let mut planted = contract();
            let files = planted.file.iter_mut();
            let mut enums = files.flat_map(|file| &mut file.enum_type);
            let role = enums.find(|it| it.name() == "SwitchRole").unwrap();
            let mut value = role.value[1].clone();
            value.name = Some("SWITCH_ROLE_PLANTED".to_owned());
            if plant == 0 {
                role.value[1].number = Some(1_998);
            } else {
                value.number = Some(plant);
                role.value.push(value);
            }
            assert_ne!(described(&planted), before, "{plant}");
        }
    }
}
