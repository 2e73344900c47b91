//! Changes those fields of a message that a mask names. Knows the descriptors, and no message.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, ReflectMessage, Value};
use tonic::Status;

use super::refusal;
use crate::fabric::fact::Resource;

static DESCRIPTORS: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(weft_proto::FILE_DESCRIPTOR_SET)
        .expect("the descriptors that the build wrote are valid")
});

/// `old` with the fields of `new` that the mask names: all of them if it is "*", those that `new` has if it names none
/// (AIP-134).
pub(super) fn merged<R: Resource>(
    old: &R,
    new: &R,
    mask: Option<&prost_types::FieldMask>,
) -> Result<R, Status> {
    let paths = mask.map_or(&[][..], |mask| mask.paths.as_slice());
    if paths.iter().any(|path| path == "*") {
        return Ok(new.clone());
    }
    let message = DESCRIPTORS
        .get_message_by_name(R::MESSAGE)
        .expect("the descriptors have every message");
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
        take(&mut merged, &new, &names).ok_or_else(|| {
            refusal::field("update_mask", format_args!("there is no field {path:?}"))
        })?;
    }
    let merged = merged.transcode_to();
    Ok(merged.expect("a message is what its descriptor says"))
}

/// Takes one field; None if there is no such.
fn take(into: &mut DynamicMessage, from: &DynamicMessage, names: &[&str]) -> Option<()> {
    let (first, rest) = names.split_first()?;
    let field: FieldDescriptor = into.descriptor().get_field_by_name(first)?;
    if rest.is_empty() {
        match from.has_field(&field) {
            true => into.set_field(&field, from.get_field(&field).into_owned()),
            false => into.clear_field(&field),
        }
        return Some(());
    }
    let from = from.get_field(&field);
    match (into.get_field_mut(&field), from.as_ref()) {
        (Value::Message(into), Value::Message(from)) => take(into, from, rest),
        _ => None,
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

    fn masked(paths: &[&str]) -> Result<v1::Link, String> {
        let mask = prost_types::FieldMask {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        };
        let (old, new) = (link("192.0.2.1", 1), link("192.0.2.2", 2));
        merged(&old, &new, Some(&mask)).map_err(|status| status.message().to_owned())
    }

    #[test]
    fn only_what_the_mask_names_changes() {
        assert_eq!(masked(&["capacity_bps"]), Ok(link("192.0.2.1", 2)));
        let mut one_end = link("192.0.2.1", 1);
        one_end.b.as_mut().unwrap().address = "192.0.2.2".to_owned();
        assert_eq!(masked(&["b.address"]), Ok(one_end));
        assert_eq!(masked(&["*"]), Ok(link("192.0.2.2", 2)));
    }

    #[test]
    fn without_a_mask_what_is_absent_stays() {
        let (old, mut new) = (link("192.0.2.1", 1), link("192.0.2.2", 0));
        new.b = None;
        let mut expected = old.clone();
        expected.a = new.a.clone();
        assert_eq!(merged(&old, &new, None).unwrap(), expected);
        let empty = prost_types::FieldMask::default();
        assert_eq!(merged(&old, &new, Some(&empty)).unwrap(), expected);
    }

    #[test]
    fn a_field_that_is_absent_is_cleared() {
        let mask = prost_types::FieldMask {
            paths: vec!["a".to_owned()],
        };
        let new = v1::Link::default();
        let merged = merged(&link("192.0.2.1", 1), &new, Some(&mask)).unwrap();
        assert_eq!((merged.a, merged.capacity_bps), (None, 1));
    }

    #[test]
    fn a_path_that_is_none_is_refused_by_name() {
        for path in ["", "speed", "a.speed", "capacity_bps.x", "labels.x"] {
            let refused = masked(&[path]).unwrap_err();
            assert_eq!(refused, format!("update_mask: there is no field {path:?}"));
        }
    }
}
