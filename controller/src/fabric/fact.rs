//! The facts that are declared: a switch, a host, a link, a host port, a job, each typed, each with the message that it is
//! declared, stored and given back as. It refuses to know other facts: what must hold between them is the topology's.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hasher;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use weft_proto::v1;

pub(in crate::fabric) use fault::below;
pub use fault::{FieldFault, InvalidFabric};
pub use job::Job;
pub(in crate::fabric) use job::{RANKS_MAX, is_square};
pub(crate) use limits::LABELS_MAX;

mod fault;
mod job;
mod limits;
mod read;

/// What a fact declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A switch.
    Switch,
    /// A host.
    Host,
    /// A link.
    Link,
    /// A host port.
    HostPort,
    /// A job.
    Job,
}

impl Kind {
    /// Every kind; a fact names only facts of kinds before its own.
    pub const ALL: [Self; 5] = [
        Self::Switch,
        Self::Host,
        Self::Link,
        Self::HostPort,
        Self::Job,
    ];

    /// The noun, for errors.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Host => "host",
            Self::Link => "link",
            Self::HostPort => "host port",
            Self::Job => "job",
        }
    }

    /// The field, or the list, that has the facts of this kind.
    pub fn field(self) -> &'static str {
        match self {
            Self::Switch => "switches",
            Self::Host => "hosts",
            Self::Link => "links",
            Self::HostPort => "host_ports",
            Self::Job => "jobs",
        }
    }

    /// The kind as the API writes it.
    pub fn to_message(self) -> v1::ResourceKind {
        match self {
            Self::Switch => v1::ResourceKind::Switch,
            Self::Host => v1::ResourceKind::Host,
            Self::Link => v1::ResourceKind::Link,
            Self::HostPort => v1::ResourceKind::HostPort,
            Self::Job => v1::ResourceKind::Job,
        }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&$name> for Arc<str> {
            fn from(name: &$name) -> Self {
                Self::clone(&name.0)
            }
        }

        impl From<&str> for $name {
            fn from(name: &str) -> Self {
                Self(name.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// The name of a switch. Cheap to clone.
    SwitchName
);
name!(
    /// The name of a host. Cheap to clone.
    HostName
);
name!(
    /// The name of a link, `<a.switch_name>:<a.interface_name>--<b.switch_name>:<b.interface_name>` unless it was given another one.
    /// Cheap to clone.
    LinkName
);
name!(
    /// The name of a host port, `<switch_name>:<interface_name>`. Cheap to clone.
    PortName
);
name!(
    /// The name of a job. Cheap to clone.
    JobName
);

/// What an operator or a program wants to remember of a fact.
pub type Labels = BTreeMap<String, String>;

/// What a switch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Hosts are connected to it; it has a VTEP.
    Leaf,
    /// It connects leaves.
    Spine,
}

/// A switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Unique.
    pub name: SwitchName,
    /// What it is for.
    pub role: Role,
    /// The address that its tunnels end at; every leaf has one, no two switches the same.
    pub vtep: Option<IpAddr>,
    /// `host:port` of its gRIBI server; None if weft does not program it.
    pub agent: Option<Arc<str>>,
    /// `host:port` of its gNMI server; None if it is not asked.
    pub gnmi: Option<Arc<str>>,
    /// Whether both servers speak TLS.
    pub tls: bool,
    /// Where its BGP sessions to weft come from; None if its routes say nothing of links.
    pub peer: Option<IpAddr>,
    /// It takes its weights as link bandwidth communities on those sessions.
    pub link_bandwidth: bool,
    /// How far it is from the hosts.
    pub tier: Option<u32>,
    /// The plane that it belongs to.
    pub plane: Option<u32>,
    /// The rail that it serves.
    pub rail: Option<u32>,
    /// The pod that it stands in; may be empty.
    pub pod: String,
    /// Set down by an operator: nothing goes over it.
    pub down: bool,
    /// What its tables can hold.
    pub limits: SwitchLimits,
    /// For people and programs.
    pub labels: Labels,
}

/// What the forwarding tables of a switch can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SwitchLimits {
    /// Members of all next-hop groups, each as often as its weight says; None: not limited.
    pub group_members: Option<u32>,
    /// The sum of the weights of one group; None: not declared.
    pub group_width: Option<u32>,
    /// Flows that are matched; None: not declared.
    pub pins: Option<u32>,
    /// Next-hop groups for weights; None: not limited.
    pub groups: Option<u32>,
}

/// How a NIC makes the UDP source port of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPortFormula {
    /// As Linux: from the flow label, or from the product of the numbers.
    Kernel,
    /// The numbers XOR each other.
    Xor,
}

