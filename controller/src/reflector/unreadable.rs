//! A committed fact that this replica does not understand, by name. Knows no remedy.

use std::fmt;

use bytes::Bytes;

use crate::fabric::fact::InvalidFabric;
use crate::ledger::FactKey;

/// Why a replica does not take an entry. Other replicas may have understood it, and later facts may
/// depend on it: a replica that went on without it would differ from them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("index {index}: {fault}")]
pub struct Unreadable {
    /// Log index of the entry, or of the state that was read as a whole.
    pub index: u64,
    /// The part of it that is not understood.
    pub fault: Fault,
}

/// The part of an entry that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A key of a kind, or a family, that this release does not have.
    Key(Bytes),
    /// A deleted prefix that this release never deletes.
    Prefix(Bytes),
    /// A value that does not decode.
    Value {
        /// The key of the fact.
        key: Bytes,
        /// The fault that the codec found, if it names one.
        cause: Option<String>,
    },
}

impl Fault {
    /// The value under `key`, or the fault that there is none.
    pub(super) fn unless<T>(key: &Bytes, value: Option<T>) -> Result<T, Self> {
        value.ok_or_else(|| Self::Value {
            key: key.clone(),
            cause: None,
        })
    }

    /// The fault of a value that its codec names.
    pub(super) fn invalid(key: &Bytes, cause: &InvalidFabric) -> Self {
        Self::Value {
            key: key.clone(),
            cause: Some(cause.to_string()),
        }
    }

    /// Names the entry, or the state, that has the fault.
    pub(super) fn at(self, index: u64) -> Unreadable {
        Unreadable { index, fault: self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => {
                let kind = key.get(..1).unwrap_or_default().escape_ascii();
                let key = key.escape_ascii();
                write!(f, "key \"{key}\" of kind \"{kind}\" is not known here")
            }
            Self::Prefix(prefix) => {
                let prefix = prefix.escape_ascii();
                write!(f, "deletion of the prefix \"{prefix}\" is not known here")
            }
            Self::Value { key, cause } => {
                let noun = FactKey::decode(key).as_ref().map_or("fact", noun);
                let key = key.escape_ascii();
                write!(f, "{noun} under key \"{key}\" does not decode")?;
                cause.iter().try_for_each(|cause| write!(f, ": {cause}"))
            }
        }
    }
}

