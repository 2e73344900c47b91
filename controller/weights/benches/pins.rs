//! How near pins come to the bound, how many there are, and what they cost, on one core.
//!
//! `cargo bench-pins`, or with `--cases N` for each row of failures; 1,000 are what the README has. `--only churn`, `--only jobs`,
//! `--only pods`, `--only random`, `--only tiers` and `--only times` print one part. A placement counts only if the recount agrees with
//! it.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures time, prints, and may panic"
)]

use std::time::{Duration, Instant};

use weft_weights::pin::{
    Flow, Flows, Infeasible, Level, Part, Placement, Plane, Pods, place, place_after,
    place_in_pods, recount, recount_in_pods,
};
use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
use weft_weights::simulate::{Switches, by_switches, rates};

#[path = "pins/churn.rs"]
mod churn;
#[path = "pins/jobs.rs"]
mod jobs;
#[path = "pins/oversubscribed.rs"]
mod oversubscribed;
#[path = "shared/random.rs"]
mod random;

use random::Random;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let cases = arguments.iter().position(|it| it == "--cases");
    let cases = cases.and_then(|at| arguments.get(at + 1)?.parse().ok());
    let cases = cases.unwrap_or(20);
    let only = arguments.iter().position(|it| it == "--only");
    match only
        .and_then(|at| arguments.get(at + 1))
        .map(String::as_str)
    {
        Some("churn") => return churn(),
        Some("jobs") => return jobs(cases.min(20)),
        Some("pods") => return pods(cases.min(20)),
        Some("random") => return random_cases(cases * 10),
        Some("tiers") => return tiers(cases.min(100)),
        Some("times") => return times(),
        Some(part) => {
            eprintln!("--only {part}: there are churn, jobs, pods, random, tiers and times");
            std::process::exit(2);
        }
        None => {}
    }
    println!("healthy                             max load / bound   slowest NIC   pins a leaf");
    for (leaves, spines) in [(128, 64), (256, 64), (256, 128), (512, 256)] {
        for pattern in [Pattern::Permutation, Pattern::Rings] {
            healthy(leaves, spines, pattern);
        }
    }
    tiers(cases.min(100));
    pods(cases.min(20));
    println!("\nfull load, 128 x 64, any NIC to any      mean NIC   slowest NIC   max load");
    beside();
    random_cases(cases * 10);
    println!(
        "\nwith failures, 128 x 64, {cases} cases    at the bound   most over   pins a leaf   time"
    );
    for size in [16, 32] {
        for pattern in [Pattern::Permutation, Pattern::Rings, Pattern::LeafToLeaf] {
            for dead_per_mille in [0, 5, 10, 20, 50] {
                failing(cases, pattern, size, dead_per_mille, Speeds::Equal);
            }
        }
    }
    for speeds in [Speeds::Two, Speeds::Derated, Speeds::QuarterToTwo] {
        for pattern in [Pattern::Permutation, Pattern::LeafToLeaf] {
            failing(cases, pattern, 16, 0, speeds);
        }
    }
    times();
    churn();
    jobs(cases.min(20));
}

fn tiers(cases: u64) {
    const FABRICS: [(u32, u32); 3] = [(8, 16), (16, 16), (32, 32)];
    println!(
        "\nthree tiers, 1:1, by super-spines                      max load / bound, worst   slowest NIC   over   time, least"
    );
    for (pods, width) in FABRICS {
        for pattern in [Pattern::Permutation, Pattern::Rings] {
            for dead_per_mille in [0, 10] {
                three_tiers(pods, width, pattern, dead_per_mille, cases);
            }
        }
    }
    println!(
        "\nthree tiers, 1:1, by planes, as weftd places           max load / bound, worst   slowest NIC   over   time, least and worst"
    );
    for (pods, width) in FABRICS {
        for pattern in [Pattern::Permutation, Pattern::Rings] {
            for dead_per_mille in [0, 10] {
                oversubscribed::even(pods, width, pattern, dead_per_mille, cases.min(20));
            }
        }
    }
}

fn pods(cases: u64) {
    println!(
        "\njobs over three tiers, half of it within pods   max load / bound, worst   busiest link below and above spines   pins a leaf   time"
    );
    for (pods, width) in [(2, 8), (8, 16), (32, 32)] {
        for (oversubscription, dead_per_mille) in [(1, 0), (2, 0), (2, 10), (4, 10)] {
            oversubscribed::beside(pods, width, oversubscription, dead_per_mille, cases);
        }
    }
}