impl UdpPortFormula {
    /// As a message has it; None: nobody knows.
    pub(super) fn read(formula: v1::UdpPortFormula) -> Option<Self> {
        match formula {
            v1::UdpPortFormula::Unspecified => None,
            v1::UdpPortFormula::Kernel => Some(Self::Kernel),
            v1::UdpPortFormula::Xor => Some(Self::Xor),
        }
    }

    /// The word of a fabric file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Xor => "xor",
        }
    }
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// The switch.
    pub switch: SwitchName,
    /// The name that the switch gives to the interface.
    pub interface: Arc<str>,
    /// What the other end uses as next hop; None at both ends: the link is unnumbered.
    pub address: Option<IpAddr>,
}

impl fmt::Display for LinkEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.switch, self.interface)
    }
}

/// A physical link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Unique.
    pub name: LinkName,
    /// One end.
    pub a: LinkEnd,
    /// The other end.
    pub b: LinkEnd,
    /// Bits per second in each direction; above 0.
    pub capacity_bps: u64,
    /// Set down by an operator.
    pub down: bool,
    /// Percent of the capacity that is left alone; below 100.
    pub derating_percent: u32,
    /// For people and programs.
    pub labels: Labels,
}

/// A machine with ports to the fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Unique.
    pub name: HostName,
    /// For people and programs.
    pub labels: Labels,
}

/// A port with a host behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Unique.
    pub name: PortName,
    /// The switch.
    pub switch: SwitchName,
    /// The name that the switch gives to the interface.
    pub interface: Arc<str>,
    /// The host behind it; None if it is not declared.
    pub host: Option<HostName>,
    /// The VNI of the port.
    pub vni: Option<u32>,
    /// Bits per second.
    pub capacity_bps: Option<u64>,
    /// The rail of its host.
    pub rail: Option<u32>,
    /// Addresses of the NIC behind it, in the network of its VNI.
    pub addresses: Vec<IpAddr>,
    /// How that NIC makes UDP source ports; None: nobody knows.
    pub udp_port_formula: Option<UdpPortFormula>,
    /// For people and programs.
    pub labels: Labels,
}

/// A declared fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A switch.
    Switch(Arc<Switch>),
    /// A host.
    Host(Arc<Host>),
    /// A link.
    Link(Arc<Link>),
    /// A host port.
    HostPort(Arc<HostPort>),
    /// A job.
    Job(Arc<Job>),
}

impl Fact {
    /// What it declares.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Switch(_) => Kind::Switch,
            Self::Host(_) => Kind::Host,
            Self::Link(_) => Kind::Link,
            Self::HostPort(_) => Kind::HostPort,
            Self::Job(_) => Kind::Job,
        }
    }

    /// Its name, unique among facts of its kind.
    pub fn name(&self) -> &str {
        match self {
            Self::Switch(it) => it.name.as_str(),
            Self::Host(it) => it.name.as_str(),
            Self::Link(it) => it.name.as_str(),
            Self::HostPort(it) => it.name.as_str(),
            Self::Job(it) => it.name.as_str(),
        }
    }

    /// The octets that it is stored as: its message, without an etag.
    pub fn encode(&self) -> Bytes {
        let octets = match self {
            Self::Switch(it) => it.to_message().encode_to_vec(),
            Self::Host(it) => it.to_message().encode_to_vec(),
            Self::Link(it) => it.to_message().encode_to_vec(),
            Self::HostPort(it) => it.to_message().encode_to_vec(),
            Self::Job(it) => it.declared.encode_to_vec(),
        };
        octets.into()
    }

    /// Reads what was stored: it is a fact also if nobody may declare it like that today.
    ///
    /// # Errors
    /// What this release does not understand of it.
    pub fn decode(kind: Kind, octets: &[u8]) -> Result<Self, InvalidFabric> {
        let unread = |error: prost::DecodeError| InvalidFabric::of(kind.noun(), error.to_string());
        match kind {
            Kind::Switch => Self::stored(&v1::Switch::decode(octets).map_err(unread)?),
            Kind::Host => Self::stored(&v1::Host::decode(octets).map_err(unread)?),
            Kind::Link => Self::stored(&v1::Link::decode(octets).map_err(unread)?),
            Kind::HostPort => Self::stored(&v1::HostPort::decode(octets).map_err(unread)?),
            Kind::Job => Self::stored(&v1::Job::decode(octets).map_err(unread)?),
        }
    }

    /// The fact of a message that was stored.
    ///
    /// # Errors
    /// As above.
    pub fn stored<R: Resource>(message: &R) -> Result<Self, InvalidFabric> {
        let mut faults = InvalidFabric::default();
        let fact = message.read("", &mut faults);
        match faults.is_empty() {
            true => Ok(fact),
            false => Err(faults),
        }
    }

    /// The fact that a message declares by itself.
    ///
    /// # Errors
    /// Every fault, with its field.
    pub fn declared<R: Resource>(message: &R) -> Result<Self, InvalidFabric> {
        let mut faults = InvalidFabric::default();
        message.check("", &mut faults);
        let fact = message.read("", &mut faults);
        match faults.is_empty() {
            true => Ok(fact),
            false => Err(faults),
        }
    }

    /// Names the content: equal for equal content, whoever asks which replica.
    pub fn etag(&self) -> String {
        etag(&self.encode())
    }
}

