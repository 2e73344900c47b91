//! Storage beside a job whose pins fill whole links: leaves keep a part of their uplinks free for it, the certificate counts what is
//! left, and packets of the job go by their pins as before. weft is not told of storage: it measures it at host ports.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddrV4, UdpSocket},
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    Plan,
    condition::Condition,
    fabric::{self, Balance, Flow, Pattern, address, client},
    ways,
};
use crate::{
    check::{Checks, agreement},
    expect::Lines,
    failure::{Context, Failure},
    flows::{self, Flows, Route},
    lab::Lab,
    weft::{count, field},
};

/// A ring of VNI 100, and storage between hosts of VNI 200 that are in no job.
pub(super) fn check(lab: &Lab, plan: &Plan, checks: &mut Checks) -> Result<(), Failure> {
    let order = &plan.rings.ring;
    let pattern = Pattern::Ring("kept free", order.clone());
    let next = order.iter().cycle().skip(1);
    let ring = order.iter().zip(next);
    let ring = ring.map(|(from, to)| (format!("a{from}"), format!("a{to}")));
    let storage = STORAGE.map(|(from, to)| (from.to_owned(), to.to_owned()));
    // What goes to a host that no leaf has heard goes to all leaves.
    let pairs: Vec<(String, String)> = ring.chain(storage).collect();
    let name = "hosts of a ring, and those of storage, reach each other";
    fabric::reach(lab, name, &pairs, checks)?;
    fabric::enter(lab, Balance::On, checks)?;
    fabric::run_in(lab, &VNIS, &pattern, checks)?;
    let flows = fabric::pinned(lab)?;
    let start = Instant::now();
    let ports: Vec<u16> = (FIRST_PORT..).take(PORTS).collect();
    let packets = Flows::start(&route(lab, &flows)?, &ports, JOB_PACKETS_PER_SECOND)?;
    let name = "without storage nothing is kept free, and a flow fills a link";
    certified(lab, name, 0..=0, checks)?;
    let storage = Storage::start(lab)?;
    keeps(lab, checks)?;
    let name = "the certificate counts what is left beside storage";
    certified(lab, name, KEPT, checks)?;
    stays(lab, &flows, checks)?;
    let followed = (Condition::Healthy, &pattern);
    ways::follow(lab, plan, followed, checks)?;
    storage.end()?;
    keeps_less(lab, checks)?;
    arrived(packets, start, checks)?;
    fabric::ended_in(lab, &VNIS, checks)
}

/// The way of a flow that leaves the leaf of storage.
fn route(lab: &Lab, flows: &[Flow]) -> Result<Route, Failure> {
    let flow = flows.iter().find(|flow| flow.from_leaf == LEAF);
    let flow = flow.ok_or_else(|| Failure::new(format!("no flow of {LEAF} is pinned")))?;
    Ok(Route {
        from: lab.namespace(&flow.from)?.clone(),
        to: lab.namespace(&flow.to)?.clone(),
        address: in_vni(&flow.to)?,
    })
}

fn in_vni(host: &str) -> Result<Ipv4Addr, Failure> {
    address(host).parse().context(|| host.to_owned())
}

/// Waits until the leaves of storage keep a part of their uplinks free, and the others nothing.
fn keeps(lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
    let a_part = format!("{} to {} %", KEPT.start(), KEPT.end());
    let line = |leaf: &str, kept: &str| format!("{leaf} keeps {kept} free");
    let expected: Lines = [
        line(LEAF, &a_part),
        line("leaf2", &a_part),
        line("leaf3", "0 %"),
        line("leaf4", "0 %"),
    ]
    .into();
    checks.agree(
        "storage that no job declares: the leaves that send and take it keep a part of their uplinks free",
        checks.patience() * 2,
        &expected,
        || {
            let kept = kept_free(lab)?.into_iter();
            let lines = kept.map(|(leaf, percent)| match KEPT.contains(&percent) {
                true => line(&leaf, &a_part),
                false => line(&leaf, &format!("{percent} %")),
            });
            Ok(lines.collect())
        },
    )?;
    Ok(())
}

