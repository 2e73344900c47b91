//! Messages as JSON, from their descriptors: fields by the names of the `.proto` files, numbers as numbers, enums by the names of
//! their values, times as RFC 3339. A field that is absent is not there; one without presence always is.

mod number;

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor};
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use number::whole;

/// The descriptors of every message and service.
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let pool = DescriptorPool::decode(crate::FILE_DESCRIPTOR_SET);
        pool.expect("the build wrote the descriptors that it compiled")
    });
    &POOL
}

/// The descriptor of a message by its full name, `weft.v1.Link`.
pub fn descriptor(name: &str) -> Option<MessageDescriptor> {
    pool().get_message_by_name(name)
}

/// A message as JSON; `name` is its full name, `weft.v1.Link`. None: there is no message of this name with these fields.
pub fn value<M: prost::Message>(name: &str, message: &M) -> Option<Value> {
    let octets = message.encode_to_vec();
    let message = DynamicMessage::decode(descriptor(name)?, octets.as_slice());
    Some(written(&message.ok()?))
}

/// Message that is written without the fields that have no value, in the order of their numbers.
pub struct Brief(DynamicMessage);

impl Serialize for Brief {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = prost_reflect::SerializeOptions::new()
            .use_proto_field_name(true)
            .stringify_64_bit_integers(false);
        self.0.serialize_with_options(serializer, &options)
    }
}

/// Returns a message for a file that people read; `name` is its full name, `weft.v1.Link`. None: there is no message of this name
/// with these fields.
pub fn brief<M: prost::Message>(name: &str, message: &M) -> Option<Brief> {
    let octets = message.encode_to_vec();
    let message = DynamicMessage::decode(descriptor(name)?, octets.as_slice());
    Some(Brief(message.ok()?))
}

/// A message whose type is known at run time only, as JSON.
pub fn written(message: &DynamicMessage) -> Value {
    let options = prost_reflect::SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    let value = message.serialize_with_options(serde_json::value::Serializer, &options);
    value.unwrap_or_default()
}

/// Reads a message from JSON.
///
/// # Errors
/// What is no message of this kind, with the name of the field at fault: unknown fields are refused.
pub fn read(
    kind: MessageDescriptor,
    mut value: Value,
) -> Result<DynamicMessage, serde_json::Error> {
    number::write_plainly(&kind, &mut value);
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(kind, value, &options)
}