/// Names a content by its octets: equal for equal ones.
pub fn etag(octets: &[u8]) -> String {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(octets);
    format!("{:016x}", hasher.finish())
}

/// The message of a kind of fact.
pub trait Resource: Message + Default + Clone + 'static {
    /// Its kind.
    const KIND: Kind;
    /// The message in its descriptors.
    const MESSAGE: &'static str;

    /// The name that it has.
    fn name(&self) -> &str;
    /// The etag that it has.
    fn etag(&self) -> &str;
    /// Says what nobody may declare of it; `field` is its place in a declaration, empty if it stands alone.
    fn check(&self, field: &str, faults: &mut InvalidFabric);
    /// The fact that it is; with a fault, what is left of it. Its name is empty if it has none.
    fn read(&self, field: &str, faults: &mut InvalidFabric) -> Fact;
    /// A fact of this kind as a message, with its etag.
    fn of(fact: &Fact) -> Option<Self>;

    /// True if the message leaves its admin state unspecified.
    fn has_no_admin_state(&self) -> bool {
        false
    }
}

impl Resource for v1::Switch {
    const KIND: Kind = Kind::Switch;
    const MESSAGE: &'static str = "weft.v1.Switch";

    fn name(&self) -> &str {
        &self.name
    }

    fn etag(&self) -> &str {
        &self.etag
    }

    fn check(&self, field: &str, faults: &mut InvalidFabric) {
        limits::switch(self, field, faults);
    }

    fn has_no_admin_state(&self) -> bool {
        self.admin_state() == v1::AdminState::Unspecified
    }

    fn read(&self, field: &str, faults: &mut InvalidFabric) -> Fact {
        Fact::Switch(Arc::new(read::switch(self, field, faults)))
    }

    fn of(fact: &Fact) -> Option<Self> {
        let Fact::Switch(switch) = fact else {
            return None;
        };
        let etag = fact.etag();
        Some(Self {
            etag,
            ..switch.to_message()
        })
    }
}

impl Resource for v1::Host {
    const KIND: Kind = Kind::Host;
    const MESSAGE: &'static str = "weft.v1.Host";

    fn name(&self) -> &str {
        &self.name
    }

    fn etag(&self) -> &str {
        &self.etag
    }

    fn check(&self, field: &str, faults: &mut InvalidFabric) {
        limits::host(self, field, faults);
    }

    fn read(&self, _: &str, _: &mut InvalidFabric) -> Fact {
        Fact::Host(Arc::new(read::host(self)))
    }

    fn of(fact: &Fact) -> Option<Self> {
        let Fact::Host(host) = fact else {
            return None;
        };
        let etag = fact.etag();
        Some(Self {
            etag,
            ..host.to_message()
        })
    }
}

impl Resource for v1::Link {
    const KIND: Kind = Kind::Link;
    const MESSAGE: &'static str = "weft.v1.Link";

    fn name(&self) -> &str {
        &self.name
    }

    fn etag(&self) -> &str {
        &self.etag
    }

    fn check(&self, field: &str, faults: &mut InvalidFabric) {
        limits::link(self, field, faults);
    }

    fn has_no_admin_state(&self) -> bool {
        self.admin_state() == v1::AdminState::Unspecified
    }

    fn read(&self, field: &str, faults: &mut InvalidFabric) -> Fact {
        Fact::Link(Arc::new(read::link(self, field, faults)))
    }

    fn of(fact: &Fact) -> Option<Self> {
        let Fact::Link(link) = fact else {
            return None;
        };
        let etag = fact.etag();
        Some(Self {
            etag,
            ..link.to_message()
        })
    }
}

impl Resource for v1::HostPort {
    const KIND: Kind = Kind::HostPort;
    const MESSAGE: &'static str = "weft.v1.HostPort";

    fn name(&self) -> &str {
        &self.name
    }

    fn etag(&self) -> &str {
        &self.etag
    }

    fn check(&self, field: &str, faults: &mut InvalidFabric) {
        limits::host_port(self, field, faults);
    }

    fn read(&self, field: &str, faults: &mut InvalidFabric) -> Fact {
        Fact::HostPort(Arc::new(read::host_port(self, field, faults)))
    }

    fn of(fact: &Fact) -> Option<Self> {
        let Fact::HostPort(port) = fact else {
            return None;
        };
        let etag = fact.etag();
        Some(Self {
            etag,
            ..port.to_message()
        })
    }
}

