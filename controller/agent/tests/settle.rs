//! Random operations, link flaps and refusals: whatever happens, the agent never gives an operation
//! that the kernel's rules forbid, and ends with exactly what the RIB and the links allow.

#[path = "client/session.rs"]
mod session;

use std::collections::BTreeMap;
use std::time::Duration;

use ipnet::IpNet;
use proptest::prelude::*;
use tokio::runtime::Builder;
use weft_agent::agent::{Agent, Config, Input, Now, Output};
use weft_agent::election::Client;
use weft_agent::fib::Ids;
use weft_agent::forwarding::recorded::Recorded;
use weft_agent::forwarding::{Family, Forwarding, Installed, Link, Member, Path};
use weft_proto::gribi::aft_operation::Entry;
use weft_proto::gribi::{AftOperation, ModifyRequest, Uint128};

#[derive(Clone, Debug)]
enum Step {
    Operation(i32, Target),
    Turn(usize, bool),
    Restart,
}

#[derive(Clone, Debug)]
enum Target {
    NextHop(u64, usize),
    Group(u64, BTreeMap<u64, u64>),
    Prefix(u8, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let members = proptest::collection::btree_map(1..5_u64, 1..4_u64, 1..4);
    let target = prop_oneof![
        (1..5_u64, 0..LINKS).prop_map(|(index, link)| Target::NextHop(index, link)),
        (1..4_u64, members).prop_map(|(id, members)| Target::Group(id, members)),
        (0..4_u8, 1..4_u64).prop_map(|(prefix, group)| Target::Prefix(prefix, group)),
    ];
    // ADD twice as often as the others.
    let verb = prop_oneof![Just(1), Just(1), Just(2), Just(3)];
    prop_oneof![
        12 => (verb, target).prop_map(|(verb, target)| Step::Operation(verb, target)),
        4 => (0..LINKS, any::<bool>()).prop_map(|(link, up)| Step::Turn(link, up)),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_switch_always_has_what_rib_and_links_allow(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let mut world = World::new().await;
            for step in steps {
                world.step(step).await;
            }
        });
    }
}

struct World {
    agent: Agent,
    recorded: Recorded,
    up: [bool; LINKS],
    /// The model: what was accepted, and still is there.
    next_hops: BTreeMap<u64, usize>,
    groups: BTreeMap<u64, BTreeMap<u64, u64>>,
    prefixes: BTreeMap<u8, u64>,
    accepted: bool,
}

impl World {
    async fn new() -> Self {
        let links = (0..LINKS).map(|link| Link {
            index: u32::try_from(link).expect("small") + 1,
            name: format!("up{link}"),
            up: true,
            addresses: vec![subnet(link)],
            vxlan: false,
            vni: None,
            tx_octets: 0,
            rx_octets: 0,
        });
        let recorded = Recorded::new(links.collect());
        let agent = start(&mut recorded.clone()).await;
        let (next_hops, groups, prefixes) = Default::default();
        let up = [true; LINKS];
        let mut world = Self {
            agent,
            recorded,
            up,
            next_hops,
            groups,
            prefixes,
            accepted: false,
        };
        world.elect().await;
        world
    }

    async fn elect(&mut self) {
        self.handle(Input::Opened(CLIENT, String::new())).await;
        for request in session::opening(1) {
            self.handle(Input::Request(CLIENT, request)).await;
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Operation(verb, target) => self.operate(verb, target).await,
            Step::Turn(link, up) => {
                self.up[link] = up;
                self.recorded.turn(&format!("up{link}"), up);
                let observed = self.recorded.observe().await.expect("readable");
                self.handle(Input::Observed(observed)).await;
            }
            Step::Restart => self.restart().await,
        }
        assert_eq!(self.recorded.installed(), self.wanted());
    }

    /// A new agent removes what the last one left.
    async fn restart(&mut self) {
        self.agent = start(&mut self.recorded.clone()).await;
        self.next_hops.clear();
        self.groups.clear();
        self.prefixes.clear();
        self.elect().await;
    }

    async fn operate(&mut self, verb: i32, target: Target) {
        let operation = AftOperation {
            id: 1,
            network_instance: "DEFAULT".into(),
            op: verb,
            election_id: Some(Uint128 { high: 0, low: 1 }),
            entry: Some(entry(&target)),
        };
        let request = ModifyRequest {
            operation: vec![operation],
            ..Default::default()
        };
        self.accepted = false;
        self.handle(Input::Request(CLIENT, request)).await;
        let expected = self.model(verb, target);
        assert_eq!(self.accepted, expected);
    }

