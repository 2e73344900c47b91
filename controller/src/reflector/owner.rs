//! Who commits a peer's paths: what one replica should propose next, given what is agreed.
//! Knows no clock and no channel; the peer's task asks again whenever something changed.
//!
//! Every step is a batch under conditions, so two replicas that act at once never both succeed where
//! they must not, and the last session to end always takes the peer's paths with it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use weft_bgp::family::Family;
use weft_bgp::peer::PeerId;
use weft_bgp::table::PeerKind;
use weft_store::{Batch, Op};

use crate::ledger::{self, FactKey, FactPrefix, Owner, Phase, Retention};

/// What is agreed about one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Who commits its paths.
    pub owner: Option<Owner>,
    /// Replicas that hold an established session to it.
    pub sessions: BTreeSet<u64>,
}

/// What this replica knows of its own session to the peer.
#[derive(Clone, Debug)]
pub struct Own<'a> {
    /// This replica.
    pub replica: u64,
    /// All replicas.
    pub members: &'a [u64],
    /// The peer.
    pub peer: PeerId,
    /// Families whose paths go when the peer goes.
    pub families: &'a [Family],
    /// Address and kind while the session is established.
    pub established: Option<(IpAddr, PeerKind)>,
    /// A session was announced and its release was not applied since: an announcement that nobody has
    /// seen yet may still come.
    pub announced: bool,
    /// The record under which this session claimed the peer, if it did.
    pub claimed: Option<&'a Owner>,
    /// The replica that should claim had its time: claim in its place.
    pub impatient: bool,
    /// What becomes of the peer's paths if the session that ended was the last one.
    pub parting: &'a Parting,
    /// The peer restarted, and was back before that was said: its paths are as if they had been retained.
    pub restarted: bool,
    /// For how many seconds the last session that ended was established.
    pub served_secs: u32,
    /// For how many seconds the peer has been away, if it is.
    pub away_secs: u32,
    /// The record under which this session has just left the peer to others that say they serve it.
    pub left: Option<&'a Owner>,
    /// Families for which the peer says, in the session that is established, that it forwards as before;
    /// the retained paths of all others go at once.
    pub preserved: &'a Preserved,
    /// The session was refused, since another device with the same identity is served: it says nothing of the peer.
    pub refused: bool,
    /// Whose the identity is, between the session and the owner.
    pub home: Home,
}

/// Whose an identity is by the declared fabric, between a session and the owner, if their addresses differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// The one that was first: both addresses are declared, or neither is.
    #[default]
    First,
    /// The session's: its address is the `peer_address` of a switch, and the owner's is not.
    Session,
    /// The owner's: its address is one, and the session's is not.
    Owner,
}

impl Home {
    /// Returns whose the identity is.
    pub fn of(address: IpAddr, agreed: &Agreed, is_declared: impl Fn(IpAddr) -> bool) -> Self {
        let owner = agreed.owner.as_ref().map(|owner| owner.address);
        let Some(other) = owner.filter(|other| *other != address) else {
            return Self::First;
        };
        match (is_declared(address), is_declared(other)) {
            (true, false) => Self::Session,
            (false, true) => Self::Owner,
            (true, true) | (false, false) => Self::First,
        }
    }
}

/// Families for which a peer that is back forwards as it did before it went: the F bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preserved {
    /// As long as its paths are no more than stale. RFC 4724 §4.2.
    pub graceful: Vec<Family>,
    /// Once they are long-lived stale. RFC 9494 §4.2.
    pub long_lived: Vec<Family>,
}

impl Preserved {
    fn after(&self, phase: Phase) -> &[Family] {
        match phase {
            Phase::Graceful => &self.graceful,
            Phase::LongLived => &self.long_lived,
        }
    }
}

/// What the end of a session means for the paths that came over it, if it was the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Parting {
    /// The peer is dead or has taken its leave: they go.
    #[default]
    Gone,
    /// This replica stops: they stay as long as those of any peer whose replica died.
    OurDoing,
    /// The peer restarts: they stay as long as it asked for. RFC 4724 §4.2.
    Restarting(Retention),
}

impl Parting {
    /// Whether paths of `family` stay for the peer's return.
    pub fn retains(&self, family: Family) -> bool {
        match self {
            Self::Gone | Self::OurDoing => false,
            Self::Restarting(retention) => retention.covers(family),
        }
    }
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Nothing until something changes.
    Wait,
    /// Say that a session is established.
    Announce(Batch),
    /// Become the owner under this record.
    Claim(Batch, Owner),
    /// This replica owns the peer: commit what it announces.
    Commit,
    /// Say that the session ended; with the last one the peer's paths go.
    Release(Batch),
    /// Say that it ended while others say that they serve the peer, under this record. They may be dead
    /// already: until that would show, [`Own::left`].
    Leave(Batch, Owner),
    /// The session ended and nothing of it is left.
    Done,
}

/// Address of the device to which the peer's identity belongs, where a session from `address` is of another one: two devices
/// have the same router id and AS, or one has sessions from two addresses. The one that is owned was first: by a live
/// session at another replica, or by paths that are kept for its return. A declared address goes before one that was first.
pub fn rival(replica: u64, address: IpAddr, agreed: &Agreed, home: Home) -> Option<IpAddr> {
    let owner = agreed.owner.as_ref()?;
    let live = owner.replica != replica && agreed.sessions.contains(&owner.replica);
    let is_rival = match home {
        Home::First => live || is_awaited(replica, agreed, owner),
        Home::Session => false,
        Home::Owner => true,
    };
    (is_rival && owner.address != address).then_some(owner.address)
}

/// True while the peer is expected back at its last address, before any session of this replica: nobody else may take what
/// is kept for it. Not once its paths are long-lived stale: the time that it asked for is over (RFC 4724 §4.2), and a
/// device that comes with another address may be its successor.
fn is_awaited(replica: u64, agreed: &Agreed, owner: &Owner) -> bool {
    let retention = owner.retention.as_ref();
    let in_time = retention.is_none_or(|retention| retention.phase == Phase::Graceful);
    in_time && !agreed.sessions.contains(&replica)
}

