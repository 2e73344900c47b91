//! MRT records: a table at one moment ([`TableDump`]), or messages as they came ([`UpdateLog`]), written
//! to anything that takes octets. RFC 6396, with add-path (RFC 8050).
//!
//! ```text
//! +-- 4 --+-- 2 --+-- 2 --+-- 4 --+-- length --+
//! | secs  | type  |subtype|length |  message   |     RFC 6396 §2
//! +-------+-------+-------+-------+------------+
//! ```
//! It refuses to know files and names of files.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod table_dump;
mod update_log;

use std::fmt;
use std::io::{self, Write};
use std::net::IpAddr;

use weft_bgp::wire::Writer;

use crate::bmp::NotFramed;

pub use table_dump::{Entry, Peer, TableDump};
pub use update_log::{Direction, FsmState, Session, UpdateLog};

/// Why a record was not written.
#[derive(Debug)]
pub enum Error {
    /// The writer failed; what stands behind the last whole record is in doubt.
    Io(io::Error),
    /// The octets are not one BGP message; nothing was written.
    NotFramed(NotFramed),
    /// A path's attributes have more than 65535 octets, or a name has; nothing was written.
    TooLong,
    /// More than 65535 peers, or paths of one destination; nothing was written.
    TooMany,
    /// A path of a peer that the table of peers does not have; nothing was written.
    UnknownPeer(u16),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotFramed(error) => error.fmt(f),
            Self::TooLong => f.write_str("a field longer than 65535 octets"),
            Self::TooMany => f.write_str("more than 65535 peers or paths in a record"),
            Self::UnknownPeer(index) => write!(f, "no peer with index {index}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::NotFramed(error) => Some(error),
            Self::TooLong | Self::TooMany | Self::UnknownPeer(_) => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<NotFramed> for Error {
    fn from(error: NotFramed) -> Self {
        Self::NotFramed(error)
    }
}

/// Writes one record in at most two calls.
fn record(
    out: &mut impl Write,
    secs: u32,
    (kind, subtype): (u16, u16),
    message: &[u8],
) -> Result<(), Error> {
    let length = u32::try_from(message.len()).map_err(|_| Error::TooLong)?;
    let mut header = Writer::with_capacity(HEADER_LEN);
    header.u32(secs);
    header.u16(kind);
    header.u16(subtype);
    header.u32(length);
    out.write_all(header.as_slice())?;
    out.write_all(message)?;
    Ok(())
}

fn address(out: &mut Writer, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.slice(&address.octets()),
        IpAddr::V6(address) => out.slice(&address.octets()),
    }
}

const HEADER_LEN: usize = 12;
