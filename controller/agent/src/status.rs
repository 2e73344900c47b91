//! What the agent says of itself and of its switch: `weft.agent.v1`. Reads, changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use ipnet::IpNet;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status as Refused};
use weft_proto::agent::v1::agent_service_server::{AgentService, AgentServiceServer};
use weft_proto::agent::v1::{
    Condition, ConditionType, Interface, ListPinsRequest, ListPinsResponse, NextHop, PinCounter,
    Prefix, PrefixState, Primary, State, Status, WatchStatusRequest,
};

use crate::agent::Agent;
use crate::driver::Command;
use crate::entry::Key;
use crate::fib::Unusable;
use crate::forwarding::kernel::Numbers;
use crate::forwarding::{Family, Link, OwnHop};
use crate::instance::Source;

/// The service; clones share the driver.
#[derive(Clone, Debug)]
pub struct Service {
    commands: mpsc::Sender<Command>,
}

/// The service over the commands of a driver.
#[must_use]
pub fn service(commands: mpsc::Sender<Command>) -> AgentServiceServer<Service> {
    AgentServiceServer::new(Service { commands })
}

#[tonic::async_trait]
impl AgentService for Service {
    type WatchStatusStream = Pin<Box<dyn Stream<Item = Result<Status, Refused>> + Send>>;