/// Looks whether the busiest link has a flow at the rate of a NIC, of what is left of it.
fn certified(
    lab: &Lab,
    name: &str,
    kept: RangeInclusive<u64>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    let good: Lines = ["a flow on what is left of a link".to_owned()].into();
    let mut seen = String::new();
    let answer = agreement(checks.patience(), &good, || {
        let most = kept_free(lab)?.into_values().max().unwrap_or_default();
        let load = max_load(lab)?;
        seen = format!("{most} % kept free, max load {:.1} %", load * 100.0);
        match kept.contains(&most) && is_one_flow(load, most) {
            true => Ok(good.clone()),
            false => Ok([seen.clone()].into()),
        }
    })?;
    checks.record(name, start, answer.map(|()| seen));
    Ok(())
}

/// Whether a share of what is left of a link is all of the link: a NIC has the rate of a link in this lab.
fn is_one_flow(load: f64, kept_free_percent: u64) -> bool {
    let of_all = load * (100.0 - kept_free_percent as f64) / 100.0;
    (of_all - 1.0).abs() < 0.01
}

/// Percent of its uplinks that each leaf keeps free.
fn kept_free(lab: &Lab) -> Result<BTreeMap<String, u64>, Failure> {
    let mut kept: BTreeMap<String, u64> = BTreeMap::new();
    for status in client(lab)?.list(&["link", "status"])? {
        let link = field(&status, "link_name");
        let Some((leaf, _)) = link.split_once(':') else {
            continue;
        };
        let percent = count(&status, "kept_free_percent").unwrap_or_default();
        let most = kept.entry(leaf.to_owned()).or_default();
        *most = percent.max(*most);
    }
    Ok(kept)
}

/// The largest share of what is left of a link that pins put on it.
fn max_load(lab: &Lab) -> Result<f64, Failure> {
    let shown = client(lab)?.answer(&["job", "show", "vni-100"])?;
    let load = shown["certificate"]["max_load"].as_f64();
    load.ok_or_else(|| Failure::new("no certificate"))
}

/// Looks whether every flow has the pin that it had.
fn stays(lab: &Lab, before: &[Flow], checks: &mut Checks) -> Result<(), Failure> {
    let start = Instant::now();
    let now = fabric::pinned(lab)?;
    let moved = now.iter().filter(|flow| !before.contains(flow));
    let moved: Vec<String> = moved
        .map(|flow| format!("{} to {} over {:?}", flow.from, flow.to, flow.spine))
        .collect();
    let said = format!("{} pins, {} before", now.len(), before.len());
    let answer = match moved.is_empty() && now.len() == before.len() {
        true => Ok(said),
        false => Err(format!(
            "expected: the same pins as before\nactual:   {said}; {}",
            moved.join(", ")
        )),
    };
    checks.record("no pin moves for it, and none is divided", start, answer);
    Ok(())
}

/// Waits until the leaf that sent storage keeps less free than it did at most.
fn keeps_less(lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
    let less: Lines = ["less".to_owned()].into();
    // A mean that is above a step when storage stops may still bring that step.
    let mut most = 0;
    checks.agree(
        "storage has stopped: after a minute less is kept free",
        checks.patience() * 2,
        &less,
        || {
            let kept = kept_free(lab)?.get(LEAF).copied().unwrap_or_default();
            most = kept.max(most);
            match kept < most {
                true => Ok(less.clone()),
                false => Ok([format!("{kept} % as before")].into()),
            }
        },
    )?;
    Ok(())
}

/// Ends the packets of a pinned flow, and looks whether all arrived.
fn arrived(packets: Flows, start: Instant, checks: &mut Checks) -> Result<(), Failure> {
    let count = packets.stop()?;
    let lost = count.lost(Duration::ZERO, Duration::MAX);
    let said = format!("{lost} of {} lost", count.sent());
    let answer = match lost {
        0 => Ok(said),
        _ => Err(format!("expected: 0 packets lost\nactual:   {said}")),
    };
    let name = "while storage comes and goes no packet of a pinned flow is lost";
    checks.record(name, start, answer);
    Ok(())
}

