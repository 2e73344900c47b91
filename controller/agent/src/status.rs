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
    Condition, ConditionType, Interface, ListPinsRequest, ListPinsResponse, PinCounter, Primary,
    State, Status, WatchStatusRequest,
};

use crate::agent::Agent;
use crate::driver::Command;
use crate::forwarding::kernel::Numbers;
use crate::forwarding::{Family, Link};
use crate::instance::Source;

mod prefixes;

pub use self::prefixes::ToldPrefixes;

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
            only_changed_prefixes,
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
        let asked = Asked {
            prefixes: parsed?,
            first_after: after(first_prefixes_after_ms),
            after: after(prefixes_after_ms),
            only_changes: only_changed_prefixes,
        };
        let watch = Command::Watch(asked, statuses);
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
#[derive(Debug)]
pub enum Told<'a> {
    /// These, beside those that are programmed.
    Prefixes(&'a BTreeSet<IpNet>),
    /// Prefixes that are not as they were told, of these and of those that are programmed. All count as told then.
    Changes(&'a BTreeSet<IpNet>, &'a mut ToldPrefixes),
    /// They are left out, and what follows from them is as in the last status; None: there was none yet.
    LeftOut(Option<&'a Status>),
}

/// What somebody who watches wants of prefixes: a switch has one for each leaf, and many agents would send theirs at the same
/// moment.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// These, beside those that are programmed.
    pub prefixes: BTreeSet<IpNet>,
    /// From the first status to the first one that has the prefixes.
    pub first_after: Duration,
    /// From a change to the status that has the prefixes. Zero: every status has them.
    pub after: Duration,
    /// Only those that changed, after the first status that has them.
    pub only_changes: bool,
}

/// Whether two statuses differ in no more than what changes all the time: counters, how many entries the kernel has, and times.
#[must_use]
pub fn is_alike(one: &Status, other: &Status) -> bool {
    let primary = |status: &Status| {
        let primary = status.primary.clone();
        primary.map(|it| (it.address, it.election_high, it.election_low))
    };
    // What is new in a status has to be compared, or to be named here.
    let Status {
        state,
        conditions,
        rule_installed,
        primary: _,
        interfaces,
        version: _,
        table: _,
        rule_priority: _,
        mark: _,
        mark_mask: _,
        routes: _,
        groups: _,
        next_hops: _,
        prefixes: _,
        prefixes_left_out: _,
        prefixes_are_changes: _,
        gone_prefixes: _,
    } = one;
    let both = interfaces.iter().zip(&other.interfaces);
    let mut both = both.map(|(one, other)| {
        (&one.name, one.up, &one.addresses) == (&other.name, other.up, &other.addresses)
    });
    (state, rule_installed) == (&other.state, &other.rule_installed)
        && primary(one) == primary(other)
        && *conditions == other.conditions
        && interfaces.len() == other.interfaces.len()
        && both.all(|same| same)
}

/// The state of the agent and of its switch.
#[must_use]
pub fn status(agent: &Agent, numbers: Numbers, told: Told<'_>, uptime: Duration) -> Status {
    let installed = agent.fib().installed();
    let prefixes_left_out = matches!(told, Told::LeftOut(_));
    let (prefixes, gone, follows) = match told {
        Told::Prefixes(asked) => {
            let all = prefixes::all(agent, asked, &mut ToldPrefixes::new());
            (all.changed, Vec::new(), all.conditions)
        }
        Told::Changes(asked, told) => {
            let all = prefixes::all(agent, asked, told);
            (all.changed, all.gone, all.conditions)
        }
        Told::LeftOut(before) => {
            let before = before.into_iter().flat_map(|before| &before.conditions);
            let follow = before.filter(|it| prefixes::follows(it));
            (Vec::new(), Vec::new(), follow.cloned().collect())
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
        prefixes_left_out,
        gone_prefixes: gone.iter().map(ToString::to_string).collect(),
        prefixes_are_changes: false,
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
            allow_override: false,
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