fn times() {
    println!(
        "\ntime with the check                      place       check    a link event, median and worst of 20, and parts moved"
    );
    timed("16,384 NICs", 256, 64, 1);
    timed("131,072 NICs", 512, 256, 1);
    timed("131,072 NICs, 8 sub-flows each", 512, 256, 8);
}

fn churn() {
    println!("\n1,000 link events at full load, 16 sub-flows, each plan from the one before");
    churn::trace(128, 64, 0, 1_000);
    churn::trace(512, 256, 0, 100);
    println!("jobs of three phases, of 16 queue pairs a flow");
    churn::trace(128, 64, 1, 100);
    churn::trace(128, 64, 20, 50);
}

fn jobs(cases: u64) {
    println!(
        "\n20 jobs anywhere on 128 x 64, {cases} cases       interference: if allowed, all   Jain, least   slowest job"
    );
    for (eighths, dead_per_mille) in [(8, 0), (6, 10), (6, 50), (8, 10)] {
        jobs::beside(cases, eighths, dead_per_mille);
    }
    println!(
        "\nphases, 128 x 64, all NICs       load of the worst meeting: bound, pinned   interference, worst and mean: pinned, hashed   parts of a flow, time"
    );
    for (count, dead_per_mille) in [(1, 0), (1, 10), (20, 0), (20, 10)] {
        jobs::phases(count, dead_per_mille);
    }
}

/// Who sends to whom; each NIC sends to one, and takes from one.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// Any NIC to any.
    Permutation,
    /// Jobs of 32 NICs, placed anywhere, each a ring.
    Rings,
    /// All NICs of a leaf to those of another.
    LeafToLeaf,
}

#[derive(Clone, Copy, Debug)]
enum Speeds {
    Equal,
    /// Half of the spines at half speed.
    Two,
    /// Links in twenty at half speed.
    Derated,
    /// Each link at a quarter, a half, one or two, at random.
    QuarterToTwo,
}

struct Fabric {
    leaves: u32,
    spines: u32,
    links: Vec<Link>,
}

impl Fabric {
    fn new(
        leaves: u32,
        spines: u32,
        dead_per_mille: u64,
        speeds: Speeds,
        random: &mut Random,
    ) -> Self {
        let link = |cell: u32| {
            let (leaf, spine) = (cell / spines, cell % spines);
            let quarters = match speeds {
                Speeds::Equal => 4,
                Speeds::Two if spine % 2 == 1 => 2,
                Speeds::Two => 4,
                Speeds::Derated if random.below(20) == 0 => 2,
                Speeds::Derated => 4,
                Speeds::QuarterToTwo => 1 << random.below(4),
            };
            Link {
                id: LinkId(cell),
                ends: (SwitchId(leaf), SwitchId(leaves + spine)),
                capacity_bps: QUARTER_BPS * quarters,
                alive: random.below(1_000) >= dead_per_mille,
            }
        };
        let links = (0..leaves * spines).map(link).collect();
        Self {
            leaves,
            spines,
            links,
        }
    }

    fn problem(&self) -> Problem {
        let switch = |id, tier| Switch {
            id: SwitchId(id),
            tier,
        };
        let leaves = (0..self.leaves).map(|id| switch(id, 0));
        let spines = (0..self.spines).map(|id| switch(self.leaves + id, 1));
        Problem::new(leaves.chain(spines).collect(), self.links.clone()).unwrap()
    }

    /// As many NICs at a leaf as it has uplinks.
    fn flows(&self, pattern: Pattern, size: u32, random: &mut Random) -> Flows {
        let nics = self.leaves * self.spines;
        let leaf = |nic: u32| nic / self.spines;
        let mut order: Vec<u32> = match pattern {
            Pattern::LeafToLeaf => (0..self.leaves).collect(),
            Pattern::Permutation | Pattern::Rings => (0..nics).collect(),
        };
        for at in (1..order.len()).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        let flow = |from: u32, to: u32| Flow {
            from,
            to,
            subflows: size,
        };
        let all: Vec<Flow> = match pattern {
            Pattern::Permutation => {
                let to = order.iter().map(|nic| leaf(*nic));
                to.enumerate()
                    .map(|(from, to)| flow(leaf(from as u32), to))
                    .collect()
            }
            Pattern::Rings => order
                .chunks(RING)
                .flat_map(|ring| {
                    let next = ring.iter().skip(1).chain(ring.first());
                    ring.iter()
                        .zip(next)
                        .map(|(from, to)| flow(leaf(*from), leaf(*to)))
                })
                .collect(),
            Pattern::LeafToLeaf => {
                let next = order.iter().skip(1).chain(order.first());
                let pairs = order.iter().zip(next);
                pairs
                    .flat_map(|(from, to)| vec![flow(*from, *to); self.spines as usize])
                    .collect()
            }
        };
        // What stays below one leaf goes over no link.
        let all = all
            .into_iter()
            .filter(|flow| flow.from != flow.to)
            .collect();
        Flows::new(all)
    }
}

