//! Random orders and random changes of the switch's own routing: at every operation each prefix has
//! its old or its new next hops, and in the end none that the switch's own routing does not have.

#[path = "client/session.rs"]
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ipnet::IpNet;
use proptest::prelude::*;
use tokio::runtime::Builder;
use weft_agent::agent::{Agent, Config, Input, Now, Output};
use weft_agent::election::Client;
use weft_agent::fib::Ids;
use weft_agent::forwarding::kernel::Numbers;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::forwarding::{Family, Forwarding, Link, Own, OwnHop, OwnRoute, Path};
use weft_agent::status::{Told, ToldPrefixes, status};
use weft_proto::agent::v1::Prefix;
use weft_proto::gribi::aft_operation::Entry;
use weft_proto::gribi::{AftOperation, ModifyRequest, Uint128};

#[derive(Clone, Debug)]
enum Step {
    /// A group gets these members, with weights, and this backup. A backup that cannot be is refused.
    Group(u64, BTreeMap<u64, u64>, Option<u64>),
    /// A prefix uses this group.
    Prefix(u8, u64),
    /// The switch's own routing has these links for a prefix; none: no route.
    Route(u8, BTreeSet<u32>),
    /// A link goes down or up.
    Turn(u32, bool),
    /// Somebody else's route comes into the table, or goes.
    Trespass(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let members = proptest::collection::btree_map(1..=LINKS, 1..4_u64, 1..4);
    let links = proptest::collection::btree_set(1..=u32::try_from(LINKS).expect("small"), 0..5);
    prop_oneof![
        4 => (1..4_u64, members, proptest::option::of(1..4_u64))
            .prop_map(|(group, members, backup)| Step::Group(group, members, backup)),
        4 => (0..4_u8, 1..4_u64).prop_map(|(prefix, group)| Step::Prefix(prefix, group)),
        8 => (0..4_u8, links).prop_map(|(prefix, links)| Step::Route(prefix, links)),
        2 => (1..=4_u32, any::<bool>()).prop_map(|(link, up)| Step::Turn(link, up)),
        1 => any::<bool>().prop_map(Step::Trespass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_prefix_has_its_old_or_its_new_next_hops_and_only_those_of_the_switch(
        steps in proptest::collection::vec(step(), 1..50),
    ) {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in steps {
                world.step(step).await;
            }
        });
    }
}

/// Link and weight of each next hop that a prefix uses; None: left to the switch's own routing.
type Content = Option<BTreeMap<u32, u16>>;

struct World {
    agent: Agent,
    recorded: Recorded,
    own: BTreeMap<u8, BTreeSet<u32>>,
    operations: u64,
    told: ToldPrefixes,
    /// What somebody knows who is told changes only.
    known: BTreeMap<String, Prefix>,
}

impl World {
    async fn new() -> Self {
        let link = |index: u32| Link {
            index,
            name: format!("up{index}"),
            up: true,
            addresses: vec![format!("198.18.{index}.1/24").parse().expect("a subnet")],
            vxlan: false,
            vni: None,
            tx_octets: 0,
            rx_octets: 0,
        };
        let recorded = Recorded::new((1..=4).map(link).collect());
        recorded.route(Own::default());
        let config = Config {
            network_instance: "DEFAULT".into(),
            ids: Ids::new(0x5700_0000).expect("a range"),
            prefixes: vec!["203.0.113.0/24".parse().expect("a prefix")],
            pins: true,
            lease: Duration::from_secs(5),
            allow_override: false,
        };
        let observed = recorded.clone().observe().await.expect("readable");
        let mut world = Self {
            agent: Agent::new(config, observed),
            recorded,
            own: BTreeMap::new(),
            operations: 0,
            told: ToldPrefixes::new(),
            known: BTreeMap::new(),
        };
        world.begin().await;
        world
    }

