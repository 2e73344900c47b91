//! Answers of a switch whose entries are decoded one after another, so that octets bound memory. It refuses to know calls and
//! entries.

use bytes::Bytes;

/// A message whose first field repeats, as in gRIBI's `GetResponse` and in `ListPinsResponse` of weft-agent: each entry is still
/// octets of the message. An empty entry has 2 octets there and some 600 once it is decoded; here it has 32.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Undecoded {
    /// The entries, as they came.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(super) entries: Vec<Bytes>,
}
