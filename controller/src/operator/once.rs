//! What one replica does for a client, once for each request_id. Changes of what is agreed remember theirs in the store.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tonic::Status;

use super::refusal;
use crate::fabric::fact::InvalidFabric;
use crate::ledger::RequestId;

/// Requests that this replica has done, or is doing.
#[derive(Debug)]
pub(super) struct Once<T> {
    known: Mutex<VecDeque<(RequestId, T)>>,
}

/// Whether a request is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody asked for it before.
    First,
    /// It is done, or being done.
    Again,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
        }
    }
}

impl<T: PartialEq> Once<T> {
    /// Notes a request. Without an id each is the first.
    ///
    /// # Errors
    /// The id came with another content before.
    pub(super) fn begin(&self, id: Option<RequestId>, content: T) -> Result<Turn, Status> {
        let Some(id) = id else {
            return Ok(Turn::First);
        };
        let mut known = self.lock();
        if let Some((_, before)) = known.iter().find(|(it, _)| *it == id) {
            return match *before == content {
                true => Ok(Turn::Again),
                false => Err(refusal::request_id_reused()),
            };
        }
        if known.len() >= KNOWN_MAX {
            known.pop_front();
        }
        known.push_back((id, content));
        Ok(Turn::First)
    }

    /// Nothing was done of it.
    pub(super) fn undo(&self, id: Option<RequestId>) {
        self.lock().retain(|(it, _)| Some(*it) != id);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(RequestId, T)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hash of what a request asks for, without its id. The same at every replica and in every release.
pub(super) fn content(method: &str, request: &impl prost::Message) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(method.as_bytes());
    hasher.write(&request.encode_to_vec());
    hasher.finish()
}

/// What a client calls its request; None if it does not, or by no UUID.
pub(super) fn id(text: &str, faults: &mut InvalidFabric) -> Option<RequestId> {
    let id = parsed(text);
    if id.is_none() && !text.is_empty() {
        faults.fault("request_id", format_args!("{text:?} is not a UUID"));
    }
    id
}

/// Reads a UUID. RFC 9562 §4.
fn parsed(text: &str) -> Option<RequestId> {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    if lengths != [8, 4, 4, 4, 12] || !text.is_ascii() {
        return None;
    }
    let digits = groups.concat();
    let mut octets = [0; 16];
    for (octet, at) in octets.iter_mut().zip((0..).step_by(2)) {
        let pair = digits.get(at..at + 2).filter(|it| !it.starts_with('+'));
        *octet = u8::from_str_radix(pair?, 16).ok()?;
    }
    Some(RequestId(octets))
}

/// More than anybody asks for while a call is retried.
const KNOWN_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::super::lone::reason;
    use super::*;

    #[test]
    fn a_request_id_is_a_uuid() {
        let read = parsed("f81d4fae-7dec-11d0-a765-00A0c91e6bf6").unwrap();
        assert_eq!(read.0[..4], [0xf8, 0x1d, 0x4f, 0xae]);
        assert_eq!(read.0[15], 0xf6);
        for bad in [
            "f81d4fae7dec11d0a76500a0c91e6bf6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
            "f81d4fae-7dec-11d0-a765-00a0c91e6b+6",
            "f81d4fae-7dec-11d0-a765-00a0c91e6bé",
            "x",
        ] {
            let mut faults = InvalidFabric::default();
            assert_eq!(id(bad, &mut faults), None, "{bad}");
            assert_eq!(faults.faults[0].field, "request_id");
        }
    }

    #[test]
    fn what_has_an_id_is_done_once() {
        let once = Once::default();
        let id = |last: usize| parsed(&format!("f81d4fae-7dec-11d0-a765-{last:012x}"));
        assert_eq!(once.begin(None, 1).unwrap(), Turn::First);
        assert_eq!(once.begin(None, 1).unwrap(), Turn::First);
        assert_eq!(once.begin(id(0), 1).unwrap(), Turn::First);
        assert_eq!(once.begin(id(0), 1).unwrap(), Turn::Again);
        let reused = once.begin(id(0), 2).unwrap_err();
        assert_eq!(reason(&reused).1, "REQUEST_ID_REUSED");
        once.undo(id(0));
        assert_eq!(once.begin(id(0), 2).unwrap(), Turn::First);
        for last in 1..=KNOWN_MAX {
            assert_eq!(once.begin(id(last), 1).unwrap(), Turn::First);
        }
        assert_eq!(once.lock().len(), KNOWN_MAX);
    }
}