/// Places, and has it recounted.
fn placed(problem: &Problem, flows: &Flows) -> (Placement, usize) {
    let plane = Plane::new(problem);
    let placement = place(&plane, flows).unwrap();
    let counted = recount(problem, flows, &placement.parts).unwrap();
    let (subflows, capacity) = counted.worst;
    assert!(
        Level { subflows, capacity } <= placement.level,
        "{counted:?} {:?}",
        placement.level
    );
    let over = over(&plane, &placement);
    (placement, over)
}

/// How many levels a placement is above its bound.
fn over(plane: &Plane, placement: &Placement) -> usize {
    let (mut level, mut steps) = (placement.bound.level, 0);
    while level < placement.level {
        level = plane.above(level).unwrap();
        steps += 1;
    }
    steps
}

fn healthy(leaves: u32, spines: u32, pattern: Pattern) {
    let mut random = Random(u64::from(leaves) << 8 | u64::from(spines));
    let fabric = Fabric::new(leaves, spines, 0, Speeds::Equal, &mut random);
    let problem = fabric.problem();
    let flows = fabric.flows(pattern, 1, &mut random);
    let (placement, _) = placed(&problem, &flows);
    let counted = recount(&problem, &flows, &placement.parts).unwrap();
    let load = counted.load(4.0 * QUARTER_BPS as f64);
    let bound = placement.bound.level;
    let bound = bound.subflows as f64 * 4.0 * QUARTER_BPS as f64 / bound.capacity as f64;
    println!(
        "{:>8} NICs, {leaves} x {spines} {:<12} {:>10.4}   {:>10.1} %   {:>10}",
        leaves * spines,
        format!("{pattern:?}"),
        load / bound,
        100.0 / load.max(1.0),
        counted.parts_of_leaf_max
    );
}

/// Prints what flows come to as switches place them, and pinned.
fn beside() {
    let mut random = Random(1);
    let fabric = Fabric::new(128, 64, 0, Speeds::Equal, &mut random);
    let problem = fabric.problem();
    let plane = Plane::new(&problem);
    let nic_bps = 4.0 * QUARTER_BPS as f64;
    let row = |what: &str, flows: &Flows, parts: &[Part]| {
        let subflow_bps = nic_bps / f64::from(flows.size());
        let rates = rates(&plane, flows, parts, subflow_bps);
        let mean = rates.iter().sum::<f64>() / rates.len() as f64 / nic_bps;
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min) / nic_bps;
        let load = recount(&problem, flows, parts).unwrap().load(subflow_bps);
        println!("{what:<36} {mean:>10.3}   {least:>11.3}   {load:>8.2}");
    };
    for size in [1, 4, 8, 16, 32] {
        let flows = fabric.flows(Pattern::Permutation, size, &mut Random(2));
        for how in [Switches::Hash, Switches::LeastLoaded] {
            let parts = by_switches(&plane, &flows, how, |below| random.below(below));
            row(&format!("{how:?}, {size} QPs"), &flows, &parts);
        }
    }
    let flows = fabric.flows(Pattern::Permutation, 1, &mut Random(2));
    row("pins, 1 QP", &flows, &place(&plane, &flows).unwrap().parts);
}

