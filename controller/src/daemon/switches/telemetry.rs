//! Listens to the gNMI servers of switches, at the leader. What follows from what they say is [`links`]'s, and of leaves `loads`'s and
//! `undeclared`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use weft_telemetry::{Client, Clock, Connect, Heard, Options, connect_tcp};

use super::agents::ANSWERED_WITHIN;
use super::led::Led;
use crate::config::Credentials;
use crate::fabric::fact::{JobName, SwitchName};
use crate::fabric::measured::{Measured, OffPlan};
use crate::fabric::topology::{Switch, Topology};
use crate::southbound::access::Access;

pub mod links;
mod loads;
mod undeclared;

use self::links::Links;
use self::loads::Loads;
pub(super) use self::loads::Predicted;
use self::undeclared::Undeclared;

/// The clients of all switches with a gNMI server.
pub(super) struct Telemetry {
    /// How a switch that is declared without TLS is connected to.
    connect: Connect,
    /// What the others are reached with.
    credentials: Arc<Credentials>,
    clock: Clock,
    loads: Loads,
    /// Jobs that are to be left to weights.
    off_plan: Vec<(JobName, OffPlan)>,
    undeclared: Undeclared,
    /// None: this replica does not lead, as far as is confirmed.
    clients: Option<BTreeMap<SwitchName, Listening>>,
    /// Grows whenever a switch says something new.
    spoken: watch::Sender<u64>,
}

/// The client of one switch, which ends with it.
struct Listening {
    address: Arc<str>,
    access: Access,
    heard: watch::Receiver<Heard>,
    since: Instant,
    /// Whether the switch was heard since this client began.
    spoke: bool,
    tasks: [AbortHandle; 2],
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Telemetry {
    /// Nobody is listened to yet.
    pub(super) fn new() -> Self {
        let begin = Instant::now();
        Self {
            connect: Arc::new(connect_tcp),
            credentials: Arc::default(),
            clock: Arc::new(move || begin.elapsed()),
            loads: Loads::default(),
            off_plan: Vec::new(),
            undeclared: Undeclared::default(),
            clients: None,
            spoken: watch::Sender::new(0),
        }
    }

    /// Changes whenever a switch says something new.
    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.spoken.subscribe()
    }

    /// What switches that are declared with TLS are reached with from now on.
    pub(super) fn set_credentials(&mut self, credentials: Arc<Credentials>) {
        self.credentials = credentials;
    }

    /// Listens to nobody: this replica does not lead.
    pub(super) fn forget(&mut self, led: &Led) {
        if self.clients.take().is_some() {
            led.links(|links| *links = Links::default());
            self.loads = Loads::default();
            self.off_plan.clear();
            self.undeclared = Undeclared::default();
        }
    }

    /// Whether switches were looked at since this replica leads.
    pub(super) fn is_listening(&self) -> bool {
        self.clients.is_some()
    }

    /// The leaves that should keep another percent of their uplinks free than is agreed, with what it should be.
    pub(super) fn kept_free(&self, agreed: &Measured) -> Vec<(SwitchName, u8)> {
        self.undeclared.undecided(agreed)
    }

    /// Jobs that are to be left to weights, as far as this replica found since it leads; those that are agreed on are forgotten.
    pub(super) fn off_plan(&mut self, agreed: &Measured) -> &[(JobName, OffPlan)] {
        let is_new = |job: &JobName, why: &OffPlan| agreed.off_plan(job) != Some(why);
        self.off_plan.retain(|(job, why)| is_new(job, why));
        &self.off_plan
    }

    /// Listens to the switches of a topology that have a gNMI server, and takes what they said since.
    pub(super) fn look(&mut self, topology: &Arc<Topology>, from: &Predicted<'_>, led: &Led) {
        let mut clients = self.clients.take().unwrap_or_default();
        self.listen(topology, &mut clients);
        let now = (self.clock)();
        led.links(|links| {
            links.set_topology(topology, from.agreed, now);
            let mut heard = Vec::new();
            for (switch, listening) in &mut clients {
                if listening.heard.has_changed().unwrap_or(false) {
                    let said = listening.heard.borrow_and_update();
                    let sample = match &*said {
                        Heard::Sample(sample) => Ok(Arc::clone(sample)),
                        Heard::Silent(why) => Err(Arc::from(why.as_str())),
                    };
                    listening.spoke |= sample.is_ok();
                    heard.push((switch.clone(), sample));
                }
            }
            let spoken = heard.iter().filter(|(_, sample)| sample.is_ok());
            let spoken: Vec<_> = spoken.map(|(switch, _)| switch.clone()).collect();
            links.learn(heard, now);
            links.find_came_up(&spoken, unix_ns());
            for leaf in &spoken {
                let off = self.loads.judge(leaf, links, from, now);
                self.off_plan.extend(off);
            }
            self.undeclared.look(&spoken, links, from, now);
        });
        self.clients = Some(clients);
    }

    /// Whether every switch spoke, or had the time to.
    pub(super) fn is_heard(&self, now: Instant) -> bool {
        let heard = |it: &Listening| it.spoke || now >= it.since + ANSWERED_WITHIN;
        let clients = self.clients.as_ref();
        clients.is_some_and(|clients| clients.values().all(heard))
    }

    /// Begins and ends clients.
    fn listen(&self, topology: &Topology, clients: &mut BTreeMap<SwitchName, Listening>) {
        let served = |switch: &Switch| {
            let address = switch.gnmi.clone()?;
            Some((address, Access::new(switch.tls, &self.credentials)))
        };
        clients.retain(|switch, it| {
            let served = topology.switch(switch).and_then(served);
            served.is_some_and(|(address, access)| address == it.address && access == it.access)
        });
        for switch in topology.switches() {
            if let Some((address, access)) = served(switch)
                && !clients.contains_key(&switch.name)
            {
                let listening = self.begin(address, access);
                clients.insert(switch.name.clone(), listening);
            }
        }
    }

    fn begin(&self, address: Arc<str>, access: Access) -> Listening {
        let dialer = access.dialer(&self.connect);
        let options = Options {
            metadata: dialer.login.metadata(),
            ..Options::default()
        };
        let clock = Arc::clone(&self.clock);
        let (client, heard) = Client::new(Arc::clone(&address), dialer.connect, clock, options);
        let client = tokio::spawn(client.run());
        let (mut news, spoken) = (heard.clone(), self.spoken.clone());
        let tell = tokio::spawn(async move {
            while news.changed().await.is_ok() {
                spoken.send_modify(|count| *count += 1);
            }
        });
        Listening {
            address,
            access,
            heard,
            since: Instant::now(),
            spoke: false,
            tasks: [client.abort_handle(), tell.abort_handle()],
        }
    }
}

/// The time of day, in nanoseconds since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "switches say at which time of day an interface came up"
)]
fn unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.map_or(0, |since| since.as_nanos());
    u64::try_from(since).unwrap_or(u64::MAX)
}