/// Whether a session from `address` may be of another device than the one whose paths are there and that other replicas
/// may still serve.
pub fn is_stranger(replica: u64, address: IpAddr, agreed: &Agreed) -> bool {
    let owner = agreed.owner.as_ref();
    let moved = owner.is_some_and(|owner| owner.address != address);
    moved && agreed.sessions.iter().any(|id| *id != replica)
}

/// Decides the next step.
pub fn next(own: &Own<'_>, agreed: &Agreed) -> Step {
    match own.established {
        Some((address, kind)) => hold(own, agreed, address, kind),
        None => release(own, agreed),
    }
}

fn hold(own: &Own<'_>, agreed: &Agreed, address: IpAddr, kind: PeerKind) -> Step {
    if rival(own.replica, address, agreed, own.home).is_some() {
        // Whoever drives the session ends it.
        return Step::Wait;
    }
    if !agreed.sessions.contains(&own.replica) {
        let key = FactKey::Session(own.replica, own.peer);
        let ops = vec![ledger::put(&key, Bytes::new())];
        return Step::Announce(Batch {
            conditions: Vec::new(),
            ops,
        });
    }
    if own.claimed.is_some() && own.claimed == agreed.owner.as_ref() {
        return Step::Commit;
    }
    let owner = agreed.owner.as_ref();
    // Another device had the identity: it is taken back, and what that one said goes.
    let is_taken = own.home == Home::Session;
    let served =
        |owner: &Owner| owner.replica != own.replica && agreed.sessions.contains(&owner.replica);
    if owner.is_some_and(served) && !is_taken {
        return Step::Wait;
    }
    // The record of an earlier session of ours keeps the others waiting: renew it, whoever is preferred.
    let renewed = owner.is_some_and(|owner| owner.replica == own.replica);
    let stranger = is_stranger(own.replica, address, agreed);
    let preferred = !stranger && preferred(own.peer, &agreed.sessions) == Some(own.replica);
    if !renewed && !preferred && !own.impatient && !is_taken {
        return Step::Wait;
    }
    // What others hear was not lost with a session of ours.
    let alone = agreed.sessions.iter().all(|id| *id == own.replica);
    let unsaid = renewed && own.restarted && alone;
    let (mut claim, kept) = claim(own, owner, unsaid, (address, kind));
    if is_taken {
        (claim.fresh_from, claim.returned) = (0, None);
    }
    let mut ops = vec![ledger::put(&FactKey::Owner(own.peer), claim.encode())];
    let stays = |family| !is_taken && kept(family);
    ops.extend(forget_routes(own.peer, own.families, stays));
    Step::Claim(ledger::owned(own.peer, owner, ops), claim)
}

/// The record of a claim, and of which families the paths stay. `restarted`: so did the peer, and that was not said.
fn claim(
    own: &Own<'_>,
    owner: Option<&Owner>,
    restarted: bool,
    (address, kind): (IpAddr, PeerKind),
) -> (Owner, impl Fn(Family) -> bool) {
    // As if the last loss had been said.
    let served = owner.filter(|owner| owner.retention.is_none());
    let unsaid = match own.parting {
        Parting::Restarting(new) if restarted => {
            served.map(|owner| lost(owner, new, own.served_secs))
        }
        Parting::Gone | Parting::OurDoing | Parting::Restarting(_) => None,
    };
    let all = unsaid.is_none();
    let said = unsaid.or_else(|| owner.cloned());
    let before = said.as_ref().and_then(|owner| owner.retention.clone());
    let preserved = before.as_ref().map(|it| own.preserved.after(it.phase));
    let kept: Option<Vec<Family>> = before.as_ref().zip(preserved).map(|(before, preserved)| {
        let covered = preserved.iter().filter(|family| before.covers(**family));
        covered.copied().collect()
    });
    let stays = move |family| kept.as_ref().map_or(all, |kept| kept.contains(&family));
    let epoch = owner.map_or(0, |owner| owner.epoch) + 1;
    let (fresh_from, returned) = match (said, before) {
        (Some(said), Some(before)) => {
            let fresh_from = match before.phase {
                // RFC 9494 §4.2: what it does not say again stays the last choice.
                Phase::LongLived => epoch,
                Phase::Graceful => said.fresh_from,
            };
            (fresh_from, before.after(own.away_secs).only(&stays))
        }
        (Some(said), None) => (said.fresh_from, said.returned),
        (None, _) => (0, None),
    };
    let claim = Owner {
        replica: own.replica,
        epoch,
        address,
        kind,
        fresh_from: if returned.is_some() { fresh_from } else { 0 },
        returned,
        retention: None,
    };
    (claim, stays)
}

/// The record of a peer whose session of so many seconds was the last one: how its paths are kept now; not at all,
/// if it says nothing of that.
fn lost(owner: &Owner, new: &Retention, served_secs: u32) -> Owner {
    let mut new = new.clone();
    let before = owner.returned.as_ref().filter(|_| served_secs < SAID_SECS);
    match before.map(|before| (before.phase, before.after(served_secs))) {
        None => {}
        // RFC 4724 §4.2: what was stale before and not said again does not outlive a second restart. Nobody knows what
        // that is, unless it was sifted.
        Some((Phase::Graceful, before)) => {
            new.families.retain(|(family, _)| !before.covers(*family));
        }
        // RFC 9494 §4.2: here it does, and its time is not begun again.
        Some((Phase::LongLived, before)) => {
            for (family, secs) in &mut new.families {
                if let Some(left) = before.stale_secs(*family) {
                    *secs = left.saturating_sub(new.restart_secs.into()).min(*secs);
                }
            }
        }
    }
    Owner {
        retention: (!new.families.is_empty()).then_some(new),
        returned: None,
        ..owner.clone()
    }
}

/// The record once the peer has said all of `said` since its return.
pub fn settled(owner: &Owner, mut said: impl FnMut(Family) -> bool) -> Owner {
    let returned = owner.returned.as_ref();
    let returned = returned.and_then(|returned| returned.only(|family| !said(family)));
    Owner {
        fresh_from: if returned.is_some() {
            owner.fresh_from
        } else {
            0
        },
        returned,
        ..owner.clone()
    }
}

