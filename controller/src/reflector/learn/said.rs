//! What an UPDATE names and what is held of it: for those who are told what was made of it instead of what it says.

use std::collections::BTreeSet;

use bytes::Bytes;
use weft_bgp::family::Family;
use weft_bgp::message::update::Update;
use weft_bgp::nlri::route_target::Membership;
use weft_bgp::nlri::unicast::{Prefix4, Prefix6};
use weft_evpn::Route;

use super::AdjRibIn;
use super::fact::Fact;

impl AdjRibIn {
    /// The keys of all routes that `update` announces or withdraws, each once and in order, and what is held under
    /// them now. Routes of a family that was not negotiated are not among them.
    pub fn said(&mut self, update: &Update) -> Vec<(Bytes, Option<Bytes>)> {
        let mut keys = BTreeSet::new();
        if self.families.contains(&Family::IPV4_UNICAST) {
            for (path_id, prefix) in update.withdrawn.iter().chain(&update.announced) {
                keys.insert(self.key(*path_id, prefix));
            }
        }
        let unreach = update.unreach.iter().map(|part| (part.family, &part.nlri));
        let reach = update.reach.iter().map(|part| (part.family, &part.nlri));
        for (family, nlri) in unreach.chain(reach) {
            if !self.families.contains(&family) {
                continue;
            }
            match family {
                Family::IPV4_UNICAST => self.keys::<Prefix4>(nlri, &mut keys),
                Family::IPV6_UNICAST => self.keys::<Prefix6>(nlri, &mut keys),
                Family::RTC => self.keys::<Membership>(nlri, &mut keys),
                _ => self.keys::<Route>(nlri, &mut keys),
            }
        }
        let held = |key: Bytes| {
            let value = self.routes.get(&key).cloned();
            (key, value)
        };
        keys.into_iter().map(held).collect()
    }

    fn keys<N: Fact>(&mut self, nlri: &[u8], keys: &mut BTreeSet<Bytes>) {
        let (add_path, opaque) = (self.add_path.contains(N::family()), self.policy.opaque);
        let each = |path_id, route: N| {
            keys.insert(self.key(path_id, &route));
        };
        // Where framing is lost the session ends, and with it all that it said.
        let _ = N::decode_field(nlri, add_path, opaque, each, |_| {});
    }
}
