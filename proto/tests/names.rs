//! Names in the contract that a generator of some language would have to change. Knows descriptors and keywords, no message.

use std::collections::BTreeSet;

use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};

/// The package that programs build upon.
const API: &str = "weft.v1";

/// Python's, the soft ones too: a field is an attribute and a keyword argument.
const PYTHON: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "case", "class",
    "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if",
    "import", "in", "is", "lambda", "match", "nonlocal", "not", "or", "pass", "raise", "return",
    "try", "type", "while", "with", "yield",
];

/// Go's.
const GO: &[&str] = &[
    "break",
    "case",
    "chan",
    "const",
    "continue",
    "default",
    "defer",
    "else",
    "fallthrough",
    "for",
    "func",
    "go",
    "goto",
    "if",
    "import",
    "interface",
    "map",
    "package",
    "range",
    "return",
    "select",
    "struct",
    "switch",
    "type",
    "var",
];

/// Of C++, Java, JavaScript or Rust, beside those above.
const OTHERS: &[&str] = &[
    "abstract",
    "auto",
    "bool",
    "boolean",
    "byte",
    "catch",
    "char",
    "crate",
    "delete",
    "do",
    "double",
    "dyn",
    "enum",
    "explicit",
    "export",
    "extends",
    "extern",
    "false",
    "final",
    "float",
    "fn",
    "friend",
    "function",
    "impl",
    "implements",
    "inline",
    "instanceof",
    "int",
    "let",
    "long",
    "loop",
    "mod",
    "move",
    "mut",
    "mutable",
    "namespace",
    "native",
    "new",
    "null",
    "operator",
    "private",
    "protected",
    "public",
    "ref",
    "register",
    "self",
    "short",
    "signed",
    "sizeof",
    "static",
    "super",
    "synchronized",
    "template",
    "this",
    "throw",
    "throws",
    "trait",
    "transient",
    "true",
    "typedef",
    "typename",
    "typeof",
    "union",
    "unsafe",
    "unsigned",
    "use",
    "using",
    "virtual",
    "void",
    "volatile",
    "where",
];

fn is_keyword(name: &str) -> bool {
    [PYTHON, GO, OTHERS].iter().any(|all| all.contains(&name))
}

#[test]
fn no_field_of_the_contract_is_a_keyword() {
    let files = FileDescriptorSet::decode(weft_proto::FILE_DESCRIPTOR_SET).unwrap();
    let of_api = files.file.iter().filter(|file| file.package() == API);
    let mut wanted: Vec<String> = of_api.flat_map(messages).map(|(name, _)| name).collect();
    assert!(wanted.len() > 100, "only {} messages", wanted.len());
    let all: Vec<_> = files.file.iter().flat_map(messages).collect();
    let (mut seen, mut faults) = (BTreeSet::new(), Vec::new());
    // Messages of other packages that the API embeds are a part of it.
    while let Some(name) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let found = all.iter().find(|(known, _)| *known == name);
        let (_, message) = found.unwrap_or_else(|| panic!("{name} is nowhere"));
        let fields = message.field.iter().map(|field| field.name());
        let oneofs = message.oneof_decl.iter().map(|oneof| oneof.name());
        let keywords = fields.chain(oneofs).filter(|name| is_keyword(name));
        faults.extend(keywords.map(|field| format!("{name}.{field}")));
        let embedded = message.field.iter();
        let embedded = embedded.filter(|field| field.r#type() == Type::Message);
        wanted.extend(embedded.map(|field| field.type_name().trim_start_matches('.').to_owned()));
    }
    assert!(faults.is_empty(), "keywords: {}", faults.join(", "));
    assert!(API.split('.').all(|part| !is_keyword(part)));
}

/// Every message of a file with its full name.
fn messages(file: &FileDescriptorProto) -> Vec<(String, &DescriptorProto)> {
    let mut found = Vec::new();
    let mut left: Vec<_> = file
        .message_type
        .iter()
        .map(|message| (file.package().to_owned(), message))
        .collect();
    while let Some((parent, message)) = left.pop() {
        let name = format!("{parent}.{}", message.name());
        left.extend(message.nested_type.iter().map(|it| (name.clone(), it)));
        found.push((name, message));
    }
    found
}
