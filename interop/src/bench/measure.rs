//! The course of one measurement: sessions, load, a late joiner, single routes.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{clock, daemon::Daemon, failure::Failure};

use super::{
    load::{EXTRAS, Load},
    reflector,
    speaker::{Goal, Speaker},
    swarm,
    usage::{Processor, machine_secs, peak_mib},
};

/// What one reflector needed.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// From the first UPDATE until every speaker had every route of the others.
    pub(crate) converged: Duration,
    /// Of the reflector, from the first UPDATE until it was idle again.
    pub(crate) processor: Processor,
    /// Of the load generator until convergence.
    pub(crate) generator_secs: f64,
    /// Of everything else on the machine until convergence: what was stolen from both.
    pub(crate) others_secs: f64,
    pub(crate) peak_mib: f64,
    /// Received by all speakers until convergence.
    pub(crate) octets: u64,
    pub(crate) updates: u64,
    pub(crate) duplicates: u64,
    /// A client's own routes, sent back to it.
    pub(crate) returned: u64,
    /// From a late speaker's session until it had all routes.
    pub(crate) joined: Duration,
    pub(crate) announced: Latency,
    pub(crate) withdrawn: Latency,
}

/// From one speaker's write to another's read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latency {
    pub(crate) median: Duration,
    pub(crate) p99: Duration,
}

/// Measures the reflector that these processes are. They run, but need not listen yet.
pub(crate) fn measure(
    load: &Load,
    daemons: &[Daemon],
    threads: usize,
    limit: Duration,
) -> Result<Measured, Failure> {
    let until = clock::deadline(limit);
    let pids: Vec<u32> = daemons.iter().filter_map(Daemon::pid).collect();
    let reflector = SocketAddr::new(
        reflector::ADDRESS.parse().expect("the address is valid"),
        BGP_PORT,
    );
    let mut speakers: Vec<Speaker> = (0..load.speakers)
        .map(|number| Speaker::new(load, number))
        .collect();
    swarm::establish(&mut speakers, load, reflector, until)?;
    for speaker in &mut speakers {
        let announcements = load.announcements(speaker.number);
        speaker.say(&announcements);
    }
    settle(until)?;

    let own = [std::process::id()];
    let used = || {
        let generator = Processor::of(&own).total;
        (Processor::of(&pids), generator, machine_secs())
    };
    let before = used();
    let start = Instant::now();
    serve(&mut speakers, load, Goal::Complete, until, threads)?;
    let after = used();
    let generator_secs = after.1 - before.1;
    let used_secs = after.0.total - before.0.total + generator_secs;
    let others_secs = (after.2 - before.2 - used_secs).max(0.0);
    let last = speakers
        .iter()
        .filter_map(|speaker| speaker.completed)
        .max();
    let converged = last.unwrap_or(start).duration_since(start);
    let sum = |count: fn(&Speaker) -> u64| speakers.iter().map(count).sum();
    let (octets, updates) = (sum(|s| s.received.octets), sum(|s| s.received.updates));
    settle(until)?;
    let processor = Processor::of(&pids).since(&before.0);

    let joined = join_late(&mut speakers, load, reflector, until, threads)?;
    let (announced, withdrawn) = single_routes(&mut speakers, load, until)?;
    finish(&mut speakers, load, until, threads)?;
    let sum = |count: fn(&Speaker) -> u64| speakers.iter().map(count).sum();
    Ok(Measured {
        converged,
        processor,
        generator_secs,
        others_secs,
        peak_mib: peak_mib(&pids),
        octets,
        updates,
        duplicates: sum(|s| s.received.duplicates),
        returned: sum(|s| s.received.own),
        joined,
        announced,
        withdrawn,
    })
}

/// Another speaker, without routes of its own, once all is stable.
fn join_late(
    speakers: &mut Vec<Speaker>,
    load: &Load,
    reflector: SocketAddr,
    until: Instant,
    threads: usize,
) -> Result<Duration, Failure> {
    let mut joiner = [Speaker::new(load, load.speakers)];
    swarm::establish(&mut joiner, load, reflector, until)?;
    serve(&mut joiner, load, Goal::Complete, until, 1)?;
    speakers.extend(joiner);
    serve(speakers, load, Goal::Complete, until, threads)?;
    let joiner = speakers.last().expect("it was pushed just now");
    let began = joiner.established.expect("it reached Complete");
    let ended = joiner.completed.expect("it reached Complete");
    Ok(ended.duration_since(began))
}

