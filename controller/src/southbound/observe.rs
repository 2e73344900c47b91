//! What weft-agent says of its switch, beside gRIBI: the latest status, for as long as it is fresh.
//!
//! It refuses to know what follows from it. A gRIBI server that is not a weft-agent answers UNIMPLEMENTED, as gRPC has it for
//! a service that a server does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::{Code, Streaming};
use weft_proto::agent::v1;
use weft_proto::agent::v1::agent_service_client::AgentServiceClient;

use super::access::Dialer;
use super::answers::Bound;
use super::gribi::{Counted, Wanted};
use super::intent::Mode;

mod bounds;

/// Grows whenever the status of a switch changes in more than counters.
pub(super) type Changes = Arc<watch::Sender<u64>>;

/// What is known of the weft-agent at the gRIBI server of a switch.
#[derive(Clone, Debug, Default)]
pub enum Heard {
    /// Nothing, or nothing that is fresh.
    #[default]
    Silent,
    /// The server answers, and has no such service: it is not a weft-agent.
    Foreign,
    /// Its latest status.
    Status(Arc<Said>),
}

/// What a weft-agent said last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// Its status without the prefixes.
    pub status: v1::Status,
    /// The prefixes that were asked for, as far as they were told; None: they were not yet. There are as many as other leaves, each
    /// with all its next hops.
    pub prefixes: Option<Arc<Prefixes>>,
}

/// What a weft-agent said of each prefix last.
pub type Prefixes = BTreeMap<IpNet, Arc<v1::Prefix>>;

impl Said {
    /// Takes a status; one without prefixes, or with those that changed, has the others that are known. Prefixes that nobody asked for
    /// are passed over: a switch may send any number of them.
    fn new(mut status: v1::Status, known: &Heard, asked: &BTreeSet<IpNet>) -> Self {
        let told = std::mem::take(&mut status.prefixes);
        let is_empty = told.is_empty() && status.gone_prefixes.is_empty();
        let told = told.into_iter();
        let told = told.filter_map(|it| Some((it.prefix.parse().ok()?, Arc::new(it))));
        let told = told.filter(|(prefix, _)| asked.contains(prefix));
        let gone = std::mem::take(&mut status.gone_prefixes);
        let are_changes = std::mem::take(&mut status.prefixes_are_changes);
        let known = match known {
            Heard::Status(known) => known.prefixes.clone(),
            Heard::Silent | Heard::Foreign => None,
        };
        let prefixes = match (status.prefixes_left_out, are_changes) {
            (true, _) => known,
            (false, true) if is_empty => known,
            (false, false) => Some(Arc::new(told.collect())),
            (false, true) => known.map(|mut known| {
                let all = Arc::make_mut(&mut known);
                for gone in gone.iter().filter_map(|it| it.parse().ok()) {
                    all.remove(&gone);
                }
                all.extend(told);
                known
            }),
        };
        status.prefixes_left_out = prefixes.is_none();
        Self { status, prefixes }
    }

    /// The status with its prefixes.
    pub fn whole(&self) -> v1::Status {
        let prefixes = self.prefixes.iter().flat_map(|it| it.values());
        v1::Status {
            prefixes: prefixes.map(|it| v1::Prefix::clone(it)).collect(),
            ..self.status.clone()
        }
    }
}

/// The task that watches the agent of one switch.
pub(super) struct Observer {
    pub(super) agent: Arc<str>,
    pub(super) dialer: Dialer,
    pub(super) wanted: watch::Receiver<Wanted>,
    pub(super) latest: watch::Sender<Heard>,
    pub(super) changes: Changes,
    /// From a change until the agent says which prefixes it has.
    pub(super) prefixes_after: Duration,
    /// From the first status of the agent until it says which prefixes it has.
    pub(super) first_prefixes_after: Duration,
    pub(super) counted: Counted,
}

/// Why a stream of statuses ended.
enum Ended {
    /// The server has no such service.
    Unimplemented,
    /// No connection, no answer, or silence.
    Lost,
    /// Other prefixes are asked for.
    OtherPrefixes,
    /// Nobody asks any more.
    Unwanted,
}

