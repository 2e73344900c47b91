//! How long the overlap sets of jobs take: at best, and with the pins that are planned. Pure. It refuses to know collectives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weft_weights::pin::{Part, Plane};

use super::sent::{self, Sent};
use super::{PinPlan, Posed, State, Weighted};
use crate::fabric::fact::JobName;

/// How long the groups and flows of one overlap set of a job take, for the octets that are declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetTime {
    /// Name of the overlap set; empty: that of groups and flows that name none.
    pub overlap_set: Arc<str>,
    /// Time in which the busiest NIC sends, or takes, what it has to at its rate.
    pub ideal: Duration,
    /// The ideal time, times the load of the busiest link between a leaf and a spine that the set goes over, where that is above 1. None:
    /// the job is not pinned, or not all of it.
    pub predicted: Option<Duration>,
}

impl SetTime {
    /// The least time of an overlap set: that of its busiest NIC, which has `octets` to send or to take at `bps` bits per second.
    pub(super) fn ideal(overlap_set: &str, octets: u128, bps: u64) -> Self {
        let nanos = octets.saturating_mul(8 * GIGA) / u128::from(bps.max(1));
        let secs = u64::try_from(nanos / GIGA).unwrap_or(u64::MAX);
        let rest = u32::try_from(nanos % GIGA).unwrap_or(0);
        Self {
            overlap_set: overlap_set.into(),
            ideal: Duration::new(secs, rest).min(LONGEST),
            predicted: None,
        }
    }

    /// Predicts it for a link with this share of its capacity on it.
    fn predict(&mut self, load: f64) {
        self.predicted = Some(match load > FULL {
            true => {
                let secs = self.ideal.as_secs_f64() * load;
                Duration::try_from_secs_f64(secs).map_or(LONGEST, |it| it.min(LONGEST))
            }
            false => self.ideal,
        });
    }
}

impl PinPlan {
    /// How long overlap sets of a job take, the first 64 in order of their names; and how many there are. Without any nobody knows what
    /// the job sends.
    pub fn times(&self, job: &JobName) -> (Vec<SetTime>, usize) {
        match self.jobs.get(job) {
            Some(plan) if plan.weighted == Some(Weighted::Wide) => {
                sent::wide_times(&self.topology, job)
            }
            Some(plan) => (plan.times.clone(), plan.sets),
            None => (Vec::new(), 0),
        }
    }
}

/// What links between leaves and spines carry, in bits per second, by their place.
struct Carried<'a> {
    /// Load of each link by what is sent always, and by each job in the overlap set in which it sends most there.
    all: Vec<f64>,
    /// Load of a link by a job in one overlap set: by link and job, then by set.
    apart: BTreeMap<(usize, &'a JobName), BTreeMap<u32, f64>>,
}

/// The highest loads that a job meets, as shares of a link's capacity.
#[derive(Default)]
struct Highest {
    /// On links over which it sends in several of its sets, what it sends in one alone aside.
    always: f64,
    /// On links over which it sends in this set.
    in_set: BTreeMap<u32, f64>,
}

