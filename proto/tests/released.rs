//! The contract as it was released last, which `cargo verify --only contract` compares with the present one: a message that the image
//! lacks is not compared, and nobody notices that it breaks.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// The package that programs build upon.
const API: &str = "weft.v1";

/// The image. `buf build proto --exclude-source-info -o proto/released.binpb` makes the next.
const RELEASED: &[u8] = include_bytes!("../released.binpb");

/// Messages, enums and calls that may still change, each with the day from which on it may not: then the image is renewed.
const UNRELEASED: &[(&str, &str)] = &[];

#[test]
fn every_message_and_call_is_compared_with_the_release() {
    let released = names(RELEASED);
    let present = names(weft_proto::FILE_DESCRIPTOR_SET);
    assert!(present.len() > 200, "only {} names", present.len());
    let open: BTreeSet<&str> = UNRELEASED.iter().map(|(name, _)| *name).collect();
    let lacking = present.difference(&released);
    let lacking: Vec<_> = lacking.filter(|it| !open.contains(it.as_str())).collect();
    assert!(
        lacking.is_empty(),
        "not in proto/released.binpb: {lacking:?}; renew it, or list them with a date"
    );
    let listed: Vec<_> = open.iter().filter(|it| released.contains(**it)).collect();
    assert!(listed.is_empty(), "released already: {listed:?}");
    let is_date = |date: &str| date.len() == 10 && date.split('-').count() == 3;
    assert!(UNRELEASED.iter().all(|(_, date)| is_date(date)));
}

/// Returns the names of the messages, enums and calls of the package.
fn names(image: &[u8]) -> BTreeSet<String> {
    let files = FileDescriptorSet::decode(image).expect("an image is a set of descriptors");
    let mut names = BTreeSet::new();
    for file in files.file.iter().filter(|file| file.package() == API) {
        names.extend(file.enum_type.iter().map(|it| it.name().to_owned()));
        for service in &file.service {
            let methods = service.method.iter();
            names.extend(methods.map(|it| format!("{}.{}", service.name(), it.name())));
        }
        let mut left: Vec<(String, &DescriptorProto)> = Vec::new();
        left.extend(
            file.message_type
                .iter()
                .map(|it| (it.name().to_owned(), it)),
        );
        while let Some((name, message)) = left.pop() {
            let enums = message.enum_type.iter();
            names.extend(enums.map(|it| format!("{name}.{}", it.name())));
            let nested = message.nested_type.iter();
            left.extend(nested.map(|it| (format!("{name}.{}", it.name()), it)));
            names.insert(name);
        }
    }
    names
}