    async fn watch_status(
        &self,
        request: Request<WatchStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Refused> {
        let WatchStatusRequest {
            prefixes,
            prefixes_after_ms,
            first_prefixes_after_ms,
        } = request.into_inner();
        if prefixes.len() > PREFIXES_MAX {
            return Err(Refused::invalid_argument(format!(
                "{} prefixes, at most {PREFIXES_MAX}",
                prefixes.len()
            )));
        }
        let parsed: Result<BTreeSet<IpNet>, Refused> = prefixes
            .iter()
            .map(|text| {
                let bad = |_| Refused::invalid_argument(format!("{text:?} is not a prefix"));
                text.parse::<IpNet>().map_err(bad)
            })
            .collect();
        let (statuses, queue) = mpsc::channel(STATUSES_MAX);
        let after = |ms: u32| Duration::from_millis(ms.into());
        let after = PrefixesAfter {
            first: after(first_prefixes_after_ms),
            change: after(prefixes_after_ms),
        };
        let watch = Command::Watch(parsed?, after, statuses);
        self.commands.send(watch).await.map_err(|_| stopped())?;
        Ok(Response::new(Box::pin(ReceiverStream::new(queue).map(Ok))))
    }

    async fn list_pins(
        &self,
        _: Request<ListPinsRequest>,
    ) -> Result<Response<ListPinsResponse>, Refused> {
        let (reply, pins) = oneshot::channel();
        let asked = self.commands.send(Command::Pins(reply)).await;
        asked.map_err(|_| stopped())?;
        let pins = pins.await.map_err(|_| stopped())?;
        Ok(Response::new(ListPinsResponse { pins }))
    }
}

fn stopped() -> Refused {
    Refused::unavailable("the agent is stopping")
}

/// What a status says of prefixes.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// These, beside those that are programmed.
    Prefixes(&'a BTreeSet<IpNet>),
    /// They are left out. The last status that had them; None: there was none yet.
    LeftOut(Option<&'a Status>),
}

/// Delays of the prefixes in a watched status: a switch has one for each leaf, and many agents would send theirs at the same
/// moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefixesAfter {
    /// From the first status to the first one that has the prefixes.
    pub first: Duration,
    /// From a change to the status that has the prefixes.
    pub change: Duration,
}

/// The state of the agent and of its switch.
#[must_use]
pub fn status(agent: &Agent, numbers: Numbers, told: Told<'_>, uptime: Duration) -> Status {
    let installed = agent.fib().installed();
    let (prefixes, follows) = match told {
        Told::Prefixes(asked) => {
            let prefixes = prefixes(agent, asked);
            let follows = of_prefixes(&prefixes);
            (prefixes, follows)
        }
        Told::LeftOut(before) => {
            let follow = |it: &&Condition| OF_PREFIXES.contains(&it.condition_type());
            let before = before.into_iter().flat_map(|before| &before.conditions);
            (Vec::new(), before.filter(follow).cloned().collect())
        }
    };
    let mut conditions = conditions(agent, uptime);
    conditions.extend(follows);
    let bypassed = conditions
        .iter()
        .any(|condition| condition.condition_type() == ConditionType::MarksUnavailable);
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Status {
        version: env!("CARGO_PKG_VERSION").into(),
        state: match (agent.rib().keys().next(), installed.rules.is_empty()) {
            (None, true) => State::Idle,
            (_, false) if !bypassed => State::Active,
            (_, _) => State::Bypassed,
        }
        .into(),
        conditions,
        table: numbers.table.into(),
        rule_priority: numbers.priority,
        rule_installed: !installed.rules.is_empty(),
        mark: numbers.mark,
        mark_mask: numbers.mask,
        primary: primary(agent, uptime),
        interfaces: interfaces(agent, uptime),
        prefixes,
        routes: count(installed.routes.len()),
        groups: count(installed.groups.len()),
        next_hops: count(installed.next_hops.len()),
        prefixes_left_out: matches!(told, Told::LeftOut(_)),
    }
}

/// Every pin whose packets the kernel counts, as it was counted last.
#[must_use]
pub fn pins(agent: &Agent, uptime: Duration) -> Vec<PinCounter> {
    let links = agent.fib().links().iter();
    let vnis = links.filter_map(|link| Some((link.name.as_str(), link.vni?)));
    let vnis: BTreeMap<&str, u32> = vnis.collect();
    let pins = agent.counted_pins(uptime).map(|(pin, rated)| PinCounter {
        device_name: pin.device.clone(),
        vni: vnis.get(pin.device.as_str()).copied(),
        source_address: match pin.source {
            Source::Address(address) => address.to_string(),
            Source::Any | Source::Port(_) => String::new(),
        },
        source_interface: match pin.source {
            Source::Port(port) => port.to_string(),
            Source::Any | Source::Address(_) => String::new(),
        },
        destination: pin.destination.map(|it| it.to_string()).unwrap_or_default(),
        ip_protocol: pin.port.map(|(protocol, _)| protocol.into()),
        source_port: pin.port.map(|(_, port)| port.into()),
        packets: rated.count.packets,
        octets: rated.count.octets,
        bits_per_second: rated.bps,
    });
    pins.collect()
}

fn primary(agent: &Agent, uptime: Duration) -> Option<Primary> {
    let election = agent.election();
    let id = election.highest()?;
    let address = election.primary().map(|client| election.address(client));
    let remaining = election.remaining(uptime).as_millis();
    Some(Primary {
        address: address.unwrap_or_default().to_owned(),
        election_high: id.high,
        election_low: id.low,
        lease_remaining_ms: u32::try_from(remaining).unwrap_or(u32::MAX),
    })
}

/// Interfaces, each with how long it has been up: with a duration, controllers need no clock of day that agrees with the switch's.
/// How long grows from status to status: like counters, it is no reason to send a status.
fn interfaces(agent: &Agent, uptime: Duration) -> Vec<Interface> {
    let up_for = |link: &Link| {
        let up_for = agent.up_for(&link.name, uptime).filter(|_| link.up)?;
        Some(u32::try_from(up_for.as_millis()).unwrap_or(u32::MAX))
    };
    let links = agent.fib().links().iter();
    links
        .map(|link| Interface {
            name: link.name.clone(),
            up: link.up,
            tx_octets: link.tx_octets,
            rx_octets: link.rx_octets,
            addresses: link.addresses.iter().map(IpNet::to_string).collect(),
            up_for_ms: up_for(link),
        })
        .collect()
}

fn conditions(agent: &Agent, uptime: Duration) -> Vec<Condition> {
    let mut conditions: Vec<(ConditionType, String)> = agent.conditions().shown(uptime).collect();
    for family in [Family::V4, Family::V6] {
        if agent.fib().has_foreign(family) {
            let text = format!("the table has {family:?} routes of somebody else");
            conditions.push((ConditionType::ForeignRoutes, text));
        }
    }
    let mut idle = agent.idle_pins(uptime);
    if let Some(first) = idle.next() {
        let text = format!("no packet was seen {first} since it was pinned");
        conditions.push((ConditionType::PinsIdle, and_more(text, idle.count())));
    }
    conditions.into_iter().map(condition).collect()
}

/// Conditions that follow from the states of prefixes.
fn of_prefixes(prefixes: &[Prefix]) -> Vec<Condition> {
    let states = [PrefixState::Partial, PrefixState::Bypassed];
    let conditions = states.into_iter().zip(OF_PREFIXES);
    let conditions = conditions.filter_map(|(state, kind)| {
        let mut of_state = prefixes.iter().filter(|prefix| prefix.state() == state);
        let first = of_state.next()?;
        let text = format!("{}: {}", first.prefix, first.reason);
        Some((kind, and_more(text, of_state.count())))
    });
    conditions.map(condition).collect()
}

fn condition((kind, message): (ConditionType, String)) -> Condition {
    Condition {
        condition_type: kind.into(),
        message,
    }
}

fn and_more(text: String, others: usize) -> String {
    match others {
        0 => text,
        others => format!("{text} (and {others} more)"),
    }
}

fn prefixes(agent: &Agent, asked: &BTreeSet<IpNet>) -> Vec<Prefix> {
    let programmed = agent.rib().keys().filter_map(|key| match key {
        Key::Prefix(prefix) => Some(prefix),
        Key::NextHop(_) | Key::Group(_) | Key::Policy(_) => None,
    });
    let all: BTreeSet<IpNet> = programmed.chain(asked.iter().copied()).collect();
    all.into_iter().map(|prefix| one(agent, prefix)).collect()
}

fn one(agent: &Agent, prefix: IpNet) -> Prefix {
    let (rib, fib) = (agent.rib(), agent.fib());
    let (state, reason) = if rib.prefix(prefix).is_none() {
        (PrefixState::Absent, String::new())
    } else {
        match (fib.state(Key::Prefix(prefix), rib), fib.partly(prefix, rib)) {
            _ if fib.has_foreign(Family::of(prefix)) => (
                PrefixState::Bypassed,
                "the table has routes of somebody else".into(),
            ),
            (Err(Unusable::Inactive(why) | Unusable::Refused(why)), _) => {
                (PrefixState::Bypassed, why)
            }
            (Ok(false), _) => (PrefixState::Bypassed, "the kernel does not have it".into()),
            (Ok(true), Some(why)) => (PrefixState::Partial, why),
            (Ok(true), None) => (PrefixState::Forwarding, String::new()),
        }
    };
    let own = fib.own().hops(prefix).iter();
    Prefix {
        prefix: prefix.to_string(),
        state: state.into(),
        reason,
        wanted: wanted(agent, prefix, state),
        own: own.map(|hop| own_hop(agent, hop)).collect(),
    }
}

fn wanted(agent: &Agent, prefix: IpNet, state: PrefixState) -> Vec<NextHop> {
    let (rib, fib) = (agent.rib(), agent.fib());
    let forwarded = matches!(state, PrefixState::Forwarding | PrefixState::Partial);
    let own = rib.prefix(prefix).map(|entry| entry.group);
    // The backup too, while it is what the prefix uses.
    let used = fib.used_group(prefix, rib).filter(|it| Some(*it) != own);
    let groups = own.into_iter().chain(used);
    let groups = groups.filter_map(|group| rib.group(group));
    let members = groups.flat_map(|group| &group.members);
    members
        .filter_map(|(index, weight)| {
            let next_hop = rib.next_hop(*index)?;
            Some(NextHop {
                address: next_hop
                    .address
                    .map(|address| address.to_string())
                    .unwrap_or_default(),
                interface_name: next_hop.interface.clone().unwrap_or_default(),
                weight: u32::try_from(*weight).unwrap_or(u32::MAX),
                in_use: forwarded && fib.obstacle(*index, prefix, rib).is_none(),
            })
        })
        .collect()
}

fn own_hop(agent: &Agent, hop: &OwnHop) -> NextHop {
    let mut links = agent.fib().links().iter();
    let link = links.find(|link| link.index == hop.path.interface);
    NextHop {
        address: hop
            .path
            .gateway
            .map(|address| address.to_string())
            .unwrap_or_default(),
        interface_name: link.map(|link| link.name.clone()).unwrap_or_default(),
        weight: hop.weight.into(),
        in_use: true,
    }
}

/// Conditions of prefixes of which some next hops are used, and of those of which none is.
const OF_PREFIXES: [ConditionType; 2] = [
    ConditionType::NextHopsUnused,
    ConditionType::PrefixesBypassed,
];

/// As many as the agent programs at most.
const PREFIXES_MAX: usize = 65_536;

/// Statuses that a slow reader has not taken. It gets the next one when it has room.
const STATUSES_MAX: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{Config, Input, Now};
    use crate::fib::Ids;
    use crate::forwarding::{Observed, Own};