impl Observer {
    /// Watches while the mode is on or shadow, until the task is aborted.
    pub(super) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let asked = self.wanted.wait_for(|wanted| wanted.mode != Mode::Off);
            if asked.await.is_err() {
                return;
            }
            let ended = self.watch().await;
            if matches!(*self.latest.borrow(), Heard::Status(_)) {
                pause = PAUSE_MIN;
            }
            let foreign = matches!(*self.latest.borrow(), Heard::Foreign);
            let (heard, wait) = match ended {
                Ended::OtherPrefixes => continue,
                Ended::Unwanted => (Heard::Silent, Duration::ZERO),
                Ended::Unimplemented => (Heard::Foreign, UNIMPLEMENTED_PAUSE),
                // A server that is away is still the one that it was.
                Ended::Lost if foreign => (Heard::Foreign, pause),
                Ended::Lost => (Heard::Silent, pause),
            };
            self.publish(heard);
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn watch(&mut self) -> Ended {
        let prefixes = self.prefixes();
        let mut stream = match timeout(SILENCE_MAX, self.open(&prefixes)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(ended)) => return ended,
            Err(_) => return Ended::Lost,
        };
        let mut is_cut = false;
        loop {
            tokio::select! {
                status = timeout(SILENCE_MAX, stream.message()) => match status {
                    Ok(Ok(Some(mut status))) => {
                        if bounds::cut(&mut status) {
                            self.refuse(!is_cut);
                            is_cut = true;
                        }
                        let said = Said::new(status, &self.latest.borrow(), &prefixes);
                        self.publish(Heard::Status(Arc::new(said)));
                        tokio::time::sleep(STATUS_PAUSE).await;
                    }
                    Ok(Err(status)) => return refused(&status),
                    Ok(Ok(None)) | Err(_) => return Ended::Lost,
                },
                changed = self.wanted.changed() => {
                    if changed.is_err() || self.wanted.borrow().mode == Mode::Off {
                        return Ended::Unwanted;
                    }
                    if !self.wanted.borrow().routes.prefixes.keys().eq(&prefixes) {
                        return Ended::OtherPrefixes;
                    }
                }
            }
        }
    }

    async fn open(&self, prefixes: &BTreeSet<IpNet>) -> Result<Streaming<v1::Status>, Ended> {
        let line = self.dialer.open(self.agent.clone()).await;
        let client = AgentServiceClient::new(line.map_err(|_| Ended::Lost)?);
        let request = v1::WatchStatusRequest {
            prefixes: prefixes.iter().map(IpNet::to_string).collect(),
            prefixes_after_ms: ms(self.prefixes_after),
            first_prefixes_after_ms: ms(self.first_prefixes_after),
            only_changed_prefixes: true,
        };
        let octets_max = bounds::message_octets_max(prefixes.len());
        let mut client = client.max_decoding_message_size(octets_max);
        let stream = client.watch_status(request).await;
        Ok(stream.map_err(|status| refused(&status))?.into_inner())
    }

    /// Counts a status that was cut; the first of a stream is logged, too.
    fn refuse(&self, is_first: bool) {
        let Counted { switch, answers } = &self.counted;
        answers.refuse(switch, Bound::Status);
        if is_first {
            tracing::warn!(agent = %self.agent, %switch, "status of the switch exceeds its bounds; the rest is passed over");
        }
    }

    fn prefixes(&self) -> BTreeSet<IpNet> {
        self.wanted
            .borrow()
            .routes
            .prefixes
            .keys()
            .copied()
            .collect()
    }

    fn publish(&self, heard: Heard) {
        let before = self.latest.send_replace(heard);
        let after = self.latest.borrow();
        let same = match (&before, &*after) {
            (Heard::Status(before), Heard::Status(after)) => {
                !is_news(&before.status, &after.status)
            }
            (Heard::Silent, Heard::Silent) | (Heard::Foreign, Heard::Foreign) => true,
            (Heard::Silent | Heard::Foreign | Heard::Status(_), _) => false,
        };
        drop(after);
        if !same {
            self.changes.send_modify(|changes| *changes += 1);
        }
    }
}

fn ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn refused(status: &tonic::Status) -> Ended {
    match status.code() {
        Code::Unimplemented => Ended::Unimplemented,
        _ => Ended::Lost,
    }
}

/// Whether a status differs in more than counters, and in how many entries the kernel has: whoever programs them knows, and they change
/// for a while after each event.
fn is_news(before: &v1::Status, after: &v1::Status) -> bool {
    let rest = |status: &v1::Status| {
        let flags = (
            status.state,
            status.rule_installed,
            status.prefixes_left_out,
        );
        let numbers = (
            status.table,
            status.rule_priority,
            status.mark,
            status.mark_mask,
        );
        (flags, numbers)
    };
    before.version != after.version
        || before.conditions != after.conditions
        || rest(before) != rest(after)
        || !primary(before).eq(primary(after))
        || !interfaces(before).eq(interfaces(after))
}