/// Small fabrics with 0 to 10 % dead links; jobs of all patterns side by side; 1 to 32 QPs. Pins beside a hash of as many QPs. Fabrics
/// are drawn until there are so many in which all leaves have a way.
fn random_cases(cases: u64) {
    let (mut below, mut least, mut sum) = (0_u64, f64::INFINITY, 0.0);
    let (mut draws, mut counted) = (0_u64, 0_u64);
    while counted < cases {
        draws += 1;
        let mut random = Random(draws.wrapping_mul(0xD1B5_4A32_D192_ED03));
        let (leaves, spines) = (4 + random.below(29) as u32, 2 + random.below(31) as u32);
        let speeds = [
            Speeds::Equal,
            Speeds::Two,
            Speeds::Derated,
            Speeds::QuarterToTwo,
        ];
        let speeds = speeds[random.below(4) as usize];
        let dead_per_mille = random.below(101);
        let fabric = Fabric::new(leaves, spines, dead_per_mille, speeds, &mut random);
        let size = 1 << random.below(6);
        let mut all = Vec::new();
        for pattern in [Pattern::Permutation, Pattern::Rings, Pattern::LeafToLeaf] {
            let flows = fabric.flows(pattern, size, &mut random);
            let share = 1 + random.below(3);
            let some = flows.all().iter().filter(|_| random.below(3) < share);
            all.extend(some.copied().collect::<Vec<_>>());
        }
        let flows = Flows::new(all);
        let problem = fabric.problem();
        let plane = Plane::new(&problem);
        // Leaves without a way to each other are refused by name: another fabric takes the place of this one.
        let placement = match place(&plane, &flows) {
            Ok(placement) => placement,
            Err(Infeasible::NoLink { .. } | Infeasible::NoWay { .. }) => continue,
            Err(refused) => panic!("draw {draws}: {refused}"),
        };
        recount(&problem, &flows, &placement.parts).unwrap();
        let hashed = by_switches(&plane, &flows, Switches::Hash, |below| random.below(below));
        let slowest = |parts: &[Part]| {
            let rates = rates(
                &plane,
                &flows,
                parts,
                4.0 * QUARTER_BPS as f64 / f64::from(size),
            );
            rates.into_iter().fold(f64::INFINITY, f64::min)
        };
        let ratio = slowest(&placement.parts) / slowest(&hashed);
        below += u64::from(ratio < 1.0 - 1e-9);
        least = least.min(ratio);
        sum += ratio;
        counted += 1;
    }
    println!(
        "\nrandom fabrics, jobs and failures     below E-ECMP   slowest flow beside it, least and mean   draws left out"
    );
    println!(
        "{counted:>6} cases {below:>38}   {least:>12.3} and {:.3} times {:>28}",
        sum / counted as f64,
        draws - counted
    );
}

/// Pods of as many leaves as switches above them, each plane with as many cores: 1:1 in both tiers. Dead links in both.
fn super_spines(pods: u32, width: u32, dead_per_mille: u64, random: &mut Random) -> Problem {
    let (leaves, switches) = (pods * width, pods * width);
    let switch = |id, tier| Switch {
        id: SwitchId(id),
        tier,
    };
    let mut all: Vec<Switch> = (0..leaves).map(|id| switch(id, 0)).collect();
    all.extend((0..switches).map(|id| switch(leaves + id, 1)));
    all.extend((0..width * width).map(|id| switch(leaves + switches + id, 2)));
    let mut links = Vec::new();
    let mut link = |a: u32, b: u32| {
        links.push(Link {
            id: LinkId(links.len() as u32),
            ends: (SwitchId(a), SwitchId(b)),
            capacity_bps: 4 * QUARTER_BPS,
            alive: random.below(1_000) >= dead_per_mille,
        });
    };
    for leaf in 0..leaves {
        let pod = leaf / width;
        (0..width).for_each(|plane| link(leaf, leaves + pod * width + plane));
    }
    for switch in 0..switches {
        let cores = leaves + switches + switch % width * width;
        (0..width).for_each(|core| link(leaves + switch, cores + core));
    }
    Problem::new(all, links).unwrap()
}

/// Flows of so many pods, with as many NICs behind each leaf as it has uplinks.
fn flows_of_pods(pods: u32, width: u32, pattern: Pattern, random: &mut Random) -> Flows {
    let below = Fabric {
        leaves: pods * width,
        spines: width,
        links: Vec::new(),
    };
    below.flows(pattern, SUBFLOWS, random)
}

/// Prints what a pattern comes to where each flow gets its super-spine.
fn three_tiers(pods: u32, width: u32, pattern: Pattern, dead_per_mille: u64, cases: u64) {
    let (mut worst, mut busiest, mut over, mut took) = (0.0_f64, 0.0_f64, 0, Duration::MAX);
    for case in 0..cases {
        let mut random = Random((case + 1).wrapping_mul(0xA076_1D64_78BD_642F));
        let problem = super_spines(pods, width, dead_per_mille, &mut random);
        let flows = flows_of_pods(pods, width, pattern, &mut random);
        let begun = Instant::now();
        let shape = Pods::new(&problem).unwrap();
        let placement = place_in_pods(&shape, &flows).unwrap();
        took = took.min(begun.elapsed());
        let (subflows, capacity) = recount_in_pods(&problem, &flows, &placement.parts).unwrap();
        let counted = Level { subflows, capacity };
        assert!(counted <= placement.level);
        worst = worst.max(load(counted) / load(placement.bound.level));
        busiest = busiest.max(load(counted));
        over += u64::from(counted > placement.bound.level);
    }
    println!(
        "{:>8} NICs, {pods:>2} pods, {:<12} {:>3.1} % dead {cases:>4} cases {worst:>10.4}   {:>17.1} %   {over:>4} {:>8.1} ms",
        pods * width * width,
        format!("{pattern:?}"),
        dead_per_mille as f64 / 10.0,
        100.0 / busiest.max(1.0),
        ms(took)
    );
}