    fn observed(up: [bool; 2]) -> Observed {
        let links = ["up1", "up2"].into_iter().zip(1..).zip(up);
        let links = links.map(|((name, index), up)| Link {
            index,
            name: name.into(),
            up,
            addresses: Vec::new(),
            vxlan: false,
            vni: None,
            tx_octets: 0,
            rx_octets: 0,
        });
        Observed {
            links: links.collect(),
            own: Own::Everything,
            ..Observed::default()
        }
    }

    #[test]
    fn a_status_says_how_long_an_interface_is_up_that_was_seen_to_come_up() {
        let config = Config {
            network_instance: "DEFAULT".into(),
            ids: Ids::new(0x5700_0000).expect("a range"),
            prefixes: Vec::new(),
            pins: false,
            lease: Duration::from_secs(5),
        };
        let mut agent = Agent::new(config, observed([true, false]));
        let mut look = |up, looked_ms, told_ms| {
            let now = Now {
                unix_ns: 0,
                uptime: Duration::from_millis(looked_ms),
            };
            agent.handle(Input::Observed(observed(up)), now);
            let asked = BTreeSet::new();
            let told = Told::Prefixes(&asked);
            let told_at = Duration::from_millis(told_ms);
            let status = status(&agent, Numbers::default(), told, told_at);
            let all = status.interfaces.into_iter();
            all.map(|it| (it.up, it.up_for_ms)).collect::<Vec<_>>()
        };
        let (before, down) = ((true, None), (false, None));
        assert_eq!(look([true, false], 1_000, 1_000), [before, down]);
        assert_eq!(look([true, true], 2_000, 2_000), [before, (true, Some(0))]);
        assert_eq!(
            look([true, true], 3_000, 5_500),
            [before, (true, Some(3_500))]
        );
        assert_eq!(
            look([false, true], 6_000, 6_000),
            [down, (true, Some(4_000))]
        );
        assert_eq!(look([true, false], 7_000, 7_001), [(true, Some(1)), down]);
    }
}