    /// A primary client, a next hop for each link, and a group.
    async fn begin(&mut self) {
        self.handle(Input::Opened(CLIENT, String::new())).await;
        for request in session::opening(1) {
            self.handle(Input::Request(CLIENT, request)).await;
        }
        for index in 1..=LINKS {
            let address = format!("198.18.{index}.2");
            self.order(session::next_hop(index, &address, None)).await;
        }
        for group in 1..4 {
            self.order(group_entry(group, &BTreeMap::from([(group, 1)])))
                .await;
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Group(group, members, backup) => {
                let entry = group_entry(group, &members);
                let entry = match backup {
                    Some(backup) => session::backed(entry, backup),
                    None => entry,
                };
                self.order(entry).await;
            }
            Step::Prefix(prefix, group) => {
                let prefix = net(prefix).to_string();
                self.order(session::prefix(&prefix, group)).await;
            }
            Step::Route(prefix, links) => {
                self.own.insert(prefix, links);
                self.recorded.route(self.own());
                self.look().await;
            }
            Step::Turn(link, up) => {
                self.recorded.turn(&format!("up{link}"), up);
                self.look().await;
            }
            Step::Trespass(there) => {
                self.recorded.trespass(there.then(|| net(99)));
                self.look().await;
            }
        }
        self.check().await;
    }

    async fn check(&mut self) {
        let installed = self.recorded.installed();
        for prefix in 0..4 {
            let content = self.content(prefix);
            let allowed = self.own.get(&prefix).cloned().unwrap_or_default();
            for link in content.iter().flatten().map(|(link, _)| link) {
                assert!(
                    allowed.contains(link),
                    "{prefix}: {content:?} of {allowed:?}"
                );
            }
            let wanted = self.wanted(prefix).await;
            assert_eq!(content, wanted, "prefix {prefix}");
        }
        let foreign = self.agent.fib().has_foreign(Family::V4);
        let ruled = installed.rules.contains(&Family::V4);
        assert_eq!(ruled, !foreign && !installed.routes.is_empty());
        // Groups that nobody uses any more do not stay: three groups, and a subset for a prefix at most.
        assert!(installed.groups.len() <= 3 + 4);
        self.check_status(foreign);
    }

    /// Who is told changes only knows what is said of all prefixes, which is what the plane does.
    fn check_status(&mut self, foreign: bool) {
        // Now one that nobody programs is asked for, now another one.
        let asked = BTreeSet::from([net(100 + (self.operations % 2) as u8)]);
        let said = |told| status(&self.agent, Numbers::default(), told, Duration::ZERO);
        let whole = said(Told::Prefixes(&asked));
        let changes = said(Told::Changes(&asked, &mut self.told));
        for gone in &changes.gone_prefixes {
            assert!(self.known.remove(gone).is_some(), "{gone}");
        }
        let changed = changes.prefixes.into_iter();
        self.known
            .extend(changed.map(|prefix| (prefix.prefix.clone(), prefix)));
        let all = whole.prefixes.into_iter();
        let all: BTreeMap<_, _> = all.map(|prefix| (prefix.prefix.clone(), prefix)).collect();
        assert_eq!(self.known, all);
        assert_eq!(changes.conditions, whole.conditions);
        for prefix in (0..4).filter(|_| !foreign) {
            let said = all.get(&net(prefix).to_string());
            let used = said.into_iter().flat_map(|said| &said.wanted);
            let used = used.filter(|hop| hop.in_use).map(|hop| {
                let link = hop.address.split('.').nth(2).expect("198.18.link.2");
                let weight = u16::try_from(hop.weight).expect("small");
                (link.parse().expect("a link"), weight)
            });
            let used: BTreeMap<u32, u16> = used.collect();
            assert_eq!(used, self.content(prefix).unwrap_or_default());
        }
    }

