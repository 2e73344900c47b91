//! The numbers of next hops and groups: a replicated fact, and its octets.
//!
//! ```text
//! version (1, = 1)
//! switches (4) {
//!   name length (1), name
//!   next hops (4) { family (1, 4 or 6), address (4 or 16), index (8) }
//!   prefixes (4)  { family (1, 4 or 6), address (4 or 16), prefix length (1), id of the group (8) }
//! }
//! ```
//!
//! It refuses to know how a number is chosen.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use ipnet::IpNet;

use crate::fabric::topology::SwitchName;

/// Which number stands for what, per switch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Allocation {
    switches: BTreeMap<SwitchName, Numbers>,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct Numbers {
    next_hops: BTreeMap<IpAddr, u64>,
    groups: BTreeMap<IpNet, u64>,
}

static NO_NEXT_HOPS: BTreeMap<IpAddr, u64> = BTreeMap::new();
static NO_GROUPS: BTreeMap<IpNet, u64> = BTreeMap::new();

impl Allocation {
    /// The index of a next hop of a switch.
    pub fn next_hop(&self, switch: &SwitchName, address: IpAddr) -> Option<u64> {
        self.next_hops(switch).get(&address).copied()
    }

    /// The id of the group of a prefix at a switch.
    pub fn group(&self, switch: &SwitchName, prefix: &IpNet) -> Option<u64> {
        self.groups(switch).get(prefix).copied()
    }

    pub(super) fn next_hops(&self, switch: &SwitchName) -> &BTreeMap<IpAddr, u64> {
        self.switches
            .get(switch)
            .map_or(&NO_NEXT_HOPS, |numbers| &numbers.next_hops)
    }

    pub(super) fn groups(&self, switch: &SwitchName) -> &BTreeMap<IpNet, u64> {
        self.switches
            .get(switch)
            .map_or(&NO_GROUPS, |numbers| &numbers.groups)
    }

    pub(super) fn insert(
        &mut self,
        switch: SwitchName,
        next_hops: BTreeMap<IpAddr, u64>,
        groups: BTreeMap<IpNet, u64>,
    ) {
        self.switches.insert(switch, Numbers { next_hops, groups });
    }

    /// The octets to replicate. Equal allocations have equal octets.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(VERSION);
        put_count(&mut out, self.switches.len());
        for (switch, numbers) in &self.switches {
            let name = switch.as_str().as_bytes();
            out.put_u8(u8::try_from(name.len()).expect("a switch name has at most 63 octets"));
            out.put_slice(name);
            put_count(&mut out, numbers.next_hops.len());
            for (address, index) in &numbers.next_hops {
                put_address(&mut out, *address);
                out.put_u64(*index);
            }
            put_count(&mut out, numbers.groups.len());
            for (prefix, id) in &numbers.groups {
                put_address(&mut out, prefix.addr());
                out.put_u8(prefix.prefix_len());
                out.put_u64(*id);
            }
        }
        out.freeze()
    }

    /// Reads what [`encode`](Self::encode) wrote; nothing else is accepted.
    pub fn decode(mut octets: &[u8]) -> Result<Self, AllocationError> {
        let from = &mut octets;
        let version = from.try_get_u8()?;
        if version != VERSION {
            return Err(AllocationError::Version(version));
        }
        let mut allocation = Self::default();
        for _ in 0..from.try_get_u32()? {
            let name_len = usize::from(from.try_get_u8()?);
            let name = from
                .split_at_checked(name_len)
                .ok_or(AllocationError::Truncated)?;
            *from = name.1;
            let name = std::str::from_utf8(name.0).map_err(|_| AllocationError::Name)?;
            let mut numbers = Numbers::default();
            for _ in 0..from.try_get_u32()? {
                let address = address(from)?;
                numbers.next_hops.insert(address, number(from)?);
            }
            for _ in 0..from.try_get_u32()? {
                let address = address(from)?;
                let prefix = IpNet::new(address, from.try_get_u8()?);
                let prefix = prefix.map_err(|_| AllocationError::Prefix)?;
                numbers.groups.insert(prefix, number(from)?);
            }
            allocation.switches.insert(name.into(), numbers);
        }
        if from.has_remaining() {
            return Err(AllocationError::Trailing(from.len()));
        }
        Ok(allocation)
    }
}

fn put_count(out: &mut BytesMut, count: usize) {
    out.put_u32(u32::try_from(count).expect("bounded by the size of a fabric"));
}

fn put_address(out: &mut BytesMut, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            out.put_u8(4);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.put_u8(6);
            out.put_slice(&address.octets());
        }
    }
}

fn address(from: &mut &[u8]) -> Result<IpAddr, AllocationError> {
    match from.try_get_u8()? {
        4 => Ok(Ipv4Addr::from(from.try_get_u32()?).into()),
        6 => Ok(Ipv6Addr::from(from.try_get_u128()?).into()),
        family => Err(AllocationError::Family(family)),
    }
}

fn number(from: &mut &[u8]) -> Result<u64, AllocationError> {
    match from.try_get_u64()? {
        0 => Err(AllocationError::Zero),
        number => Ok(number),
    }
}

/// Why octets are not an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationError {
    /// Written by another version.
    Version(u8),
    /// They end too early.
    Truncated,
    /// A name is not UTF-8.
    Name,
    /// Neither IPv4 nor IPv6.
    Family(u8),
    /// A prefix is longer than its address.
    Prefix,
    /// A number is 0.
    Zero,
    /// Octets are left over.
    Trailing(usize),
}

impl From<bytes::TryGetError> for AllocationError {
    fn from(_: bytes::TryGetError) -> Self {
        Self::Truncated
    }
}

impl fmt::Display for AllocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "allocation of the unknown version {version}"),
            Self::Truncated => f.write_str("truncated allocation"),
            Self::Name => f.write_str("switch name that is not UTF-8 in an allocation"),
            Self::Family(family) => write!(f, "unknown address family {family} in an allocation"),
            Self::Prefix => f.write_str("prefix longer than its address in an allocation"),
            Self::Zero => f.write_str("number 0 in an allocation"),
            Self::Trailing(octets) => write!(f, "{octets} octets after an allocation"),
        }
    }
}

impl std::error::Error for AllocationError {}

const VERSION: u8 = 1;
