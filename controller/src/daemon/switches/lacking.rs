//! What leaves do not have of what they are to have: by what their agents say, by their silence, and by what they answered over gRIBI.
//! Knows no plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weft_proto::agent::v1::{PrefixState, State};

use crate::balancer::pins::lacking::{Bare, Lacking, Lacks, Missing, OwnRoute, Partly};
use crate::fabric::topology::SwitchName;
use crate::southbound::intent::Mode;
use crate::southbound::{AgentStatus, Prefixes};

/// What this replica knows of the agent of a leaf that is on, by what that says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// Nothing yet.
    Unheard,
    /// Nothing, for longer than every weft-agent needs.
    Unanswered,
    /// The gRIBI server of the leaf is no weft-agent, and says nothing of what it has.
    Foreign,
    /// The weft-agent spoke and does not any more: since how long, and how long its lease lasts.
    Silent(Duration, Duration),
    /// What it does, and which prefixes are not wholly in force.
    Speaks(State, Arc<Partly>),
}

/// By what is known of the agents of leaves that are on, by the leaves that get nothing yet, and by the sessions to switches, which
/// come in the order in which they count.
pub(super) fn of_leaves<'a>(
    agents: BTreeMap<SwitchName, Agent>,
    waiting: impl Iterator<Item = &'a SwitchName>,
    sessions: &[AgentStatus],
    now: Instant,
) -> Lacking {
    let waiting: BTreeSet<&SwitchName> = waiting.collect();
    let on = sessions.iter().rev().filter(|it| it.mode == Mode::On);
    let sessions: BTreeMap<&SwitchName, &AgentStatus> = on.map(|it| (&it.switch, it)).collect();
    let lacking = agents.into_iter().filter_map(|(leaf, agent)| {
        let session = sessions.get(&leaf).copied();
        let lacks = match waiting.contains(&leaf) {
            true => Some(Lacks::All(Bare::Unheard)),
            false => lacks(&agent, session, now),
        };
        Some((leaf, lacks?))
    });
    lacking.collect()
}

/// What a leaf does not have; None: it has all.
fn lacks(agent: &Agent, session: Option<&AgentStatus>, now: Instant) -> Option<Lacks> {
    let up = session.filter(|it| it.is_up);
    let bare = match (agent, up) {
        (Agent::Unheard, _) => Some(Bare::Unheard),
        (Agent::Speaks(State::Bypassed, _), _) => Some(Bare::Bypassed),
        (Agent::Speaks(State::Idle, _), None) => Some(Bare::Empty),
        // Nobody says that it is a weft-agent, and whoever serves gRIBI may take what it gets.
        (Agent::Unanswered, None) if session.is_none_or(|it| it.last_heard.is_none()) => {
            Some(Bare::Unanswered)
        }
        // One that answers over gRIBI lives, and its lease is renewed.
        (Agent::Silent(silence, lease), None) => silent((*silence, *lease), session, now),
        (Agent::Speaks(..) | Agent::Foreign | Agent::Unanswered | Agent::Silent(..), _) => None,
    };
    if let Some(bare) = bare {
        return Some(Lacks::All(bare));
    }
    // What it was given before goes with its lease.
    let Some(withheld) = up.and_then(|it| it.withheld.as_ref()) else {
        return Some(Lacks::All(Bare::Unread));
    };
    let missing = Missing {
        withheld: Arc::clone(withheld),
        partly: match agent {
            Agent::Speaks(_, partly) => Arc::clone(partly),
            Agent::Unheard | Agent::Unanswered | Agent::Foreign | Agent::Silent(..) => {
                Arc::default()
            }
        },
    };
    (!missing.is_empty()).then_some(Lacks::These(missing))
}

/// `Bare::Silent` if a silent weft-agent has removed everything, for its lease is over; None: the lease may not be over. What is heard
/// over gRIBI renews it, too.
fn silent(
    (silence, lease): (Duration, Duration),
    session: Option<&AgentStatus>,
    now: Instant,
) -> Option<Bare> {
    let heard = session.and_then(|it| it.last_heard);
    let over_gribi = heard.map(|at| now.saturating_duration_since(at));
    let silence = over_gribi.map_or(silence, |it| it.min(silence));
    let secs = silence.as_secs();
    (silence > lease).then_some(Bare::Silent { secs })
}

/// The prefixes of which not all next hops are in force, by what a weft-agent says of all.
pub(super) fn partly(prefixes: &Prefixes) -> Partly {
    let partly = prefixes.iter().filter_map(|(name, prefix)| {
        let bypassed = match prefix.state() {
            PrefixState::Partial => None,
            PrefixState::Bypassed => Some(prefix.reason.as_str().into()),
            PrefixState::Unspecified | PrefixState::Absent | PrefixState::Forwarding => {
                return None;
            }
        };
        let interfaces = prefix.own.iter().map(|hop| hop.interface_name.clone());
        let own = OwnRoute {
            bypassed,
            interfaces: interfaces.collect(),
        };
        Some((*name, own))
    });
    partly.collect()
}

