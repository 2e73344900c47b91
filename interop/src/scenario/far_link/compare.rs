//! Faults with weft and with FRR alone, run after run, and the packets that each cost.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use super::{
    Faults,
    fault::{Before, Fault, Row},
    mode::{self, Mode},
    paths, switch,
};
use crate::{
    check::{Checks, agreement},
    clock,
    expect::Lines,
    failure::Failure,
    flows::Flows,
    lab::Lab,
    sabotage::{self, Break},
};

/// What one fault cost, from the moment before it until it was mended and everything was as before.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    lost: usize,
    flows: usize,
    outage: Duration,
    /// Of the lost packets those that were sent after the fault was mended.
    mending: usize,
}

/// What faults cost, run after run.
#[derive(Default)]
struct Tally {
    alone: BTreeMap<(Fault, Before), Vec<Cost>>,
    /// By the number of the row.
    with_weft: BTreeMap<usize, Vec<Cost>>,
}

/// Every fault in every run, then a check for each row.
pub(super) fn faults(
    lab: &mut Lab,
    faults: &Faults,
    runs: u32,
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    let mut tally = Tally::default();
    for run in 1..=runs {
        alone(lab, faults, run, &mut tally, checks)?;
        with_weft(lab, faults, (run, sabotage), &mut tally, checks)?;
    }
    for (number, row) in faults.faults.iter().enumerate() {
        let name = format!("packets lost: {}", row.name);
        let key = (row.fault, row.before.without_weft());
        let alone = tally.alone.get(&key).map_or(&[][..], Vec::as_slice);
        let with_weft = tally.with_weft.remove(&number).unwrap_or_default();
        checks.record(&name, start, verdict(alone, &with_weft, faults.ratio));
    }
    Ok(())
}

/// Each kind of fault once, while FRR alone routes; after what FRR suffers from too, if that happens before.
fn alone(
    lab: &mut Lab,
    faults: &Faults,
    run: u32,
    tally: &mut Tally,
    checks: &mut Checks,
) -> Result<(), Failure> {
    mode::enter(lab, faults, Mode::Frr, checks)?;
    let rows = faults.faults.iter();
    for row in rows.filter(|row| row.before == row.before.without_weft()) {
        let cost = measure(lab, faults, row, false)?;
        println!("  run {run}, FRR alone: {}: {cost}", row.name);
        let key = (row.fault, row.before);
        tally.alone.entry(key).or_default().push(cost);
        undo(lab, faults, row, checks)?;
    }
    Ok(())
}

/// Each row once, while weft's tables are in force.
fn with_weft(
    lab: &mut Lab,
    faults: &Faults,
    (run, sabotage): (u32, Option<Break>),
    tally: &mut Tally,
    checks: &mut Checks,
) -> Result<(), Failure> {
    for (number, row) in faults.faults.iter().enumerate() {
        mode::declare(lab, row.before.declared(), checks)?;
        mode::enter(lab, faults, Mode::Weft, checks)?;
        if number == 0 || row.before == Before::DeclaredOtherwise {
            clock::pause(PLANNED)?;
        }
        let blind = sabotage == Some(Break::FarLinkBlind);
        let cost = measure(lab, faults, row, blind)?;
        println!("  run {run}, with weft: {}: {cost}", row.name);
        tally.with_weft.entry(number).or_default().push(cost);
        undo(lab, faults, row, checks)?;
    }
    Ok(())
}

/// Makes up for what happened before a fault.
fn undo(lab: &mut Lab, faults: &Faults, row: &Row, checks: &mut Checks) -> Result<(), Failure> {
    row.before.undo(lab, &faults.traffic.agent)?;
    if row.before == Before::ReplicasKilled {
        mode::peered(lab, &faults.traffic.leaf, checks)?;
    }
    Ok(())
}

/// Breaks and mends something under traffic. `blind`: the leaf that sends has one way, which follows nobody.
fn measure(lab: &mut Lab, faults: &Faults, row: &Row, blind: bool) -> Result<Cost, Failure> {
    let traffic = &faults.traffic;
    let route = traffic.route(lab)?;
    let leaf = lab.namespace(&traffic.leaf)?.clone();
    let ports = paths::spread(traffic, &leaf, &route)?;
    if blind {
        sabotage::blind(lab, &traffic.leaf, &traffic.vtep.to_string())?;
    }
    let flows = Flows::start(&route, &ports, traffic.packets_per_second)?;
    clock::pause(STEADY)?;
    let happened = flows.now();
    row.before.happen(lab, &traffic.agent)?;
    let begun = match row.before {
        Before::ReplicasKilled => {
            // EVPN leaves them for the spines, which is not what is compared here.
            clock::pause(STEADY)?;
            flows.now()
        }
        Before::Nothing | Before::AgentKilled | Before::DeclaredOtherwise => happened,
    };
    row.fault.begin(lab)?;
    clock::pause(BROKEN)?;
    let mended = flows.now();
    row.fault.end(lab)?;
    let whole: Lines = ["whole".to_owned()].into();
    let answer = agreement(MENDED_WITHIN, &whole, || {
        Ok(switch::missing(lab, &traffic.uplinks)?.unwrap_or_else(|| whole.clone()))
    })?;
    answer.map_err(|rest| Failure::new(format!("{} is not mended: {rest}", row.name)))?;
    clock::pause(STEADY)?;
    let count = flows.stop()?;
    if blind {
        sabotage::seeing(lab, &traffic.leaf)?;
    }
    let before = count.lost(Duration::ZERO, happened);
    if before > 0 {
        let said = format!(
            "{before} of {} packets lost before {}",
            count.sent(),
            row.name
        );
        return Err(Failure::new(said));
    }
    Ok(Cost {
        lost: count.lost(begun, Duration::MAX),
        flows: count.flows_hit(begun, Duration::MAX),
        outage: count.outage(begun, mended),
        mending: count.lost(mended, Duration::MAX),
    })
}

