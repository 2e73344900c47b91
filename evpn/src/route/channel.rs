//! What is listened to: a group, and perhaps the source it has to come from. Three lengths of an address
//! field are possible, and each means something. Knows no route and no listener.

use std::fmt;
use std::net::IpAddr;

use weft_bgp::error::DecodeError;
use weft_bgp::wire::{Reader, Writer};

use super::address;

/// A multicast channel: (S,G), (*,G) or (*,*). RFC 9251 §9.1, RFC 6625 §4.
///
/// ```text
/// +--- 1 ---+-- 0,4,16 --+--- 1 ---+-- 0,4,16 --+
/// |  bits   |   source   |  bits   |   group    |
/// +---------+------------+---------+------------+
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Channel {
    /// Who sends; `None`: anybody.
    pub source: Option<IpAddr>,
    /// To which group; `None`: any.
    pub group: Option<IpAddr>,
}

impl Channel {
    pub(super) fn read(body: &mut Reader<'_>, route_type: u8) -> Result<Self, DecodeError> {
        Ok(Self {
            source: address::read(body, route_type)?,
            group: address::read(body, route_type)?,
        })
    }

    pub(super) fn write(self, out: &mut Writer) {
        address::write(self.source, out);
        address::write(self.group, out);
    }
}

/// `[bits]:[source]:[bits]:[group]`, an address that is not there as `[0]:[*]`.
impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        field(self.source, f)?;
        f.write_str(":")?;
        field(self.group, f)
    }
}

fn field(address: Option<IpAddr>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match address {
        None => f.write_str("[0]:[*]"),
        Some(ip) => write!(f, "[{}]:[{ip}]", address::bits(address)),
    }
}