/// The noun of a kind of fact.
fn noun(key: &FactKey<'_>) -> &'static str {
    match key {
        FactKey::Route(..) => "route",
        FactKey::Owner(_) => "owner of a peer",
        FactKey::Session(..) => "session",
        FactKey::Head => "head of the fabric",
        FactKey::Declared(_, kind, _) => kind.noun(),
        FactKey::Stage(_) => "fabric that is being written",
        FactKey::Edit(..) => "edit since the last apply",
        FactKey::Job(_) => "job",
        FactKey::Jobs => "count of jobs",
        FactKey::Pins => "count of pins",
        FactKey::Pin(_) => "pin",
        FactKey::Request(_) => "request",
        FactKey::RequestAt(_) => "request of a generation",
        FactKey::Incarnation => "incarnation",
        FactKey::Freeze(_) => "frozen MAC address",
        FactKey::Balance(_) => "balance mode",
        FactKey::Derating(_) => "derating",
        FactKey::OffPlan(_) => "job left to weights",
        FactKey::KeptFree(_) => "part of uplinks that is kept free",
    }
}

#[cfg(test)]
mod tests {
    use weft_bgp::family::Family;
    use weft_bgp::peer::{ClusterId, PeerId, RouterId};
    use weft_bgp::reflect::Local;
    use weft_evpn::{Mac, Vni};
    use weft_store::{Applied, Change};

    use super::*;
    use crate::fabric::fact::Kind;
    use crate::fabric::pin::PinName;
    use crate::ledger::{self, FactPrefix, RequestId};
    use crate::reflector::Reflector;

    const INDEX: u64 = 42;
    const PEER: PeerId = PeerId {
        router_id: RouterId(0xc000_0201),
        asn: 64_496,
    };
    /// No release reflects it.
    const FAMILY: Family = Family { afi: 25, safi: 65 };

    fn reflector() -> Reflector {
        Reflector::new(Local {
            asn: 64_496,
            router_id: RouterId(1),
            cluster_id: ClusterId(2),
        })
    }

    /// The text of the error of an entry with this change, behind one that is understood.
    fn refused(change: Change) -> String {
        let known = Change::Put {
            value: ledger::encode_count(1),
            keys: vec![FactKey::Jobs.encode()],
        };
        let applied = Applied {
            index: INDEX,
            term: 1,
            changes: vec![known, change],
        };
        let unreadable = reflector().handle(&applied).unwrap_err();
        assert_eq!(unreadable.index, INDEX);
        unreadable.to_string()
    }

    fn put(key: Bytes, value: &'static [u8]) -> Change {
        Change::Put {
            value: Bytes::from_static(value),
            keys: vec![key],
        }
    }

    #[test]
    fn a_key_of_an_unknown_kind_is_named_with_its_index() {
        let key = Bytes::from_static(b"z\x01name");
        let named = r#"index 42: key "z\x01name" of kind "z" is not known here"#;
        assert_eq!(refused(put(key.clone(), b"1")), named);
        let keys = vec![key];
        assert_eq!(refused(Change::Delete { keys }), named);
    }

    #[test]
    fn a_family_that_is_not_reflected_is_an_unknown_kind() {
        let key = FactKey::Route(FAMILY, PEER, b"nlri").encode();
        let named = r#"of kind "r" is not known here"#;
        let refusal = refused(Change::Delete {
            keys: vec![key.clone()],
        });
        assert!(refusal.ends_with(named), "{refusal}");
        let mut reflector = reflector();
        let owner = FactKey::Owner(PEER).encode();
        let facts = vec![(key, Bytes::from_static(&[0, 0])), (owner, owned())];
        let unreadable = reflector.reset(INDEX, facts).unwrap_err();
        assert!(unreadable.to_string().ends_with(named), "{unreadable}");
    }

    fn owned() -> Bytes {
        let owner = ledger::Owner {
            replica: 1,
            epoch: 1,
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            kind: weft_bgp::table::PeerKind::Ebgp,
            fresh_from: 0,
            returned: None,
            retention: None,
        };
        owner.encode()
    }

    #[test]
    fn a_prefix_that_is_never_deleted_is_named_with_its_index() {
        let prefixes = [
            Bytes::from_static(b"o"),
            Bytes::new(),
            FactPrefix::RoutesOfPeer(FAMILY, PEER).encode(),
        ];
        for prefix in prefixes {
            let refusal = refused(Change::DeletePrefix { prefix });
            let named = "index 42: deletion of the prefix";
            assert!(refusal.starts_with(named), "{refusal}");
        }
    }

    #[test]
    fn a_value_that_does_not_decode_is_named_with_its_kind_and_index() {
        let pin = PinName {
            job: "train".into(),
            source: "leaf1:eth1".into(),
            destination: "leaf2:eth1".into(),
        };
        let keys = [
            FactKey::Owner(PEER),
            FactKey::Head,
            FactKey::Declared(0, Kind::Switch, "leaf1"),
            FactKey::Edit(Kind::Switch, "leaf1"),
            FactKey::Job("train"),
            FactKey::Jobs,
            FactKey::Pins,
            FactKey::Pin(pin),
            FactKey::Request(RequestId([7; 16])),
            FactKey::RequestAt(7),
            FactKey::Incarnation,
            FactKey::Freeze((Vni::MAX, Mac([2; 6]))),
            FactKey::Balance("leaf1"),
            FactKey::Derating("link1"),
            FactKey::OffPlan("train"),
            FactKey::KeptFree("leaf1"),
        ];
        for key in keys {
            let refusal = refused(put(key.encode(), b"\xff\xff\xff"));
            let named = format!("index 42: {} under key", noun(&key));
            assert!(refusal.starts_with(&named), "{refusal}");
            assert!(refusal.contains("does not decode"), "{refusal}");
        }
    }

    /// As at the start on a directory of other octets.
    #[test]
    fn a_state_with_an_unknown_fact_is_not_taken() {
        let facts = vec![(Bytes::from_static(b"z"), Bytes::new())];
        let unreadable = reflector().reset(INDEX, facts).unwrap_err();
        let named = r#"index 42: key "z" of kind "z" is not known here"#;
        assert_eq!(unreadable.to_string(), named);
    }
}