/// Whether weft lost at most `ratio` times what FRR alone lost, and a packet per run beyond it: what is on its way when
/// links go down one after another is lost in any case. A few runs show a way that stays dead, and no more: FRR's own time
/// from a link to its routes differs by a tenth from run to run, and several times on a machine that is busy.
fn verdict(alone: &[Cost], with_weft: &[Cost], ratio: f64) -> Result<String, String> {
    let sum = |costs: &[Cost]| costs.iter().map(|cost| cost.lost).sum::<usize>();
    let each = |costs: &[Cost]| {
        let lost: Vec<String> = costs.iter().map(|cost| cost.lost.to_string()).collect();
        lost.join(" ")
    };
    let (frr, weft) = (sum(alone), sum(with_weft));
    let said = format!(
        "FRR alone {frr} ({}), with weft {weft} ({}): {:.2} times",
        each(alone),
        each(with_weft),
        weft as f64 / (frr as f64).max(1.0)
    );
    let measured = !with_weft.is_empty() && with_weft.len() == alone.len();
    let runs = with_weft.len() as f64;
    let packets = match with_weft.len() {
        few if few < ENOUGH_RUNS => PACKETS_OF_FEW,
        _ => PACKETS,
    };
    let limits = format!("limit {ratio:.2} times and {packets} per run");
    match measured && weft as f64 <= ratio * frr as f64 + packets * runs {
        true => Ok(format!("{said}, {limits}")),
        false => Err(format!("expected: {limits}\nactual:   {said}")),
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets of {} flows lost", self.lost, self.flows)?;
        if self.lost > 0 {
            write!(f, " in {} ms", self.outage.as_millis())?;
        }
        match self.mending {
            0 => Ok(()),
            lost => write!(f, ", {lost} of them when it was mended"),
        }
    }
}

/// A fabric that was declared anew is planned and installed by then; flows are looked at afterwards.
const PLANNED: Duration = Duration::from_secs(1);

const STEADY: Duration = Duration::from_millis(400);

/// Longer than FRR converges, and than its zebra keeps a group of next hops that nobody uses.
const BROKEN: Duration = Duration::from_millis(1_500);

/// A bgpd that was killed is back with all sessions after 6 s.
const MENDED_WITHIN: Duration = Duration::from_secs(30);

/// Packets per run that are no difference: one of 800 in a second over an uplink. Of a few runs half of what a dead way
/// loses until it is mended.
const PACKETS: f64 = 1.0;
const PACKETS_OF_FEW: f64 = 600.0;

/// From here on the sums speak for themselves.
const ENOUGH_RUNS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(lost: &[usize]) -> Vec<Cost> {
        let cost = |lost: &usize| Cost {
            lost: *lost,
            ..Cost::default()
        };
        lost.iter().map(cost).collect()
    }

    #[test]
    fn sums_over_all_runs_are_compared() {
        let (alone, mut with_weft) = (costs(&[100; 20]), [111; 20]);
        assert!(verdict(&alone, &costs(&with_weft), 1.1).is_ok());
        with_weft[0] = 131;
        let said = verdict(&alone, &costs(&with_weft), 1.1).unwrap_err();
        assert!(said.contains("FRR alone 2000 ("), "{said}");
        assert!(said.contains("with weft 2240 (131 111 "), "{said}");
    }

    #[test]
    fn a_few_runs_are_compared_less_strictly() {
        assert!(verdict(&costs(&[100; 3]), &costs(&[710; 3]), 1.1).is_ok());
        assert!(verdict(&costs(&[100; 3]), &costs(&[711; 3]), 1.1).is_err());
    }

    #[test]
    fn a_packet_per_run_is_no_difference_and_no_run_is_no_answer() {
        assert!(verdict(&costs(&[0; 20]), &costs(&[1; 20]), 1.1).is_ok());
        assert!(verdict(&costs(&[0; 20]), &costs(&[2; 20]), 1.1).is_err());
        assert!(verdict(&[], &[], 1.1).is_err());
        assert!(verdict(&costs(&[9, 9]), &costs(&[9]), 1.1).is_err());
    }
}