/// Steady UDP from hosts that are in no job.
struct Storage {
    enough: Arc<AtomicBool>,
    senders: Vec<JoinHandle<io::Result<()>>>,
}

impl Storage {
    /// Begins to send, at less than the rate of a NIC each.
    fn start(lab: &Lab) -> Result<Self, Failure> {
        let mut storage = Self {
            enough: Arc::default(),
            senders: Vec::new(),
        };
        let ports: Vec<u16> = (FIRST_PORT..).take(PORTS).collect();
        for (from, host) in STORAGE {
            let to = SocketAddrV4::new(in_vni(host)?, flows::PORT);
            let taker = lab.namespace(host)?.inside(|| UdpSocket::bind(to))?;
            let taker = taker.context(|| format!("a port of {host}"))?;
            let sockets = flows::senders(lab.namespace(from)?, &ports)?;
            let enough = Arc::clone(&storage.enough);
            storage.senders.push(thread::spawn(move || {
                let sent = send(&sockets, to, &enough);
                // Nobody reads it: while it is there nothing is answered.
                drop(taker);
                sent
            }));
        }
        Ok(storage)
    }

    fn end(mut self) -> Result<(), Failure> {
        self.enough.store(true, Ordering::Relaxed);
        for sender in self.senders.drain(..) {
            let joined = sender.join();
            let sent = joined.map_err(|_| Failure::new("a thread of storage panicked"))?;
            sent.context(|| "storage".to_owned())?;
        }
        Ok(())
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
    }
}

/// One packet after another, from each source port in turn: a hash spreads them over all uplinks.
fn send(sockets: &[UdpSocket], to: SocketAddrV4, enough: &AtomicBool) -> io::Result<()> {
    let begun = Instant::now();
    for (turn, socket) in (0_u32..).zip(sockets.iter().cycle()) {
        if enough.load(Ordering::Relaxed) {
            break;
        }
        let due = begun + GAP * turn;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        socket.send_to(&[0; OCTETS], to)?;
    }
    Ok(())
}

/// The leaf that storage comes from.
const LEAF: &str = "leaf1";

/// Hosts that send and take storage, both from leaf1 to leaf2: 79 Mb/s together, of 200 Mb/s that the uplinks of each leaf carry.
const STORAGE: [(&str, &str); 2] = [("b1", "b3"), ("b2", "b4")];

/// VNIs with a job.
const VNIS: [u32; 1] = [100];

/// Storage is 39 % of the uplinks: the mean over some 40 s is above 20 % within half a minute, and never above 40 %.
const KEPT: RangeInclusive<u64> = 20..=50;

/// Octets of a storage packet. The frame at the port of the leaf has 42 more: 39.7 Mb/s, with [`GAP`] between two.
const OCTETS: usize = 7_900;
const GAP: Duration = Duration::from_micros(1_600);

const FIRST_PORT: u16 = 30_000;
const PORTS: usize = 64;

/// Packets of 64 octets: less than 1 % of what a link carries.
const JOB_PACKETS_PER_SECOND: u32 = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_a_share_of_what_is_left() {
        assert!(is_one_flow(1.0, 0));
        assert!(is_one_flow(1.25, 20));
        assert!(is_one_flow(10.0 / 7.0, 30));
        assert!(!is_one_flow(1.0, 20));
        assert!(!is_one_flow(1.25, 30));
    }

    #[test]
    fn storage_is_less_than_its_nics_carry_and_more_than_a_step_above_what_is_waited_for() {
        let frame_bits = ((OCTETS + 42) * 8) as f64;
        let nic_bps = frame_bits / GAP.as_secs_f64();
        assert!(nic_bps < 0.9 * 50e6, "{nic_bps}");
        let percent = 2.0 * nic_bps / 200e6 * 100.0;
        assert!((30.0..40.0).contains(&percent), "{percent}");
    }
}
