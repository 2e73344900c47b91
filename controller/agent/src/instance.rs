//! The network instances of policy forwarding entries: a VNI, and whose packets of it. gRIBI's entries name no source, so that the
//! network instance does, as where a switch selects one by source address.

use std::fmt;
use std::net::IpAddr;

use arrayvec::ArrayString;

/// The name of an interface: Linux takes 15 octets.
pub type InterfaceName = ArrayString<15>;

/// A network instance that policy forwarding entries are in.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// The VNI.
    pub vni: u32,
    /// Where its packets come from.
    pub source: Source,
}

/// Where packets inside a VXLAN come from.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// From anywhere: `vni-100`.
    Any,
    /// From an address: `vni-100-source-192.0.2.1`.
    Address(IpAddr),
    /// From a port of the bridge, whatever their address: `vni-100-port-swp1`.
    Port(InterfaceName),
}

impl Instance {
    /// All packets of a VNI.
    #[must_use]
    pub fn of(vni: u32) -> Self {
        let source = Source::Any;
        Self { vni, source }
    }

    /// The network instance of a name; None: there is none. Each has one name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(VNI)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let (vni, source) = rest.split_at(digits.unwrap_or(rest.len()));
        let vni = vni.parse().ok().filter(|vni| *vni <= VNI_MAX)?;
        let source = if source.is_empty() {
            Source::Any
        } else if let Some(address) = source.strip_prefix(SOURCE) {
            Source::Address(address.parse().ok()?)
        } else {
            Source::Port(interface(source.strip_prefix(PORT)?)?)
        };
        let instance = Self { vni, source };
        (instance.to_string() == name).then_some(instance)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vni = self.vni;
        match self.source {
            Source::Any => write!(f, "{VNI}{vni}"),
            Source::Address(address) => write!(f, "{VNI}{vni}{SOURCE}{address}"),
            Source::Port(port) => write!(f, "{VNI}{vni}{PORT}{port}"),
        }
    }
}

/// A name that Linux takes for an interface, and nftables reads as it is.
fn interface(name: &str) -> Option<InterfaceName> {
    let odd = |c: char| !c.is_ascii_graphic() || matches!(c, '"' | '\\' | '*' | '/');
    if name.is_empty() || name.contains(odd) {
        return None;
    }
    InterfaceName::from(name).ok()
}

/// Before the number of the VNI.
const VNI: &str = "vni-";
/// Before the address that packets come from.
const SOURCE: &str = "-source-";
/// Before the port of the bridge that packets come from.
const PORT: &str = "-port-";
/// RFC 7348, section 5: 24 bits.
const VNI_MAX: u32 = 0x00ff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_instance_has_one_name() {
        let port = |name: &str| Source::Port(InterfaceName::from(name).expect("short"));
        for (name, vni, source) in [
            ("vni-0", 0, Source::Any),
            ("vni-16777215", VNI_MAX, Source::Any),
            (
                "vni-100-source-192.0.2.1",
                100,
                Source::Address([192, 0, 2, 1].into()),
            ),
            (
                "vni-100-source-2001:db8::1",
                100,
                Source::Address("2001:db8::1".parse().expect("an address")),
            ),
            ("vni-100-port-swp1", 100, port("swp1")),
            ("vni-100-port-vni-1-port-x", 100, port("vni-1-port-x")),
            ("vni-100-port-eth0.100", 100, port("eth0.100")),
        ] {
            let expected = Instance { vni, source };
            assert_eq!(Instance::named(name), Some(expected), "{name}");
            assert_eq!(expected.to_string(), name);
        }
    }

    #[test]
    fn other_names_are_of_no_network_instance() {
        for name in [
            "",
            "vni-",
            "vni-x",
            "vni-+1",
            "vni-01",
            "vni-16777216",
            "vni-4294967396",
            "vni-100-",
            "vni-100-source-",
            "vni-100-source-192.0.2.01",
            "vni-100-source-192.0.2.0/24",
            "vni-100-source-2001:DB8::1",
            "vni-100-port-",
            "vni-100-port-0123456789abcdef",
            "vni-100-port-a\"b",
            "vni-100-port-a b",
            "vni-100-port-swp*",
            "VNI-100",
            "DEFAULT",
        ] {
            assert_eq!(Instance::named(name), None, "{name}");
        }
    }
}