/// One route more, one route less. Meanwhile the other speakers do not read: their sockets hold these
/// few messages, and their work would count as the reflector's.
fn single_routes(
    speakers: &mut [Speaker],
    load: &Load,
    until: Instant,
) -> Result<(Latency, Latency), Failure> {
    let announcer = usize::try_from(load.announcer()).expect("u32 fits usize");
    let (head, tail) = speakers.split_at_mut(announcer);
    let watcher = &mut head[announcer - 1..];
    let announcer = &mut tail[0];
    let mut once = |octets: &[u8], goal: Goal| {
        clock::pause(PAUSE)?;
        let start = Instant::now();
        announcer.say(octets);
        announcer.write();
        serve(watcher, load, goal, until, 1)?;
        Ok::<Duration, Failure>(start.elapsed())
    };
    let (mut announced, mut withdrawn) = (Vec::new(), Vec::new());
    for number in 0..EXTRAS {
        let index = load.extra(number);
        announced.push(once(&load.announcement(index, 1), Goal::Has(index))?);
        withdrawn.push(once(&load.withdrawal(index), Goal::Lacks(index))?);
    }
    Ok((Latency::of(announced), Latency::of(withdrawn)))
}

/// One last route: whoever has it has seen all before it, and must then hold exactly what there is.
fn finish(
    speakers: &mut [Speaker],
    load: &Load,
    until: Instant,
    threads: usize,
) -> Result<(), Failure> {
    let sentinel = load.sentinel();
    let announcer = usize::try_from(load.announcer()).expect("u32 fits usize");
    speakers[announcer].say(&load.announcement(sentinel, 1));
    serve(speakers, load, Goal::Has(sentinel), until, threads)?;
    for speaker in speakers {
        let address = Load::address(speaker.number);
        if !speaker.received.complete(load) {
            let has = speaker.received.foreign;
            return Err(Failure::new(format!(
                "speaker {address} has {has} routes at the end"
            )));
        }
        if (0..EXTRAS).any(|number| speaker.received.has(load.extra(number))) {
            return Err(Failure::new(format!(
                "speaker {address} holds a route that was withdrawn"
            )));
        }
    }
    Ok(())
}

/// As `swarm::serve`; time that is up is an error that says who lacks what.
fn serve(
    speakers: &mut [Speaker],
    load: &Load,
    goal: Goal,
    until: Instant,
    threads: usize,
) -> Result<(), Failure> {
    if swarm::serve(speakers, load, goal, until, threads)? {
        return Ok(());
    }
    let late: Vec<&Speaker> = speakers
        .iter()
        .filter(|speaker| !speaker.reached(goal, load))
        .collect();
    let lacking: u64 = late
        .iter()
        .map(|speaker| u64::from(load.foreign(speaker.number) - speaker.received.foreign))
        .sum();
    Err(Failure::new(format!(
        "time is up: {} of {} speakers wait for {goal:?}, {lacking} routes are missing",
        late.len(),
        speakers.len()
    )))
}

/// Waits until the machine is as good as idle, but not for ever: some never are.
fn settle(until: Instant) -> Result<(), Failure> {
    let until = until.min(clock::deadline(SETTLE_WITHIN));
    let mut before = machine_secs();
    loop {
        clock::pause(SETTLE_STEP)?;
        let now = machine_secs();
        if now - before < SETTLE_STEP.as_secs_f64() * IDLE_SHARE || Instant::now() > until {
            return Ok(());
        }
        before = now;
    }
}

impl Latency {
    fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let at = |percent: usize| samples[(samples.len() * percent).div_ceil(100) - 1];
        Self {
            median: at(50),
            p99: at(99),
        }
    }
}

const BGP_PORT: u16 = 179;

/// Between two single routes.
const PAUSE: Duration = Duration::from_millis(50);

const SETTLE_STEP: Duration = Duration::from_millis(500);
const SETTLE_WITHIN: Duration = Duration::from_secs(30);
/// Of one core. Three replicas' heartbeats stay below it.
const IDLE_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples = (1..=100).rev().map(Duration::from_millis).collect();
        let latency = Latency::of(samples);
        assert_eq!(latency.median, Duration::from_millis(50));
        assert_eq!(latency.p99, Duration::from_millis(99));
        let one = Latency::of(vec![Duration::from_millis(7)]);
        assert_eq!(
            (one.median, one.p99),
            (Duration::from_millis(7), Duration::from_millis(7))
        );
    }
}