    /// What a prefix is to have, from the RIB, the links and the switch's own routing alone.
    async fn wanted(&mut self, prefix: u8) -> Content {
        let links = self
            .recorded
            .clone()
            .observe()
            .await
            .expect("readable")
            .links;
        let up = |link: &u32| links.iter().any(|one| one.index == *link && one.up);
        let rib = self.agent.rib();
        let group = rib.group(rib.prefix(net(prefix))?.group)?;
        let allowed = self.own.get(&prefix)?;
        let backup = group.backup.and_then(|backup| rib.group(backup));
        let mut usable = [Some(group), backup].into_iter().flatten().map(|group| {
            let members = group.members.iter();
            let members =
                members.map(|(index, weight)| (u32::try_from(*index), u16::try_from(*weight)));
            members
                .map(|(link, weight)| (link.expect("small"), weight.expect("small")))
                .filter(|(link, _)| allowed.contains(link) && up(link))
                .collect::<BTreeMap<u32, u16>>()
        });
        usable.find(|members| !members.is_empty())
    }

    fn own(&self) -> Own {
        let mut own = Own::default();
        for (prefix, links) in self.own.iter().filter(|(_, links)| !links.is_empty()) {
            let hop = |link: &u32| OwnHop {
                path: Path {
                    gateway: Some(format!("198.18.{link}.2").parse().expect("an address")),
                    interface: *link,
                },
                weight: 1,
            };
            let hops = links.iter().map(hop).collect();
            own.insert(net(*prefix), OwnRoute { metric: 20, hops });
        }
        own
    }

    /// What the plane does with packets to a prefix.
    fn content(&self, prefix: u8) -> Content {
        let installed = self.recorded.installed();
        let group = installed.routes.get(&net(prefix))?;
        let members = installed
            .groups
            .get(group)
            .expect("no route without its group");
        let link = |id| {
            installed
                .next_hops
                .get(id)
                .expect("no member without its next hop")
        };
        let members = members.iter();
        let content = members.map(|member| (link(&member.next_hop).interface, member.weight));
        Some(content.collect())
    }

    async fn order(&mut self, entry: Entry) {
        self.operations += 1;
        let operation = AftOperation {
            id: self.operations,
            network_instance: "DEFAULT".into(),
            op: 1,
            election_id: Some(ELECTION),
            entry: Some(entry),
        };
        let request = ModifyRequest {
            operation: vec![operation],
            ..Default::default()
        };
        self.handle(Input::Request(CLIENT, request)).await;
    }

    async fn look(&mut self) {
        let observed = self.recorded.clone().observe().await.expect("readable");
        self.handle(Input::Observed(observed)).await;
    }

    async fn handle(&mut self, input: Input) {
        let before: Vec<Content> = (0..4).map(|prefix| self.content(prefix)).collect();
        let mut seen: Vec<Vec<Content>> =
            before.iter().map(|content| vec![content.clone()]).collect();
        self.agent.handle(input, Now::default());
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Program(operation) => {
                    let outcome = self.recorded.clone().apply(&operation).await;
                    assert_eq!(outcome, Ok(()), "{operation:?}");
                    let acknowledged = Input::Acknowledged(outcome);
                    self.agent.handle(acknowledged, Now::default());
                    for (prefix, seen) in (0..4).zip(&mut seen) {
                        seen.push(self.content(prefix));
                    }
                }
                Output::Respond(..) => {}
                Output::Mark(number, _) => {
                    self.agent
                        .handle(Input::Marked(number, Ok(())), Now::default());
                }
                Output::End(..) | Output::Flushed(..) | Output::Unsettled(..) => {
                    panic!("{output:?}");
                }
            }
        }
        for (prefix, seen) in (0..4).zip(&seen) {
            let after = self.content(prefix);
            for content in seen {
                assert!(
                    *content == seen[0] || *content == after,
                    "prefix {prefix} had {content:?} between {:?} and {after:?}",
                    seen[0]
                );
            }
        }
    }
}

fn group_entry(id: u64, members: &BTreeMap<u64, u64>) -> Entry {
    let members: Vec<_> = members.clone().into_iter().collect();
    session::group(id, &members)
}

fn net(prefix: u8) -> IpNet {
    format!("203.0.113.{prefix}/32").parse().expect("a prefix")
}

const LINKS: u64 = 4;
const CLIENT: Client = Client(1);
const ELECTION: Uint128 = Uint128 { high: 0, low: 1 };