/// A weft-agent removes everything when it was told nothing for so long, unless it was started with more; when it died, its guardian has
/// done that.
pub(super) const LEASE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use weft_proto::agent::v1::{NextHop, Prefix};

    use super::*;
    use crate::southbound::AgentState;
    use crate::southbound::intent::{Target, Withheld};

    /// A session to a leaf that is on, in which everything was answered.
    fn session(leaf: &str, is_up: bool, withheld: &Withheld) -> AgentStatus {
        let address = "192.0.2.1:9340".into();
        AgentStatus {
            withheld: Some(Arc::new(withheld.clone())),
            is_up,
            ..AgentStatus::new(leaf.into(), address, Mode::On, AgentState::Held)
        }
    }

    fn some() -> Withheld {
        let prefix = Target::Prefix("198.51.100.2/32".parse().unwrap());
        [(prefix, "accepted, not active: no".into())].into()
    }

    fn active() -> Agent {
        Agent::Speaks(State::Active, Arc::default())
    }

    #[test]
    fn a_leaf_has_what_it_answered_in_a_session_that_is_up() {
        let now = Instant::now();
        let silent = |secs| Agent::Silent(Duration::from_secs(secs), LEASE);
        let idle = || Agent::Speaks(State::Idle, Arc::default());
        let bypassed = || Agent::Speaks(State::Bypassed, Arc::default());
        for (agent, up, down) in [
            (Agent::Unheard, Some(Bare::Unheard), Some(Bare::Unheard)),
            (Agent::Unanswered, None, Some(Bare::Unanswered)),
            (Agent::Foreign, None, Some(Bare::Unread)),
            // Its counters are silent, its session is not.
            (silent(12), None, Some(Bare::Silent { secs: 12 })),
            (silent(9), None, Some(Bare::Unread)),
            // Its session is lost, and it goes on to speak: until its lease is over it has what it had.
            (active(), None, Some(Bare::Unread)),
            (idle(), None, Some(Bare::Empty)),
            (bypassed(), Some(Bare::Bypassed), Some(Bare::Bypassed)),
        ] {
            for (is_up, expected) in [(true, up), (false, down)] {
                let session = session("leaf1", is_up, &Withheld::new());
                let found = lacks(&agent, Some(&session), now);
                assert_eq!(found, expected.map(Lacks::All), "{agent:?}, up: {is_up}");
            }
        }
        assert_eq!(lacks(&active(), None, now), Some(Lacks::All(Bare::Unread)));
    }

    #[test]
    fn nobody_knows_what_a_leaf_has_before_it_was_read() {
        let mut fresh = session("leaf1", true, &Withheld::new());
        fresh.withheld = None;
        let unread = Some(Lacks::All(Bare::Unread));
        assert_eq!(lacks(&active(), Some(&fresh), Instant::now()), unread);
    }

    #[test]
    fn the_lease_of_an_agent_goes_on_until_its_session_is_silent_too() {
        let start = Instant::now();
        let mut lost = session("leaf1", false, &Withheld::new());
        lost.last_heard = Some(start + Duration::from_secs(30));
        let after = |secs| {
            let silence = Duration::from_secs(secs);
            lacks(&Agent::Silent(silence, LEASE), Some(&lost), start + silence)
        };
        assert_eq!(after(40), Some(Lacks::All(Bare::Unread)));
        let silent = Bare::Silent { secs: 11 };
        assert_eq!(after(41), Some(Lacks::All(silent)));
    }

    #[test]
    fn a_leaf_that_has_nothing_lacks_more_than_one_that_holds_some() {
        let leaf = |name: &str| SwitchName::from(name);
        let own = OwnRoute::default();
        let partly: Arc<Partly> = Arc::new([("198.51.100.3/32".parse().unwrap(), own)].into());
        let agents = [
            (leaf("leaf1"), active()),
            (leaf("leaf2"), active()),
            (
                leaf("leaf3"),
                Agent::Speaks(State::Active, Arc::clone(&partly)),
            ),
            (leaf("leaf4"), active()),
        ];
        let mut leaving = session("leaf4", false, &Withheld::new());
        leaving.state = AgentState::TurningOff;
        let sessions = [
            session("leaf1", true, &some()),
            session("leaf2", true, &some()),
            session("leaf3", true, &Withheld::new()),
            session("leaf4", true, &Withheld::new()),
            // Where it was before its address changed.
            leaving,
        ];
        // Leaf 9 is in shadow, and waits too.
        let waiting = [leaf("leaf2"), leaf("leaf9")];
        let now = Instant::now();
        let lacking = of_leaves(agents.into(), waiting.iter(), &sessions, now);
        let withheld = Missing {
            withheld: Arc::new(some()),
            ..Missing::default()
        };
        let unused = Missing {
            partly,
            ..Missing::default()
        };
        let expected = [
            (leaf("leaf1"), Lacks::These(withheld)),
            (leaf("leaf2"), Lacks::All(Bare::Unheard)),
            (leaf("leaf3"), Lacks::These(unused)),
        ];
        assert_eq!(lacking, Lacking::from(expected));
    }

    #[test]
    fn what_is_not_wholly_in_force_is_known_with_what_own_routing_has() {
        let prefix = |last: u8, state: PrefixState, own: &[&str]| {
            let hops = own.iter().map(|interface| NextHop {
                interface_name: (*interface).to_owned(),
                ..NextHop::default()
            });
            let name = format!("192.0.2.{last}/32");
            let prefix = Prefix {
                prefix: name.clone(),
                state: state.into(),
                reason: "why".to_owned(),
                own: hops.collect(),
                ..Prefix::default()
            };
            (name.parse().unwrap(), Arc::new(prefix))
        };
        let found = partly(&Prefixes::from([
            prefix(1, PrefixState::Forwarding, &["eth1", "eth2"]),
            prefix(2, PrefixState::Partial, &["eth2"]),
            prefix(3, PrefixState::Bypassed, &[]),
            prefix(4, PrefixState::Absent, &["eth1"]),
        ]));
        let own = |bypassed: Option<&str>, interfaces: &[&str]| OwnRoute {
            bypassed: bypassed.map(Arc::from),
            interfaces: interfaces.iter().map(|it| (*it).to_owned()).collect(),
        };
        let expected = [
            ("192.0.2.2/32".parse().unwrap(), own(None, &["eth2"])),
            ("192.0.2.3/32".parse().unwrap(), own(Some("why"), &[])),
        ];
        assert_eq!(found, Partly::from(expected));
    }
}