impl Posed<'_> {
    /// Predicts how long the overlap sets of the jobs take with these parts.
    pub(super) fn predict_times(&self, plane: &Plane, parts: &[Part], made: &mut PinPlan) {
        let carried = self.carried(plane, parts);
        let mut highest: BTreeMap<&JobName, Highest> = BTreeMap::new();
        for part in parts {
            for (link, capacity_bps) in self.links(plane, part) {
                let mut before = None;
                for (job, sent) in &self.bundles[part.flow as usize] {
                    // Most of a bundle is of one job and set.
                    if before == Some((*job, sent.phase)) {
                        continue;
                    }
                    before = Some((*job, sent.phase));
                    let load = carried.bps(link, job, sent) / capacity_bps.max(1.0);
                    let highest = highest.entry(*job).or_default();
                    let most = match sent.phase {
                        Some(set) => highest.in_set.entry(set).or_default(),
                        None => &mut highest.always,
                    };
                    *most = most.max(load);
                }
            }
        }
        for (job, highest) in highest {
            let plan = made.jobs.get_mut(job).expect("every job has a plan");
            // What has no way takes for ever.
            if plan.state != State::Placed {
                continue;
            }
            for (set, time) in (0..).zip(&mut plan.times) {
                let own = highest.in_set.get(&set).copied().unwrap_or_default();
                time.predict(own.max(highest.always));
            }
        }
    }

    fn carried(&self, plane: &Plane, parts: &[Part]) -> Carried<'_> {
        let mut carried = Carried {
            all: vec![0.0; 2 * plane.leaves().len() * plane.spines().len()],
            apart: BTreeMap::new(),
        };
        for part in parts {
            let flow = part.flow as usize;
            let bundle = &self.bundles[flow];
            let bps: f64 = bundle.iter().map(|(_, sent)| sent.bps as f64).sum();
            let whole = f64::from(self.flows.all()[flow].subflows.max(1));
            let bps = bps * f64::from(part.subflows) / whole;
            for (link, _) in self.links(plane, part) {
                *match self.phases[flow] {
                    Some(phase) => {
                        let (job, _) = bundle[0];
                        let sets = carried.apart.entry((link, job)).or_default();
                        sets.entry(phase.phase).or_default()
                    }
                    None => &mut carried.all[link],
                } += bps;
            }
        }
        for ((link, _), sets) in &carried.apart {
            carried.all[*link] += most(sets);
        }
        carried
    }

    /// The links of a part, up to its spine and down from it: each by its place, with its capacity.
    fn links(&self, plane: &Plane, part: &Part) -> [(usize, f64); 2] {
        let flow = self.flows.all()[part.flow as usize];
        [(flow.from, 0), (flow.to, 1)].map(|(leaf, direction)| {
            let (leaf, spine) = (leaf as usize, part.spine as usize);
            let capacities = plane.links(leaf, spine).iter();
            let capacity_bps: f64 = capacities.map(|bps| *bps as f64).sum();
            let place = 2 * (leaf * plane.spines().len() + spine) + direction;
            (place, capacity_bps)
        })
    }
}

impl Carried<'_> {
    /// Bits per second over a link while a job sends this: other sets of the job are at other times.
    fn bps(&self, link: usize, job: &JobName, sent: &Sent) -> f64 {
        let all = self.all[link];
        let Some(sets) = self.apart.get(&(link, job)) else {
            return all;
        };
        let own = sent.phase.and_then(|set| sets.get(&set));
        all - most(sets) + own.copied().unwrap_or_default()
    }
}

fn most(sets: &BTreeMap<u32, f64>) -> f64 {
    sets.values().copied().fold(0.0, f64::max)
}

/// Overlap sets that a plan says the times of: as many as a person looks at.
pub(super) const SETS_NAMED: usize = 64;
/// Nanoseconds of a second.
const GIGA: u128 = 1_000_000_000;
/// As long as a protobuf Duration can be.
const LONGEST: Duration = Duration::from_secs(315_576_000_000);
/// Shares are sums of fractions: a link with this on it is full, and no more than that.
const FULL: f64 = 1.000_001;

#[cfg(test)]
mod tests {
    use weft_proto::v1;

    use super::*;
    use crate::balancer::pins::tests::{Bench, ring, state};
    use crate::fabric::topology::tests::with_nics;

    /// Names of overlap sets, and ideal and predicted times in microseconds.
    fn times(bench: &mut Bench, job: &str) -> Vec<(String, u128, Option<u128>)> {
        let (plan, _) = bench.adopt();
        let (times, count) = plan.times(&job.into());
        assert_eq!(times.len(), count.min(SETS_NAMED));
        let micros = |it: &SetTime| {
            let predicted = it.predicted.map(|it| it.as_micros());
            (it.overlap_set.to_string(), it.ideal.as_micros(), predicted)
        };
        times.iter().map(micros).collect()
    }