/// A level as a share of a link, where each flow of [`SUBFLOWS`] sends as much as a link carries.
fn load(level: Level) -> f64 {
    let subflow_bps = 4.0 * QUARTER_BPS as f64 / f64::from(SUBFLOWS);
    level.subflows as f64 * subflow_bps / level.capacity as f64
}

fn failing(cases: u64, pattern: Pattern, size: u32, dead_per_mille: u64, speeds: Speeds) {
    let (mut exact, mut most, mut pins) = (0, 0, 0);
    let begun = Instant::now();
    for case in 0..cases {
        let mut random = Random((case + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let fabric = Fabric::new(128, 64, dead_per_mille, speeds, &mut random);
        let flows = fabric.flows(pattern, size, &mut random);
        let (placement, over) = placed(&fabric.problem(), &flows);
        exact += u64::from(over == 0);
        most = most.max(over);
        pins += placement.parts.len();
    }
    let each = begun.elapsed() / u32::try_from(cases).unwrap();
    println!(
        "{:<12} {size:>2} sub-flows {:>4.1} % dead {:<12} {:>7.1} %   {most:>6}   {:>10.1}   {:>8.1} ms",
        format!("{pattern:?}"),
        dead_per_mille as f64 / 10.0,
        format!("{speeds:?}"),
        100.0 * exact as f64 / cases as f64,
        pins as f64 / cases as f64 / 128.0,
        ms(each)
    );
}

/// Rounds of placement and check; then links fail one after the other.
fn timed(what: &str, leaves: u32, spines: u32, pieces: u32) {
    let mut random = Random(7);
    let mut fabric = Fabric::new(leaves, spines, 0, Speeds::Equal, &mut random);
    let mut flows = fabric.flows(Pattern::Permutation, 16, &mut random);
    if pieces > 1 {
        // Each NIC has so many flows of their own.
        let all = flows.all().iter();
        let all = all.flat_map(|flow| {
            vec![
                Flow {
                    subflows: 1,
                    ..*flow
                };
                pieces as usize
            ]
        });
        flows = Flows::new(all.collect());
    }
    let problem = fabric.problem();
    let (mut place_times, mut check_times) = (Vec::new(), Vec::new());
    let mut placement = None;
    for _ in 0..5 {
        let begun = Instant::now();
        let made = place(&Plane::new(&problem), &flows).unwrap();
        place_times.push(begun.elapsed());
        let begun = Instant::now();
        recount(&problem, &flows, &made.parts).unwrap();
        check_times.push(begun.elapsed());
        placement = Some(made);
    }
    let (mut events, mut moved) = (Vec::new(), Vec::new());
    let mut placement = placement.unwrap();
    for _ in 0..20 {
        let dead = random.below(fabric.links.len() as u64) as usize;
        fabric.links[dead].alive = false;
        let problem = fabric.problem();
        let begun = Instant::now();
        let plane = Plane::new(&problem);
        let next = place_after(&plane, &flows, &placement.parts).unwrap();
        events.push(begun.elapsed());
        recount(&problem, &flows, &next.parts).unwrap();
        let stayed = next
            .parts
            .iter()
            .filter(|part| placement.parts.binary_search(part).is_ok());
        moved.push(next.parts.len() - stayed.count());
        placement = next;
    }
    events.sort_unstable();
    moved.sort_unstable();
    println!(
        "{what:<36} {:>7.1} ms {:>7.1} ms   {:>7.2} ms {:>7.2} ms   {} to {}",
        ms(*place_times.iter().min().unwrap()),
        ms(*check_times.iter().min().unwrap()),
        ms(events[events.len() / 2]),
        ms(events[events.len() - 1]),
        moved[0],
        moved[moved.len() - 1]
    );
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

const QUARTER_BPS: u64 = 100_000_000_000;
const RING: usize = 32;
/// Of each flow over three tiers.
const SUBFLOWS: u32 = 16;
