//! Who votes. Static: the voters of the configuration, fixed when a data directory is founded.
//! Knows no disk and no message.

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::ConfState;

use crate::{
    config::{Config, MAX_VOTERS},
    error::OpenError,
    octets::{Reader, put_len},
};

/// Checks that the configuration names a group that this replica can be a voter of.
pub(crate) fn check(config: &Config) -> Result<(), OpenError> {
    let voters = sorted(&config.voters);
    let fault = if config.id == 0 || voters.first() == Some(&0) {
        "replica id 0 is reserved"
    } else if voters.len() != config.voters.len() {
        "a voter is named twice"
    } else if voters.len() > MAX_VOTERS {
        "more than seven voters"
    } else if !voters.contains(&config.id) {
        "this replica is not among the voters"
    } else {
        return Ok(());
    };
    Err(OpenError::Config(fault.to_owned()))
}

/// The voters as Raft records them.
pub(crate) fn conf_state(voters: &[u64]) -> ConfState {
    ConfState {
        voters: sorted(voters),
        ..ConfState::default()
    }
}

/// Whether `conf` is exactly these voters and nothing in transition.
pub(crate) fn is_static(conf: &ConfState, voters: &[u64]) -> bool {
    sorted(&conf.voters) == sorted(voters)
        && conf.learners.is_empty()
        && conf.voters_outgoing.is_empty()
        && conf.learners_next.is_empty()
        && !conf.auto_leave
}

/// The record of the voters: a count of 32 bits and that many ids of 64 bits.
pub(crate) fn encode(conf: &ConfState) -> Bytes {
    let mut out = BytesMut::new();
    put_len(&mut out, conf.voters.len());
    for voter in &conf.voters {
        out.put_u64(*voter);
    }
    out.freeze()
}

/// The voters in a record.
pub(crate) fn decode(octets: Bytes) -> Option<ConfState> {
    let mut reader = Reader::new(octets);
    let count = reader.count(8)?;
    let voters: Vec<u64> = (0..count).map(|_| reader.u64()).collect::<Option<_>>()?;
    (reader.is_empty() && !voters.is_empty()).then(|| conf_state(&voters))
}

fn sorted(voters: &[u64]) -> Vec<u64> {
    let mut voters = voters.to_vec();
    voters.sort_unstable();
    voters.dedup();
    voters
}