impl Switch {
    /// How far it is from the hosts: 1 for a leaf, 2 for a spine, 3 or more for a super-spine.
    pub fn height(&self) -> u32 {
        match self.role {
            Role::Leaf => 1,
            Role::Spine => self.tier.unwrap_or(2),
        }
    }

    fn to_message(&self) -> v1::Switch {
        let role = match self.role {
            Role::Leaf => v1::SwitchRole::Leaf,
            Role::Spine => v1::SwitchRole::Spine,
        };
        v1::Switch {
            name: self.name.to_string(),
            role: role.into(),
            vtep_address: self.vtep.map(|vtep| vtep.to_string()).unwrap_or_default(),
            agent_address: self.agent.as_deref().unwrap_or_default().to_owned(),
            peer_address: self.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            tier: self.tier,
            plane: self.plane,
            rail: self.rail,
            pod: self.pod.clone(),
            labels: self.labels.clone(),
            etag: String::new(),
            link_bandwidth_weights: self.link_bandwidth,
            admin_state: admin_state(self.down).into(),
            limits: self.limits.to_message(),
            gnmi_address: self.gnmi.as_deref().unwrap_or_default().to_owned(),
            tls: self.tls,
        }
    }
}

impl SwitchLimits {
    /// None if there is none.
    fn to_message(self) -> Option<v1::SwitchLimits> {
        (self != Self::default()).then_some(v1::SwitchLimits {
            group_members: self.group_members,
            group_width: self.group_width,
            pins: self.pins,
            groups: self.groups,
        })
    }
}

fn admin_state(down: bool) -> v1::AdminState {
    match down {
        true => v1::AdminState::Down,
        false => v1::AdminState::Up,
    }
}

impl Host {
    fn to_message(&self) -> v1::Host {
        v1::Host {
            name: self.name.to_string(),
            labels: self.labels.clone(),
            etag: String::new(),
        }
    }
}

impl Link {
    fn to_message(&self) -> v1::Link {
        v1::Link {
            name: self.name.to_string(),
            a: Some(self.a.to_message()),
            b: Some(self.b.to_message()),
            capacity_bps: self.capacity_bps,
            admin_state: admin_state(self.down).into(),
            labels: self.labels.clone(),
            etag: String::new(),
            derating_percent: self.derating_percent,
        }
    }

    /// Bits per second in each direction that are used: the capacity without what it is derated by.
    pub fn usable_bps(&self) -> u64 {
        self.usable_bps_at(self.derating_percent)
    }

    /// Bits per second in each direction that are used, were the link derated by so many percent.
    pub fn usable_bps_at(&self, derating_percent: u32) -> u64 {
        let kept = 100_u32.saturating_sub(derating_percent);
        let usable = u128::from(self.capacity_bps) * u128::from(kept) / 100;
        u64::try_from(usable).unwrap_or(u64::MAX).max(1)
    }

    /// Whether neither end has an address: a switch knows its neighbour by the interface.
    pub fn is_unnumbered(&self) -> bool {
        self.a.address.is_none() && self.b.address.is_none()
    }

    /// The end at this switch and the end across; None if the link does not end there.
    pub fn ends_from(&self, switch: &SwitchName) -> Option<(&LinkEnd, &LinkEnd)> {
        if self.a.switch == *switch {
            Some((&self.a, &self.b))
        } else if self.b.switch == *switch {
            Some((&self.b, &self.a))
        } else {
            None
        }
    }
}

impl LinkEnd {
    /// The switch and its interface.
    pub(in crate::fabric) fn port(&self) -> (SwitchName, Arc<str>) {
        (self.switch.clone(), Arc::clone(&self.interface))
    }

    fn to_message(&self) -> v1::LinkEnd {
        v1::LinkEnd {
            switch_name: self.switch.to_string(),
            interface_name: self.interface.to_string(),
            address: self
                .address
                .map(|address| address.to_string())
                .unwrap_or_default(),
        }
    }
}

impl HostPort {
    fn to_message(&self) -> v1::HostPort {
        let host = self.host.as_ref().map(ToString::to_string);
        let formula = match self.udp_port_formula {
            None => v1::UdpPortFormula::Unspecified,
            Some(UdpPortFormula::Kernel) => v1::UdpPortFormula::Kernel,
            Some(UdpPortFormula::Xor) => v1::UdpPortFormula::Xor,
        };
        v1::HostPort {
            name: self.name.to_string(),
            switch_name: self.switch.to_string(),
            interface_name: self.interface.to_string(),
            host_name: host.unwrap_or_default(),
            vni: self.vni,
            capacity_bps: self.capacity_bps,
            rail: self.rail,
            addresses: self.addresses.iter().map(ToString::to_string).collect(),
            udp_port_formula: formula.into(),
            labels: self.labels.clone(),
            etag: String::new(),
        }
    }
}