/// The record once nothing is there that was no more than stale and not said again: what is left is long-lived stale.
pub fn sifted(owner: &Owner) -> Owner {
    let returned = owner.returned.clone().filter(|_| owner.fresh_from > 0);
    Owner {
        returned: returned.map(|returned| Retention {
            phase: Phase::LongLived,
            ..returned
        }),
        ..owner.clone()
    }
}

fn release(own: &Own<'_>, agreed: &Agreed) -> Step {
    if !agreed.sessions.contains(&own.replica) {
        // Whoever took the session away lets the peer find another replica. All that is left is to bar
        // the way to an announcement that may still come.
        let barred = || retract(own.replica, own.peer);
        return match (own.announced, own.left) {
            (true, None) => Step::Release(barred()),
            // It was left, but whoever was asked to agree could not say so any more.
            (true, Some(owner)) => Step::Leave(barred(), owner.clone()),
            (false, _) => left(own, agreed),
        };
    }
    let mut others = agreed.sessions.iter().filter(|id| **id != own.replica);
    let mut ops = vec![ledger::delete(&FactKey::Session(own.replica, own.peer))];
    let Some(other) = others.next() else {
        ops.extend(part(own, agreed));
        let others = own.members.iter().filter(|id| **id != own.replica);
        return Step::Release(unserved(own.peer, others, agreed, ops));
    };
    // Holds only while somebody else is said to serve the peer.
    let batch = Batch {
        conditions: vec![ledger::session_is(*other, own.peer, true)],
        ops,
    };
    match (own.parting, &agreed.owner) {
        (Parting::OurDoing, _) | (_, None) => Step::Release(batch),
        (Parting::Gone | Parting::Restarting(_), Some(owner)) => Step::Leave(batch, owner.clone()),
    }
}

/// The session has just left the peer to others. If they turn out to be dead it was the last one after all:
/// the peer is not one whose replica died, but one that went while its other replicas were dying.
fn left(own: &Own<'_>, agreed: &Agreed) -> Step {
    match own.left {
        // A record that changed was changed by who served the peer later.
        Some(owner) if agreed.owner.as_ref() == Some(owner) => match agreed.sessions.is_empty() {
            true => {
                let ops = part(own, agreed);
                Step::Release(unserved(own.peer, own.members, agreed, ops))
            }
            false => Step::Wait,
        },
        Some(_) | None => Step::Done,
    }
}

/// What the end of the last session does to the peer's paths.
fn part(own: &Own<'_>, agreed: &Agreed) -> Vec<Op> {
    match (own.parting, &agreed.owner) {
        // Nobody claimed the peer since it was last away: its time goes on. RFC 4724 §4.2.
        (Parting::OurDoing | Parting::Restarting(_), Some(owner)) if owner.retention.is_some() => {
            Vec::new()
        }
        // A new record: whoever lost the peer a moment ago did not know that it was served here.
        (Parting::OurDoing, Some(owner)) => {
            let owner = Owner {
                epoch: owner.epoch + 1,
                ..owner.clone()
            };
            vec![ledger::put(&FactKey::Owner(own.peer), owner.encode())]
        }
        (Parting::Restarting(retention), Some(owner)) => retain(
            own.peer,
            own.families,
            &lost(owner, retention, own.served_secs),
        ),
        // What is there is of the other device.
        (Parting::Gone, Some(_)) if own.refused => Vec::new(),
        (Parting::Gone, _) | (_, None) => ledger::forget(own.peer, own.families),
    }
}

/// Holds only while none of `members` serves the peer and its record is as `agreed` says.
fn unserved<'m>(
    peer: PeerId,
    members: impl IntoIterator<Item = &'m u64>,
    agreed: &Agreed,
    ops: Vec<Op>,
) -> Batch {
    let absent = members
        .into_iter()
        .map(|member| ledger::session_is(*member, peer, false));
    Batch {
        conditions: absent
            .chain([ledger::owner_is(peer, agreed.owner.as_ref())])
            .collect(),
        ops,
    }
}

/// A session that is not there, whatever else is agreed.
pub fn retract(replica: u64, peer: PeerId) -> Batch {
    let ops = vec![ledger::delete(&FactKey::Session(replica, peer))];
    Batch {
        conditions: Vec::new(),
        ops,
    }
}

/// Removal of a peer that no replica serves any more, if it is still as `agreed` says.
pub fn expire(peer: PeerId, agreed: &Agreed, members: &[u64], families: &[Family]) -> Batch {
    unserved(peer, members, agreed, ledger::forget(peer, families))
}

/// The retained paths of a peer that did not come back are one step staler, if it is still as `agreed`
/// says; with the last step they go. `None` if they are not retained.
pub fn age(peer: PeerId, agreed: &Agreed, members: &[u64], families: &[Family]) -> Option<Batch> {
    let owner = agreed.owner.as_ref()?;
    let next = owner.retention.as_ref()?.next();
    let mut batch = expire(peer, agreed, members, families);
    let owner = Owner {
        retention: next,
        ..owner.clone()
    };
    batch.ops = retain(peer, families, &owner);
    Some(batch)
}

/// The paths of the families that the record retains stay, those of the others go; without any it goes too.
fn retain(peer: PeerId, families: &[Family], owner: &Owner) -> Vec<Op> {
    let Some(retention) = &owner.retention else {
        return ledger::forget(peer, families);
    };
    let mut ops = vec![ledger::put(&FactKey::Owner(peer), owner.encode())];
    ops.extend(forget_routes(peer, families, |family| {
        retention.covers(family)
    }));
    ops
}

fn forget_routes(
    peer: PeerId,
    families: &[Family],
    kept: impl Fn(Family) -> bool,
) -> impl Iterator<Item = Op> {
    let gone = families
        .iter()
        .copied()
        .filter(move |family| !kept(*family));
    gone.map(move |family| Op::DeletePrefix {
        prefix: FactPrefix::RoutesOfPeer(family, peer).encode(),
    })
}