fn primary(status: &v1::Status) -> impl Iterator<Item = (&str, u64, u64)> {
    let primary = status.primary.iter();
    primary.map(|it| (it.address.as_str(), it.election_high, it.election_low))
}

fn interfaces(status: &v1::Status) -> impl Iterator<Item = (&str, bool, &[String])> {
    let interfaces = status.interfaces.iter();
    interfaces.map(|it| (it.name.as_str(), it.up, it.addresses.as_slice()))
}

/// An agent speaks every second; one that is silent for this long says nothing any more.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Until a server that is not a weft-agent is asked again: it may have been replaced.
const UNIMPLEMENTED_PAUSE: Duration = Duration::from_secs(30);
/// Between attempts: doubled from the first to the second.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// From one status to the next, at least. A weft-agent leaves 50 ms between them; a switch that does not waits for its reader.
const STATUS_PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_without_prefixes_has_those_of_the_last_one_that_has_them() {
        let prefix = |name: &str| v1::Prefix {
            prefix: name.to_owned(),
            ..v1::Prefix::default()
        };
        let with = |names: &[&str]| v1::Status {
            prefixes: names.iter().map(|name| prefix(name)).collect(),
            ..v1::Status::default()
        };
        let without = v1::Status {
            groups: 7,
            prefixes_left_out: true,
            ..v1::Status::default()
        };
        let asked = (1..=3).map(|last| format!("192.0.2.{last}/32").parse().unwrap());
        let asked: BTreeSet<IpNet> = asked.collect();
        let heard = |status: v1::Status, known: &Heard| {
            Heard::Status(Arc::new(Said::new(status, known, &asked)))
        };
        let whole = |heard: &Heard| match heard {
            Heard::Status(said) => said.whole(),
            Heard::Silent | Heard::Foreign => panic!("it speaks"),
        };
        let first = heard(with(&["192.0.2.1/32"]), &Heard::Silent);
        assert_eq!(whole(&first), with(&["192.0.2.1/32"]));
        let second = heard(without.clone(), &first);
        assert_eq!(whole(&second).groups, 7);
        assert_eq!(whole(&second).prefixes, [prefix("192.0.2.1/32")]);
        let change = |name: &str, gone: &[&str]| v1::Status {
            prefixes_are_changes: true,
            gone_prefixes: gone.iter().map(ToString::to_string).collect(),
            ..with(&[name])
        };
        let changed = heard(change("192.0.2.2/32", &[]), &second);
        let names = ["192.0.2.1/32", "192.0.2.2/32"];
        assert_eq!(whole(&changed), with(&names));
        let changed = heard(change("192.0.2.3/32", &["192.0.2.1/32"]), &changed);
        let names = ["192.0.2.2/32", "192.0.2.3/32"];
        assert_eq!(whole(&changed), with(&names));
        // Of what nobody knows no change is known.
        let unknown = heard(change("192.0.2.2/32", &[]), &Heard::Silent);
        assert!(whole(&unknown).prefixes_left_out);
        // An agent that was silent may have become another one.
        assert_eq!(whole(&heard(without.clone(), &Heard::Silent)), without);
        let third = heard(with(&[]), &second);
        assert_eq!(whole(&third), with(&[]));
        // Nobody asked for the others, first or as changes.
        let names = ["192.0.2.1/32", "198.51.100.1/32", "0.0.0.0/0"];
        let first = heard(with(&names), &Heard::Silent);
        assert_eq!(whole(&first), with(&names[..1]));
        let changed = heard(change("198.51.100.1/32", &[]), &first);
        assert_eq!(whole(&changed), with(&names[..1]));
    }

    #[test]
    fn counters_and_that_an_interface_stays_up_are_no_news() {
        let status = |up: bool, up_for_ms: Option<u32>| v1::Status {
            interfaces: vec![v1::Interface {
                name: "eth1".to_owned(),
                up,
                up_for_ms,
                ..v1::Interface::default()
            }],
            ..v1::Status::default()
        };
        let first = status(true, Some(0));
        let mut later = status(true, Some(1_000));
        (later.routes, later.groups, later.next_hops) = (7, 8, 9);
        later.interfaces[0].tx_octets = 10;
        assert!(!is_news(&first, &later));
        assert!(is_news(&first, &status(false, None)));
        later.conditions.push(v1::Condition::default());
        assert!(is_news(&first, &later));
        let bypassed = v1::Status {
            state: v1::State::Bypassed.into(),
            ..first.clone()
        };
        assert!(is_news(&first, &bypassed));
    }
}
