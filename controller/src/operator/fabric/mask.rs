//! Changes those fields of a message that a mask names. Knows the descriptors, and no message.

use std::sync::LazyLock;

use prost_reflect::{
    DescriptorPool, DynamicMessage, Kind, MessageDescriptor, ReflectMessage, Value,
};

use crate::fabric::fact::{InvalidFabric, Resource};

static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(weft_proto::FILE_DESCRIPTOR_SET)
        .expect("the descriptors that the build wrote are valid")
});

/// Names every path of a mask that there is not.
pub(super) fn check<R: Resource>(
    mask: Option<&prost_types::FieldMask>,
    faults: &mut InvalidFabric,
) {
    let message = message::<R>();
    let unknown = |path: &&String| *path != "*" && !has(&message, path);
    for path in paths(mask).iter().filter(unknown) {
        faults.fault("update_mask", format_args!("there is no field {path:?}"));
    }
}

/// Whether a message has a field.
fn has(message: &MessageDescriptor, path: &str) -> bool {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    let Some(field) = message.get_field_by_name(first) else {
        return false;
    };
    match (rest, field.kind()) {
        (None, _) => true,
        (Some(rest), Kind::Message(inner)) => !field.is_map() && has(&inner, rest),
        (Some(_), _) => false,
    }
}

fn paths(mask: Option<&prost_types::FieldMask>) -> &[String] {
    mask.map_or(&[], |mask| mask.paths.as_slice())
}

fn message<R: Resource>() -> MessageDescriptor {
    DESCRIPTORS
        .get_message_by_name(R::MESSAGE)
        .expect("the descriptors have every message")
}

/// `old` with the fields of `new` that the mask names: all of them if it is "*", those that `new` has if it names none
/// (AIP-134).
pub(super) fn merged<R: Resource>(old: &R, new: &R, mask: Option<&prost_types::FieldMask>) -> R {
    let paths = paths(mask);
    if paths.iter().any(|path| path == "*") {
        return new.clone();
    }
    let message = message::<R>();
    let dynamic = |of: &R| {
        DynamicMessage::decode(message.clone(), &of.encode_to_vec()[..])
            .expect("a message is what its descriptor says")
    };
    let (mut merged, new) = (dynamic(old), dynamic(new));
    if paths.is_empty() {
        for (field, value) in new.fields() {
            merged.set_field(&field, value.clone());
        }
    }
    for path in paths {
        let names: Vec<&str> = path.split('.').collect();
        take(&mut merged, &new, &names);
    }
    let merged = merged.transcode_to();
    merged.expect("a message is what its descriptor says")
}

/// Takes one field, if there is such.
fn take(into: &mut DynamicMessage, from: &DynamicMessage, names: &[&str]) {
    let Some((first, rest)) = names.split_first() else {
        return;
    };
    let Some(field) = into.descriptor().get_field_by_name(first) else {
        return;
    };
    if rest.is_empty() {
        match from.has_field(&field) {
            true => into.set_field(&field, from.get_field(&field).into_owned()),
            false => into.clear_field(&field),
        }
        return;
    }
    let from = from.get_field(&field);
    if let (Value::Message(into), Value::Message(from)) =
        (into.get_field_mut(&field), from.as_ref())
    {
        take(into, from, rest);
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::v1;

    use super::*;

    fn link(address: &str, capacity_bps: u64) -> v1::Link {
        let end = |interface: &str| v1::LinkEnd {
            interface_name: interface.to_owned(),
            address: address.to_owned(),
            ..v1::LinkEnd::default()
        };
        v1::Link {
            a: Some(end("eth1")),
            b: Some(end("eth2")),
            capacity_bps,
            ..v1::Link::default()
        }
    }

    fn mask(paths: &[&str]) -> prost_types::FieldMask {
        prost_types::FieldMask {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }
    }

    fn masked(paths: &[&str]) -> v1::Link {
        let (old, new) = (link("192.0.2.1", 1), link("192.0.2.2", 2));
        merged(&old, &new, Some(&mask(paths)))
    }

    #[test]
    fn only_what_the_mask_names_changes() {
        assert_eq!(masked(&["capacity_bps"]), link("192.0.2.1", 2));
        let mut one_end = link("192.0.2.1", 1);
        one_end.b.as_mut().unwrap().address = "192.0.2.2".to_owned();
        assert_eq!(masked(&["b.address"]), one_end);
        assert_eq!(masked(&["*"]), link("192.0.2.2", 2));
    }

    #[test]
    fn without_a_mask_what_is_absent_stays() {
        let (old, mut new) = (link("192.0.2.1", 1), link("192.0.2.2", 0));
        new.b = None;
        let mut expected = old.clone();
        expected.a = new.a.clone();
        assert_eq!(merged(&old, &new, None), expected);
        let empty = prost_types::FieldMask::default();
        assert_eq!(merged(&old, &new, Some(&empty)), expected);
    }

    #[test]
    fn a_field_that_is_absent_is_cleared() {
        let mask = prost_types::FieldMask {
            paths: vec!["a".to_owned()],
        };
        let new = v1::Link::default();
        let merged = merged(&link("192.0.2.1", 1), &new, Some(&mask));
        assert_eq!((merged.a, merged.capacity_bps), (None, 1));
    }

    #[test]
    fn every_path_that_is_none_is_refused_by_name() {
        let mut faults = InvalidFabric::default();
        check::<v1::Link>(Some(&mask(&["a", "a.address", "*"])), &mut faults);
        assert!(faults.is_empty());
        let bad = ["", "speed", "a.speed", "a.", "capacity_bps.x", "labels.x"];
        check::<v1::Link>(Some(&mask(&bad)), &mut faults);
        let said: Vec<_> = faults.faults.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            bad.map(|path| format!("update_mask: there is no field {path:?}"))
        );
    }
}