    fn group(name: &str, set: &str, ranks: &[u32], octets: u64) -> v1::CollectiveGroup {
        v1::CollectiveGroup {
            name: name.to_owned(),
            collective: v1::Collective::SendReceive.into(),
            ranks: ranks.to_vec(),
            octets,
            overlap_set: set.to_owned(),
            ..v1::CollectiveGroup::default()
        }
    }

    #[test]
    fn a_ring_takes_as_long_as_nccl_tests_says() {
        let mut job = ring("train", 4, 1..=4);
        job.groups[0].octets = 16_000_000_000;
        let mut bench = Bench::new(with_nics(4, 4, 4), &[job]);
        // 16 ranks: 2 * 15 / 16 of the octets, at 100 Gb/s.
        let expected = [(String::new(), 2_400_000, Some(2_400_000))];
        assert_eq!(times(&mut bench, "train"), expected);
    }

    #[test]
    fn each_set_has_its_time_and_what_stays_at_a_leaf_counts() {
        let mut job = ring("train", 2, 1..=2);
        // Ranks 0 to 3 are at leaves 1, 2, 1, 2.
        job.groups = vec![
            group("forward", "a", &[0, 1], 125_000_000),
            group("backward", "b", &[1, 0], 250_000_000),
            group("below", "c", &[0, 2], 500_000_000),
        ];
        let mut bench = Bench::new(with_nics(2, 2, 2), &[job]);
        let expected = [("a", 10_000), ("b", 20_000), ("c", 40_000)];
        let expected = expected.map(|(set, time)| (set.to_owned(), time, Some(time)));
        assert_eq!(times(&mut bench, "train"), expected);
    }

    #[test]
    fn a_link_above_its_capacity_makes_the_sets_longer_that_go_over_it() {
        let mut job = ring("train", 2, 1..=2);
        // Two NICs send over the only link that is left, or one.
        job.groups = vec![
            group("first", "both", &[0, 1], 125_000_000),
            group("second", "both", &[2, 3], 125_000_000),
            group("third", "one", &[1, 0], 125_000_000),
        ];
        let mut bench = Bench::new(with_nics(2, 1, 2), &[job]);
        let expected = [
            ("both", 10_000, Some(20_000)),
            ("one", 10_000, Some(10_000)),
        ];
        let expected = expected.map(|(set, ideal, predicted)| (set.to_owned(), ideal, predicted));
        assert_eq!(times(&mut bench, "train"), expected);
    }

    #[test]
    fn sets_of_one_job_do_not_slow_each_other() {
        let mut job = ring("train", 2, 1..=2);
        job.groups = vec![
            group("first", "a", &[0, 1], 125_000_000),
            group("second", "b", &[2, 3], 125_000_000),
        ];
        let mut bench = Bench::new(with_nics(2, 1, 2), &[job.clone()]);
        let expected = ["a", "b"].map(|set| (set.to_owned(), 10_000, Some(10_000)));
        assert_eq!(times(&mut bench, "train"), expected);
        // Without sets they are there together.
        job.groups.iter_mut().for_each(|it| it.overlap_set.clear());
        let mut bench = Bench::new(with_nics(2, 1, 2), &[job]);
        let expected = [(String::new(), 10_000, Some(20_000))];
        assert_eq!(times(&mut bench, "train"), expected);
    }