    /// Does to the model what gRIBI says; whether it is to be accepted.
    fn model(&mut self, verb: i32, target: Target) -> bool {
        let Self {
            next_hops,
            groups,
            prefixes,
            ..
        } = self;
        let (exists, used, complete) = match &target {
            Target::NextHop(index, _) => {
                let used = groups.values().any(|members| members.contains_key(index));
                (next_hops.contains_key(index), used, true)
            }
            Target::Group(id, members) => {
                let used = prefixes.values().any(|group| group == id);
                let complete = members.keys().all(|index| next_hops.contains_key(index));
                (groups.contains_key(id), used, complete)
            }
            Target::Prefix(prefix, group) => (
                prefixes.contains_key(prefix),
                false,
                groups.contains_key(group),
            ),
        };
        let accepted = match verb {
            3 => !used,
            2 => exists && complete,
            _ => complete,
        };
        if accepted {
            match (verb, target) {
                (3, Target::NextHop(index, _)) => drop(next_hops.remove(&index)),
                (3, Target::Group(id, _)) => drop(groups.remove(&id)),
                (3, Target::Prefix(prefix, _)) => drop(prefixes.remove(&prefix)),
                (_, Target::NextHop(index, link)) => drop(next_hops.insert(index, link)),
                (_, Target::Group(id, members)) => drop(groups.insert(id, members)),
                (_, Target::Prefix(prefix, group)) => drop(prefixes.insert(prefix, group)),
            }
        }
        accepted
    }

    fn wanted(&self) -> Installed {
        let id = |index: &u64| BASE + u32::try_from(*index).expect("small");
        let group_id = |id: &u64| BASE + 0x80_0000 + u32::try_from(*id).expect("small");
        let mut wanted = Installed::default();
        for (index, link) in self.next_hops.iter().filter(|(_, link)| self.up[**link]) {
            let interface = u32::try_from(*link).expect("small") + 1;
            wanted.next_hops.insert(
                id(index),
                Path {
                    gateway: Some(gateway(*link)),
                    interface,
                },
            );
        }
        for (group, members) in &self.groups {
            let usable = members
                .iter()
                .filter(|(index, _)| wanted.next_hops.contains_key(&id(index)));
            let usable: Vec<Member> = usable
                .map(|(index, weight)| Member {
                    next_hop: id(index),
                    weight: u16::try_from(*weight).expect("small"),
                })
                .collect();
            if !usable.is_empty() {
                wanted.groups.insert(group_id(group), usable);
            }
        }
        for (prefix, group) in &self.prefixes {
            if wanted.groups.contains_key(&group_id(group)) {
                wanted.routes.insert(destination(*prefix), group_id(group));
                wanted.rules.insert(Family::V4);
            }
        }
        wanted
    }

    async fn handle(&mut self, input: Input) {
        self.agent.handle(input, Now::default());
        while let Some(output) = self.agent.poll_output() {
            match output {
                Output::Program(operation) => {
                    let outcome = self.recorded.apply(&operation).await;
                    assert_eq!(outcome, Ok(()), "{operation:?}");
                    let acknowledged = Input::Acknowledged(outcome);
                    self.agent.handle(acknowledged, Now::default());
                }
                Output::Respond(_, response) => {
                    self.accepted = response.result.iter().any(|result| result.status != 2);
                }
                Output::Mark(number, _) => {
                    self.agent
                        .handle(Input::Marked(number, Ok(())), Now::default());
                }
                Output::End(_, _) | Output::Flushed(_, _) | Output::Unsettled(_, _) => {
                    panic!("{output:?}");
                }
            }
        }
    }
}

async fn start(recorded: &mut Recorded) -> Agent {
    let config = Config {
        network_instance: "DEFAULT".into(),
        ids: Ids::new(BASE).expect("a range"),
        prefixes: vec![
            "0.0.0.0/0".parse().expect("a prefix"),
            "::/0".parse().expect("a prefix"),
        ],
        pins: true,
        lease: Duration::from_secs(3600),
        allow_override: false,
    };
    let mut agent = Agent::new(config, recorded.observe().await.expect("readable"));
    while let Some(output) = agent.poll_output() {
        let Output::Program(operation) = output else {
            panic!("{output:?}");
        };
        let outcome = recorded.apply(&operation).await;
        assert_eq!(outcome, Ok(()), "{operation:?}");
        agent.handle(Input::Acknowledged(outcome), Now::default());
    }
    agent
}

fn entry(target: &Target) -> Entry {
    match target {
        Target::NextHop(index, link) => {
            session::next_hop(*index, &gateway(*link).to_string(), None)
        }
        Target::Group(id, members) => {
            let members: Vec<_> = members.clone().into_iter().collect();
            session::group(*id, &members)
        }
        Target::Prefix(prefix, group) => session::prefix(&destination(*prefix).to_string(), *group),
    }
}

fn subnet(link: usize) -> IpNet {
    format!("198.18.{link}.1/24").parse().expect("a subnet")
}

fn gateway(link: usize) -> std::net::IpAddr {
    format!("198.18.{link}.2").parse().expect("an address")
}

fn destination(prefix: u8) -> IpNet {
    format!("203.0.113.{}/32", prefix)
        .parse()
        .expect("a prefix")
}

const LINKS: usize = 3;
const CLIENT: Client = Client(1);
const BASE: u32 = 0x5700_0000;