/// Everything that says a replica holds sessions goes: it died, or it has just started.
pub fn disown(replica: u64) -> Batch {
    let prefix = FactPrefix::SessionsOfReplica(replica).encode();
    Batch {
        conditions: Vec::new(),
        ops: vec![Op::DeletePrefix { prefix }],
    }
}

/// Spreads peers over the replicas that serve them: the highest of a hash of both wins, so that a
/// replica that goes moves only its own peers.
fn preferred(peer: PeerId, sessions: &BTreeSet<u64>) -> Option<u64> {
    sessions.iter().copied().max_by_key(|replica| {
        let identity = (u64::from(peer.router_id.0) << 32) | u64::from(peer.asn);
        mix(identity ^ mix(*replica))
    })
}

/// Who was served for so long has said everything: no session waits longer for the end of it.
const SAID_SECS: u32 = 400;

/// The finalizer of splitmix64: every bit of the input moves every bit of the output.
fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Rounded up, so that no time is counted twice as less than it was.
pub(super) fn whole_secs(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use weft_bgp::peer::RouterId;
    use weft_store::Condition;

    use super::*;

    const PEER: PeerId = PeerId {
        router_id: RouterId(0xc000_0201),
        asn: 64_496,
    };
    const MEMBERS: [u64; 3] = [1, 2, 3];
    const FAMILIES: [Family; 1] = [EVPN];
    const BOTH: [Family; 2] = [EVPN, IPV4];
    const EVPN: Family = Family::L2VPN_EVPN;
    const IPV4: Family = Family::IPV4_UNICAST;

    /// The store as far as ownership needs it.
    #[derive(Default)]
    struct Facts(BTreeMap<Bytes, Bytes>);

    impl Facts {
        fn apply(&mut self, batch: &Batch) -> bool {
            let holds = |condition: &Condition| match condition {
                Condition::Equals { key, value } => self.0.get(key) == value.as_ref(),
                Condition::Term(_) => panic!("an owner is agreed in any term"),
            };
            if !batch.conditions.iter().all(holds) {
                return false;
            }
            for op in &batch.ops {
                match op {
                    Op::Put { value, keys } => {
                        for key in keys {
                            self.0.insert(key.clone(), value.clone());
                        }
                    }
                    Op::Delete { keys } => keys.iter().for_each(|key| drop(self.0.remove(key))),
                    Op::DeletePrefix { prefix } => self.0.retain(|key, _| !key.starts_with(prefix)),
                }
            }
            true
        }

        fn agreed(&self) -> Agreed {
            let owner = self.0.get(&FactKey::Owner(PEER).encode());
            let has = |id: &u64| self.0.contains_key(&FactKey::Session(*id, PEER).encode());
            Agreed {
                owner: owner.and_then(|value| Owner::decode(value)),
                sessions: MEMBERS.into_iter().filter(has).collect(),
            }
        }

        fn has_routes(&self) -> bool {
            self.0.keys().any(|key| key.first() == Some(&b'r'))
        }
    }

    #[derive(Clone, Debug, Default)]
    struct Session {
        established: bool,
        /// The session is of another device with the same router id and AS.
        clone: bool,
        /// The only address that is declared, by its last octet.
        declared: Option<u8>,
        /// The session was refused beside another device, and comes again.
        refused: bool,
        claimed: Option<Owner>,
        parting: Parting,
        left: Option<Owner>,
        announced: bool,
        /// Decided against an older state and not yet applied.
        pending: Option<(Batch, Option<Owner>, Option<Owner>)>,
    }

    impl Session {
        fn address(&self) -> IpAddr {
            IpAddr::from([192, 0, 2, if self.clone { 2 } else { 1 }])
        }

        fn home(&self, agreed: &Agreed) -> Home {
            let declared = self.declared.map(|last| IpAddr::from([192, 0, 2, last]));
            Home::of(self.address(), agreed, |it| declared == Some(it))
        }

        /// What the peer's task does.
        fn refuse(&mut self, id: u64, facts: &Facts) {
            let agreed = facts.agreed();
            let rival = rival(id, self.address(), &agreed, self.home(&agreed));
            if self.established && self.pending.is_none() && rival.is_some() {
                (self.established, self.refused) = (false, true);
                self.claimed = None;
            }
        }

        /// What the peer does a while later.
        fn come_again(&mut self) {
            if std::mem::take(&mut self.refused) {
                self.established = true;
                self.left = None;
            }
        }
    }

    fn step(id: u64, session: &Session, agreed: &Agreed) -> Step {
        step_late(id, session, agreed, false)
    }

    /// `late`: the replica that should claim had its time.
    fn step_late(id: u64, session: &Session, agreed: &Agreed, late: bool) -> Step {
        let preserved = Preserved {
            graceful: FAMILIES.to_vec(),
            long_lived: Vec::new(),
        };
        let own = Own {
            replica: id,
            members: &MEMBERS,
            peer: PEER,
            families: &FAMILIES,
            established: session
                .established
                .then_some((session.address(), PeerKind::IbgpClient)),
            announced: session.announced,
            claimed: session.claimed.as_ref(),
            impatient: late,
            parting: &session.parting,
            restarted: false,
            served_secs: 0,
            away_secs: 0,
            left: session.left.as_ref(),
            preserved: &preserved,
            refused: session.refused,
            home: session.home(agreed),
        };
        next(&own, agreed)
    }

    fn decide(id: u64, session: &mut Session, facts: &Facts) {
        decide_late(id, session, facts, false);
    }

    fn decide_late(id: u64, session: &mut Session, facts: &Facts, late: bool) {
        session.refuse(id, facts);
        session.pending = match step_late(id, session, &facts.agreed(), late) {
            Step::Wait | Step::Done | Step::Commit => None,
            Step::Announce(batch) | Step::Release(batch) => Some((batch, None, None)),
            Step::Leave(batch, owner) => Some((batch, None, Some(owner))),
            Step::Claim(batch, owner) => Some((batch, Some(owner), None)),
        };
    }

    fn apply(session: &mut Session, facts: &mut Facts) {
        let Some((batch, claim, left)) = session.pending.take() else {
            return;
        };
        if !facts.apply(&batch) {
            return;
        }
        session.left = left.filter(|_| !session.established);
        if let Some(owner) = claim {
            session.claimed = Some(owner.clone());
            let key = FactKey::Route(Family::L2VPN_EVPN, PEER, b"x");
            let ops = vec![ledger::put(&key, Bytes::new())];
            facts.apply(&ledger::owned(PEER, Some(&owner), ops));
        }
    }

    proptest! {
        #[test]
        fn whatever_the_order_the_peer_has_one_owner_while_served_and_no_routes_after(
            events in proptest::collection::vec((0usize..3, 0u8..4), 0..120)
        ) {
            let mut facts = Facts::default();
            let mut sessions = vec![Session::default(); 3];
            for (at, event) in events {
                let session = &mut sessions[at];
                match event {
                    0 => { session.established = true; session.left = None; }
                    1 => { session.established = false; session.claimed = None; }
                    2 => decide(MEMBERS[at], session, &facts),
                    _ => apply(session, &mut facts),
                }
            }
            // Then nothing changes any more, and everybody acts until nobody has anything to do.
            for _ in 0..20 {
                for (at, session) in sessions.iter_mut().enumerate() {
                    apply(session, &mut facts);
                    decide(MEMBERS[at], session, &facts);
                    apply(session, &mut facts);
                }
            }
            let agreed = facts.agreed();
            let served: BTreeSet<_> = (0..3).filter(|at| sessions[*at].established).map(|at| MEMBERS[at]).collect();
            prop_assert_eq!(&agreed.sessions, &served);
            if served.is_empty() {
                prop_assert!(!facts.has_routes());
                prop_assert_eq!(agreed.owner, None);
            } else {
                let owner = agreed.owner.expect("a served peer has an owner");
                prop_assert!(served.contains(&owner.replica));
                let session = &sessions[usize::try_from(owner.replica).unwrap() - 1];
                prop_assert_eq!(session.claimed.as_ref(), Some(&owner));
            }
        }
    }

    proptest! {
        /// The third replica's session is of another device. A session that waits for what it proposed decides nothing. The
        /// identity of a declared device is its own, whoever is first.
        #[test]
        fn one_of_two_devices_with_one_identity_is_served_and_the_other_leaves_nothing(
            declared in proptest::option::of(1u8..3),
            events in proptest::collection::vec((0usize..3, 0u8..4), 0..120)
        ) {
            let mut facts = Facts::default();
            let mut sessions = vec![Session { declared, ..Session::default() }; 3];
            sessions[2].clone = true;
            for (at, event) in events {
                let session = &mut sessions[at];
                match event {
                    0 => { session.established = true; session.left = None; session.refused = false; }
                    1 => { session.established = false; session.claimed = None; session.refused = false; }
                    2 if session.pending.is_some() => {}
                    2 => decide(MEMBERS[at], session, &facts),
                    _ => apply(session, &mut facts),
                }
            }
            let served = sessions.iter().any(|session| session.established || session.refused);
            for round in 0..60 {
                for (at, session) in sessions.iter_mut().enumerate() {
                    apply(session, &mut facts);
                    if round == 20 {
                        session.come_again();
                    }
                    decide_late(MEMBERS[at], session, &facts, round >= 40);
                    apply(session, &mut facts);
                }
            }
            let established = || sessions.iter().filter(|session| session.established);
            let last = |session: &Session| Some(if session.clone { 2 } else { 1 });
            let mut there = sessions.iter().filter(|session| session.established || session.refused);
            if there.any(|session| last(session) == declared) {
                prop_assert!(established().all(|session| last(session) == declared), "the declared one");
            } else if declared.is_some() && established().next().is_none() {
                // The leader takes away what is kept for a declared device that has gone.
                return Ok(());
            }
            prop_assert_eq!(established().next().is_some(), served, "somebody is served");
            let agreed = facts.agreed();
            match agreed.owner {
                None => prop_assert!(!served && !facts.has_routes()),
                Some(owner) => {
                    prop_assert!(served);
                    prop_assert!(established().all(|session| session.address() == owner.address));
                    let session = &sessions[usize::try_from(owner.replica).unwrap() - 1];
                    prop_assert_eq!(session.claimed.as_ref(), Some(&owner));
                }
            }
        }
    }

    fn owned_by(replica: u64, sessions: &[u64]) -> Agreed {
        Agreed {
            owner: Some(Owner {
                replica,
                epoch: 1,
                address: "192.0.2.1".parse().unwrap(),
                kind: PeerKind::IbgpClient,
                fresh_from: 0,
                returned: None,
                retention: None,
            }),
            sessions: sessions.iter().copied().collect(),
        }
    }

    #[test]
    fn a_second_device_with_the_identity_of_one_that_is_served_is_refused() {
        let (first, second) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let served = owned_by(1, &[1]);
        assert_eq!(rival(3, second, &served, Home::First), Some(first));
        // The same one at another replica.
        assert_eq!(rival(3, first, &served, Home::First), None);
        // It went, or it has moved to another address.
        assert_eq!(rival(3, second, &Agreed::default(), Home::First), None);
        assert_eq!(rival(1, second, &served, Home::First), None);
        let mut session = Session {
            established: true,
            clone: true,
            ..Session::default()
        };
        assert!(
            matches!(step(3, &session, &served), Step::Wait),
            "not even announced"
        );
        // While its owner is dead, those at its address go first.
        assert!(is_stranger(3, second, &owned_by(1, &[2, 3])));
        assert!(matches!(
            step(3, &session, &owned_by(1, &[2, 3])),
            Step::Wait
        ));
        assert!(matches!(
            step(3, &session, &owned_by(1, &[3])),
            Step::Claim(..)
        ));
        session.clone = false;
        assert!(!is_stranger(3, first, &owned_by(1, &[2, 3])));
    }

    /// Its restart may be an attacker's chance: a session with its router id and AS from elsewhere would take its paths away,
    /// and keep it out.
    #[test]
    fn the_identity_of_a_peer_that_restarts_belongs_to_its_address_for_its_restart_time() {
        let (first, second) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        // Its replica died, or it restarts.
        let mut away = owned_by(1, &[]);
        for retention in [None, Some(Phase::Graceful), Some(Phase::LongLived)] {
            let in_time = retention != Some(Phase::LongLived);
            away.owner.as_mut().unwrap().retention = retention.map(|phase| Retention {
                phase,
                restart_secs: 120,
                families: vec![(Family::L2VPN_EVPN, 3600)],
            });
            let mut session = Session {
                established: true,
                ..Session::default()
            };
            for replica in MEMBERS {
                assert_eq!(
                    rival(replica, first, &away, Home::First),
                    None,
                    "the peer itself"
                );
                let expected = in_time.then_some(first);
                assert_eq!(
                    rival(replica, second, &away, Home::First),
                    expected,
                    "{retention:?}"
                );
                session.clone = false;
                let next = step(replica, &session, &away);
                assert!(matches!(next, Step::Announce(_)), "{next:?}");
                session.clone = true;
                let next = step(replica, &session, &away);
                assert_eq!(matches!(next, Step::Wait), in_time, "{next:?}");
            }
        }
    }

    #[test]
    fn a_declared_address_keeps_its_identity_and_takes_it_back_at_once() {
        let (first, second) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut away = owned_by(1, &[]);
        away.owner.as_mut().unwrap().retention = Some(Retention {
            phase: Phase::LongLived,
            restart_secs: 120,
            families: vec![(EVPN, 3600)],
        });
        let is_first = |it| it == first;
        // However stale its paths are.
        let home = Home::of(second, &away, is_first);
        assert_eq!(rival(2, second, &away, home), Some(first));
        // Another device took the identity of the second, and is served, or restarts.
        let mut session = Session {
            established: true,
            clone: true,
            declared: Some(2),
            ..Session::default()
        };
        for taken in [owned_by(1, &[1]), owned_by(1, &[]), away] {
            for replica in MEMBERS {
                let mut agreed = taken.clone();
                agreed.sessions.insert(replica);
                let Step::Claim(batch, claim) = step(replica, &session, &agreed) else {
                    panic!("at once");
                };
                assert_eq!((claim.address, &claim.returned), (second, &None));
                assert_eq!(gone(&batch.ops), FAMILIES, "what the other one said goes");
                let taken_back = Agreed {
                    owner: Some(claim),
                    ..agreed
                };
                let home = Home::of(first, &taken_back, |it| it == second);
                assert_eq!(rival(1, first, &taken_back, home), Some(second));
            }
        }
        // With both declared, or none, the first one stays.
        session.declared = None;
        let next = step(3, &session, &owned_by(1, &[1]));
        assert!(matches!(next, Step::Wait), "{next:?}");
    }

    /// RFC 4724 §4.2: what it did not keep goes at once, whether its absence was said or not.
    #[test]
    fn a_peer_that_is_back_before_its_restart_was_said_has_only_what_it_preserved() {
        let address = "192.0.2.1".parse().unwrap();
        let owned = |replica| Agreed {
            owner: Some(Owner {
                replica,
                epoch: 3,
                address,
                kind: PeerKind::IbgpClient,
                fresh_from: 0,
                returned: None,
                retention: None,
            }),
            sessions: [1].into(),
        };
        let restart = |families: &[Family]| {
            Parting::Restarting(Retention {
                phase: Phase::Graceful,
                restart_secs: 120,
                families: families.iter().map(|family| (*family, 0)).collect(),
            })
        };
        let (all, none) = (restart(&FAMILIES), restart(&[]));
        let forgets = |agreed: &Agreed, restarted: Option<&Parting>, graceful: &[Family]| {
            let preserved = Preserved {
                graceful: graceful.to_vec(),
                long_lived: Vec::new(),
            };
            let own = Own {
                replica: 1,
                members: &MEMBERS,
                peer: PEER,
                families: &FAMILIES,
                established: Some((address, PeerKind::IbgpClient)),
                announced: true,
                claimed: None,
                impatient: false,
                parting: restarted.unwrap_or(&Parting::Gone),
                left: None,
                restarted: restarted.is_some(),
                served_secs: 0,
                away_secs: 0,
                preserved: &preserved,
                refused: false,
                home: Home::First,
            };
            let Step::Claim(batch, _) = next(&own, agreed) else {
                panic!("nobody else serves the peer");
            };
            let forgets = |op: &Op| matches!(op, Op::DeletePrefix { .. });
            batch.ops.iter().any(forgets)
        };
        assert!(forgets(&owned(1), Some(&all), &[]));
        assert!(!forgets(&owned(1), Some(&all), &FAMILIES));
        assert!(!forgets(&owned(1), None, &[]));
        // It had been away before that, and had not said all of it.
        assert!(forgets(&owned(1), Some(&none), &FAMILIES));
        // What another replica committed came over another session.
        assert!(!forgets(&owned(2), Some(&all), &[]));
    }

    /// Both replicas serve the peer, and the first owns it.
    fn served_by_two() -> (Facts, [Session; 2]) {
        let mut facts = Facts::default();
        let up = || Session {
            established: true,
            ..Session::default()
        };
        let mut sessions = [up(), up()];
        for _ in 0..4 {
            for (at, session) in sessions.iter_mut().enumerate() {
                decide(MEMBERS[at], session, &facts);
                apply(session, &mut facts);
            }
        }
        assert!(facts.has_routes());
        (facts, sessions)
    }

    fn act(id: u64, session: &mut Session, facts: &mut Facts) {
        decide(id, session, facts);
        apply(session, facts);
    }

    fn lose(session: &mut Session, parting: Parting) {
        session.established = false;
        session.claimed = None;
        session.parting = parting;
    }

    #[test]
    fn a_peer_that_goes_while_its_other_replica_dies_is_gone() {
        for (alive, dead) in [(0, 1), (1, 0)] {
            let (mut facts, mut sessions) = served_by_two();
            lose(&mut sessions[alive], Parting::Gone);
            // The other one is dead, and nobody knows it yet.
            for _ in 0..3 {
                act(MEMBERS[alive], &mut sessions[alive], &mut facts);
            }
            assert!(facts.has_routes());
            facts.apply(&disown(MEMBERS[dead]));
            let step = step(MEMBERS[alive], &sessions[alive], &facts.agreed());
            assert!(matches!(step, Step::Release(_)), "{step:?}");
            act(MEMBERS[alive], &mut sessions[alive], &mut facts);
            assert!(!facts.has_routes());
            let step = self::step(MEMBERS[alive], &sessions[alive], &facts.agreed());
            assert!(matches!(step, Step::Done), "{step:?}");
        }
    }

    /// The replica that dies had led, and took the answer with it.
    #[test]
    fn a_farewell_that_was_agreed_and_not_answered_is_remembered() {
        let (mut facts, [mut alive, _]) = served_by_two();
        alive.announced = true;
        lose(&mut alive, Parting::Gone);
        let Step::Leave(batch, owner) = step(1, &alive, &facts.agreed()) else {
            panic!("the other one is said to serve the peer");
        };
        assert!(facts.apply(&batch));
        alive.left = Some(owner);
        let again = step(1, &alive, &facts.agreed());
        assert!(matches!(again, Step::Leave(..)), "{again:?}");
        act(1, &mut alive, &mut facts);
        alive.announced = false;
        facts.apply(&disown(2));
        assert!(facts.has_routes());
        act(1, &mut alive, &mut facts);
        assert!(!facts.has_routes());
    }

    #[test]
    fn a_peer_that_restarts_while_its_other_replica_dies_gets_its_time() {
        let retention = Retention {
            phase: Phase::Graceful,
            restart_secs: 120,
            families: vec![(Family::L2VPN_EVPN, 0)],
        };
        let (mut facts, mut sessions) = served_by_two();
        lose(&mut sessions[0], Parting::Restarting(retention.clone()));
        act(1, &mut sessions[0], &mut facts);
        facts.apply(&disown(2));
        act(1, &mut sessions[0], &mut facts);
        assert!(facts.has_routes());
        assert_eq!(facts.agreed().owner.unwrap().retention, Some(retention));
        let step = step(1, &sessions[0], &facts.agreed());
        assert!(matches!(step, Step::Done), "{step:?}");
    }

    #[test]
    fn a_replica_that_served_the_peer_until_it_stopped_knows_better() {
        let (mut facts, mut sessions) = served_by_two();
        let owner = usize::from(facts.agreed().owner.unwrap().replica == 2);
        let other = 1 - owner;
        lose(&mut sessions[other], Parting::Gone);
        act(MEMBERS[other], &mut sessions[other], &mut facts);
        lose(&mut sessions[owner], Parting::OurDoing);
        act(MEMBERS[owner], &mut sessions[owner], &mut facts);
        assert!(facts.agreed().sessions.is_empty());
        let step = step(MEMBERS[other], &sessions[other], &facts.agreed());
        assert!(matches!(step, Step::Done), "{step:?}");
        assert!(facts.has_routes());
    }

    #[test]
    fn what_is_long_lived_stale_needs_the_bit_of_its_own_capability() {
        for (phase, stays) in [(Phase::Graceful, true), (Phase::LongLived, false)] {
            let (mut facts, [mut first, mut second]) = served_by_two();
            lose(&mut second, Parting::Gone);
            act(2, &mut second, &mut facts);
            lose(
                &mut first,
                Parting::Restarting(Retention {
                    phase,
                    restart_secs: 120,
                    families: vec![(Family::L2VPN_EVPN, 3600)],
                }),
            );
            act(1, &mut first, &mut facts);
            assert!(facts.has_routes());
            first.established = true;
            act(1, &mut first, &mut facts);
            let Step::Claim(batch, _) = step(1, &first, &facts.agreed()) else {
                panic!("nobody else may claim");
            };
            facts.apply(&batch);
            assert_eq!(facts.has_routes(), stays);
        }
    }

    /// A peer of two families that one replica serves, and what its record says of a life like this.
    struct Life {
        owner: Option<Owner>,
        secs: u32,
    }

    impl Life {
        fn own<'a>(&self, up: bool, parting: &'a Parting, preserved: &'a Preserved) -> Own<'a> {
            Own {
                replica: 1,
                members: &MEMBERS,
                peer: PEER,
                families: &BOTH,
                established: up.then_some(("192.0.2.1".parse().unwrap(), PeerKind::IbgpClient)),
                announced: true,
                claimed: None,
                impatient: false,
                parting,
                left: None,
                restarted: false,
                served_secs: self.secs,
                away_secs: self.secs,
                preserved,
                refused: false,
                home: Home::First,
            }
        }

        fn agreed(&self) -> Agreed {
            Agreed {
                owner: self.owner.clone(),
                sessions: [1].into(),
            }
        }

        /// It is back, after so many seconds; of which families its paths go.
        fn back(&mut self, secs: u32, unsaid: Option<&Parting>) -> Vec<Family> {
            self.secs = secs;
            let preserved = Preserved {
                graceful: BOTH.to_vec(),
                long_lived: BOTH.to_vec(),
            };
            let own = Own {
                restarted: unsaid.is_some(),
                ..self.own(true, unsaid.unwrap_or(&Parting::Gone), &preserved)
            };
            let Step::Claim(batch, claim) = next(&own, &self.agreed()) else {
                panic!("nobody else serves the peer");
            };
            self.owner = Some(claim);
            gone(&batch.ops)
        }

        /// It is lost after a session of so many seconds; of which families its paths go.
        fn lost(&mut self, secs: u32, parting: &Parting) -> Vec<Family> {
            self.secs = secs;
            let preserved = Preserved::default();
            let own = self.own(false, parting, &preserved);
            let Step::Release(batch) = next(&own, &self.agreed()) else {
                panic!("nobody else serves the peer");
            };
            let key = FactKey::Owner(PEER).encode();
            let record = batch.ops.iter().find_map(|op| match op {
                Op::Put { value, keys } if keys.contains(&key) => Owner::decode(value),
                _ => None,
            });
            self.owner = record;
            gone(&batch.ops)
        }

        /// Its time is over.
        fn aged(&mut self) {
            let owner = self.owner.clone().unwrap();
            let next = owner.retention.as_ref().unwrap().next();
            self.owner = next.map(|next| Owner {
                retention: Some(next),
                ..owner
            });
        }

        fn settled(&mut self, said: &[Family]) {
            let owner = self.owner.as_ref().unwrap();
            self.owner = Some(settled(owner, |family| said.contains(&family)));
        }

        fn sifted(&mut self) {
            self.owner = Some(sifted(self.owner.as_ref().unwrap()));
        }

        fn fresh_from(&self) -> u64 {
            self.owner.as_ref().unwrap().fresh_from
        }

        fn retention(&self) -> Option<(Phase, Vec<(Family, u32)>)> {
            let retention = self.owner.as_ref()?.retention.clone()?;
            Some((retention.phase, retention.families))
        }
    }

    fn gone(ops: &[Op]) -> Vec<Family> {
        let prefix = |op: &Op| match op {
            Op::DeletePrefix { prefix } => Some(FactPrefix::decode(prefix).unwrap()),
            Op::Put { .. } | Op::Delete { .. } => None,
        };
        let family = |prefix| match prefix {
            FactPrefix::RoutesOfPeer(family, _) => family,
            FactPrefix::SessionsOfReplica(_)
            | FactPrefix::Balance
            | FactPrefix::Slot(_)
            | FactPrefix::Edits => panic!("{prefix:?}"),
        };
        ops.iter().filter_map(prefix).map(family).collect()
    }

    /// For 120 s, and EVPN for an hour more.
    fn restart() -> Parting {
        Parting::Restarting(Retention {
            phase: Phase::Graceful,
            restart_secs: 120,
            families: vec![(EVPN, 3600), (IPV4, 0)],
        })
    }

    fn served() -> Life {
        let mut life = Life {
            owner: None,
            secs: 0,
        };
        assert_eq!(life.back(0, None), []);
        life
    }

    /// RFC 4724 §4.2.
    #[test]
    fn what_was_stale_and_not_said_again_does_not_outlive_a_second_restart() {
        // Nobody knows what that is.
        let mut life = served();
        assert_eq!(life.lost(900, &restart()), []);
        assert_eq!(life.back(5, None), []);
        life.settled(&[IPV4]);
        assert_eq!(life.lost(2, &restart()), [EVPN]);
        assert_eq!(life.retention(), Some((Phase::Graceful, vec![(IPV4, 0)])));

        // The same, and it is back before that is said.
        let mut life = served();
        life.lost(900, &restart());
        life.back(5, None);
        assert_eq!(life.back(0, Some(&restart())), BOTH);
        assert_eq!(life.owner.as_ref().unwrap().returned, None);

        // It was sifted, or all was said.
        for sifted in [true, false] {
            let mut life = served();
            life.lost(900, &restart());
            life.back(5, None);
            match sifted {
                true => life.sifted(),
                false => life.settled(&BOTH),
            }
            assert_eq!(life.lost(2, &restart()), []);
            let families = vec![(EVPN, 3600), (IPV4, 0)];
            assert_eq!(life.retention(), Some((Phase::Graceful, families)));
        }
    }

    /// RFC 9494 §4.2.
    #[test]
    fn what_is_long_lived_stale_and_not_said_again_stays_so_for_the_rest_of_its_time() {
        let mut life = served();
        life.lost(900, &restart());
        life.aged();
        assert_eq!(
            life.retention(),
            Some((Phase::LongLived, vec![(EVPN, 3600)]))
        );
        assert_eq!(life.back(1000, None), [IPV4]);
        assert_eq!(life.fresh_from(), 2);
        // It says IPv4, and not all of EVPN.
        life.settled(&[IPV4]);
        assert_eq!(life.lost(300, &restart()), []);
        let left = 3600 - 1000 - 300 - 120;
        let families = vec![(EVPN, left), (IPV4, 0)];
        assert_eq!(life.retention(), Some((Phase::Graceful, families)));
        // Back soon: what was no more than stale goes at the next loss, what was long-lived stale does not.
        assert_eq!(life.back(5, None), []);
        assert_eq!(life.fresh_from(), 2);
        life.sifted();
        assert_eq!(life.lost(80, &restart()), []);
        let families = vec![(EVPN, left - 80 - 120), (IPV4, 0)];
        assert_eq!(life.retention(), Some((Phase::Graceful, families)));
        // Back after long: all of it is stale.
        life.aged();
        assert_eq!(life.back(100, None), [IPV4]);
        assert_eq!(life.fresh_from(), 4);
        life.settled(&BOTH);
        assert_eq!(life.fresh_from(), 0);
        life.lost(80, &restart());
        let families = vec![(EVPN, 3600), (IPV4, 0)];
        assert_eq!(life.retention(), Some((Phase::Graceful, families)));
    }

    #[test]
    fn the_next_replica_knows_what_a_peer_is_back_from() {
        let mut life = served();
        life.lost(900, &restart());
        life.aged();
        life.back(1000, None);
        let before = life.owner.clone().unwrap();
        let owner = Owner {
            replica: 2,
            ..before.clone()
        };
        life.owner = Some(owner);
        assert_eq!(life.back(0, None), []);
        let owner = life.owner.unwrap();
        assert_eq!(owner.returned, before.returned);
        assert_eq!(owner.fresh_from, before.fresh_from);
    }

    #[test]
    fn an_epoch_only_grows() {
        let mut facts = Facts::default();
        let mut session = Session {
            established: true,
            ..Session::default()
        };
        let mut last = 0;
        for _ in 0..3 {
            for _ in 0..3 {
                decide(1, &mut session, &facts);
                apply(&mut session, &mut facts);
            }
            let epoch = facts.agreed().owner.unwrap().epoch;
            assert!(epoch > last);
            last = epoch;
            // The session ends and comes back before the release was proposed.
            session.claimed = None;
        }
    }

    #[test]
    fn peers_spread_over_replicas() {
        let sessions = BTreeSet::from(MEMBERS);
        let mut counts = BTreeMap::new();
        for n in 0..300 {
            let peer = PeerId {
                router_id: RouterId(n),
                asn: 64_496,
            };
            *counts.entry(preferred(peer, &sessions)).or_insert(0) += 1;
        }
        assert!(
            counts.values().all(|count| (70..130).contains(count)),
            "{counts:?}"
        );
    }
}