    #[test]
    fn an_all_to_all_v_sends_what_its_matrix_says() {
        let mut job = ring("train", 2, 1..=2);
        let group = &mut job.groups[0];
        group.set_collective(v1::Collective::AllToAllV);
        group.octets = 0;
        let mut matrix = [[0_u64; 4]; 4];
        (matrix[0][1], matrix[0][3]) = (125_000_000, 250_000_000);
        (matrix[3][0], matrix[2][2]) = (500_000_000, u64::MAX);
        group.pair_octets = matrix.concat();
        let mut bench = Bench::new(with_nics(2, 2, 2), &[job.clone()]);
        // The first rank takes 500 MB at 100 Gb/s, and sends 375 MB.
        let expected = [(String::new(), 40_000, Some(40_000))];
        assert_eq!(times(&mut bench, "train"), expected);
        assert_eq!(bench.pins.iter().count(), 3);

        // Along a dimension each two ranks at different leaves have the matrix.
        job.layout = [("tp", 2), ("dp", 2)]
            .map(|(name, degree)| v1::LayoutDimension {
                name: name.to_owned(),
                degree,
            })
            .into();
        job.groups[0].dimension = "tp".to_owned();
        job.groups[0].pair_octets = vec![0, 125_000_000, 250_000_000, 0];
        let mut bench = Bench::new(with_nics(2, 2, 2), &[job]);
        let expected = [(String::new(), 20_000, Some(20_000))];
        assert_eq!(times(&mut bench, "train"), expected);
        assert_eq!(bench.pins.iter().count(), 4);
    }

    #[test]
    fn a_matrix_for_other_ranks_than_the_hosts_have_is_resolved_later() {
        let mut job = ring("train", 2, 1..=1);
        job.ranks.clear();
        job.host_names = vec!["h1-1".to_owned(), "h2-1".to_owned()];
        job.groups[0].set_collective(v1::Collective::AllToAllV);
        (job.groups[0].octets, job.groups[0].pair_octets) = (0, vec![1; 9]);
        let (plan, _) = Bench::new(with_nics(2, 2, 1), &[job]).adopt();
        let why = "groups[0].pair_octets: 9 entries, and 2 ranks have 4 pairs";
        assert_eq!(state(&plan, "train"), State::Unresolved(why.to_owned()));
    }

    #[test]
    fn a_job_that_is_not_pinned_has_ideal_times_alone() {
        let mut wide = ring("wide", 200, 1..=12);
        wide.groups[0].set_collective(v1::Collective::AllToAll);
        wide.groups[0].octets = 2_400_000_000;
        let mut bench = Bench::new(with_nics(200, 2, 12), &[wide]);
        // Each of 2,400 NICs, which are hosts of their own, sends a 2,400th to 2,399 others.
        let expected = [(String::new(), 191_920, None)];
        assert_eq!(times(&mut bench, "wide"), expected);
        let mut off = ring("off", 4, 1..=1);
        off.set_balance_mode(v1::BalanceMode::Off);
        let (plan, _) = Bench::new(with_nics(4, 2, 1), &[off]).adopt();
        for job in ["off", "none"] {
            assert_eq!(plan.times(&job.into()), (Vec::new(), 0));
        }
    }

    #[test]
    fn there_are_as_many_sets_as_anybody_wants_and_some_are_named() {
        let mut job = ring("train", 2, 1..=1);
        let set = |at: u32| group(&format!("g{at:03}"), &format!("s{at:03}"), &[0, 1], 125);
        job.groups = (0..100).map(set).collect();
        let mut bench = Bench::new(with_nics(2, 2, 1), &[job]);
        let (plan, _) = bench.adopt();
        let (times, count) = plan.times(&"train".into());
        assert_eq!((times.len(), count), (64, 100));
        assert_eq!(&*times[63].overlap_set, "s063");
    }

    #[test]
    fn no_time_is_too_long_to_say() {
        for (octets, bps) in [(u128::MAX, 1), (u128::from(u64::MAX), 0)] {
            let mut time = SetTime::ideal("", octets, bps);
            assert_eq!(time.ideal, LONGEST);
            time.predict(f64::MAX);
            assert_eq!(time.predicted, Some(LONGEST));
        }
        assert_eq!(SetTime::ideal("", 0, 1).ideal, Duration::ZERO);
    }
}
