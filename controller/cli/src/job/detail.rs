//! One job in full: what it is, what is planned for it, and how good the pins of all jobs are.

use std::io::{self, Write};

use prost_types::Duration;
use serde_json::Value;
use weft_proto::v1::{self as proto, BoundKind, Collective, CollectiveAlgorithm};

use super::{expires_in, labels, layout};
use crate::balance;
use crate::output::{self, Row, Table, or_dash, printable};
use crate::words::{self, word};

/// For machines: each message of both answers by its name.
pub(super) fn object(job: &proto::GetJobResponse, plan: &proto::GetJobPlanResponse) -> Value {
    let job = job.resource.as_ref().map(Row::object);
    let certificate = plan.certificate.as_ref();
    let certificate = certificate.map(|it| output::message("weft.v1.PinCertificate", it));
    let plan = plan.resource.as_ref();
    let plan = plan.map(|it| output::message("weft.v1.JobPlan", it));
    let fields = [
        ("job", job),
        ("job_plan", plan),
        ("certificate", certificate),
    ];
    // What is absent is not there, as in any message.
    let fields = fields.into_iter();
    fields
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// For people: a line for each thing that there is something to say of.
pub(super) fn print(
    job: &proto::GetJobResponse,
    plan: &proto::GetJobPlanResponse,
    headers: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (no_job, no_plan) = (proto::Job::default(), proto::JobPlan::default());
    let job_plan = plan.resource.as_ref().unwrap_or(&no_plan);
    let answered = words::answered(job.header.as_ref());
    let job = job.resource.as_ref().unwrap_or(&no_job);
    let expires = match job.expire_time {
        Some(at) => format!("in {}, {at}", expires_in(job, answered)),
        None => expires_in(job, answered),
    };
    let about = [
        ("job", job.name.clone()),
        ("hosts", some(&job.host_names, job.host_names.len())),
        ("ranks", counted(job.ranks.len())),
        ("layout", layout(job)),
        ("flows", counted(job.flows.len())),
        ("labels", labels(job)),
        ("expires", expires),
        ("mode", mode(job)),
        ("plan", planned(job_plan)),
        ("traffic", ways(job_plan)),
        ("hashing", hashed(job_plan)),
        ("NICs elsewhere", moved(job_plan)),
    ];
    let certificate = plan.certificate.as_ref();
    let over = certificate.and_then(over).map(|text| ("demand", text));
    let certified = certificate.map(certified).into_iter().flatten();
    for (name, text) in about.into_iter().chain(certified).chain(over) {
        if !text.is_empty() {
            writeln!(out, "{:15} {}", format!("{name}:"), printable(&text))?;
        }
    }
    if !job.groups.is_empty() {
        let rows: Vec<_> = job.groups.iter().map(group).collect();
        writeln!(out)?;
        Table::print(out, GROUPS, &rows, headers)?;
    }
    set_times(job_plan, headers, out)
}

/// How long overlap sets take, where that is known.
fn set_times(plan: &proto::JobPlan, headers: bool, out: &mut dyn Write) -> io::Result<()> {
    let times = &plan.overlap_set_times;
    if times.is_empty() {
        return Ok(());
    }
    let row = |time: &proto::OverlapSetTime| {
        let times = [time.ideal_duration, time.predicted_duration];
        let [ideal, predicted] = times.map(|time| time.map_or_else(|| "-".to_owned(), span));
        vec![or_dash(&time.overlap_set), ideal, predicted]
    };
    let rows: Vec<_> = times.iter().map(row).collect();
    writeln!(out)?;
    Table::print(out, SET_TIMES, &rows, headers)?;
    let count = usize::try_from(plan.overlap_set_count).unwrap_or(usize::MAX);
    match count.saturating_sub(times.len()) {
        0 => Ok(()),
        1 => writeln!(out, "and 1 more overlap set"),
        more => writeln!(out, "and {more} more overlap sets"),
    }
}

/// A time in the unit that fits: `2.4 s`, `150.324 ms`, `12 us`.
fn span(time: Duration) -> String {
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let nanos = nanos.max(0);
    let (unit, name) = match nanos {
        1_000_000_000.. => (1_000_000_000, "s"),
        1_000_000.. => (1_000_000, "ms"),
        _ => (1_000, "us"),
    };
    let thousandths = (nanos * 1_000 + unit / 2) / unit;
    let text = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} {name}")
}

/// What weft does with it, where that is not the usual.
fn mode(job: &proto::Job) -> String {
    match job.balance_mode() {
        proto::BalanceMode::Unspecified => String::new(),
        mode => balance::name(mode).to_owned(),
    }
}

/// How far the plan came, and why not farther.
pub(crate) fn planned(plan: &proto::JobPlan) -> String {
    let mut text = word(plan.state().as_str_name(), "JOB_PLAN_STATE_");
    if plan.flow_count > 0 {
        let (pinned, all) = (plan.pinned_flow_count, plan.flow_count);
        text = format!("{text}, {pinned} of {all} flows have their pins");
    }
    if plan.pinned_flow_count > 0 && !plan.unprogrammed_reasons.is_empty() {
        let programmed = match plan.programmed_flow_count {
            0 => "none".to_owned(),
            some => some.to_string(),
        };
        text = format!("{text}, of which switches get {programmed}");
    }
    if plan.bundled_flow_count > 0 {
        let together = plan.bundled_flow_count;
        text = format!("{text}, {together} go together with others of their leaf to the same NIC");
    }
    if plan.unaddressed_flow_count > 0 {
        let unknown = plan.unaddressed_flow_count;
        text = format!("{text}, {unknown} go to NICs without an address or a VNI, and by no pin");
    }
    if plan.undivided_flow_count > 0 {
        let undivided = plan.undivided_flow_count;
        text =
            format!("{text}, {undivided} are divided among spines by weights, not by queue pairs");
    }
    match reasons(plan).as_str() {
        "" => text,
        reasons => format!("{text}: {reasons}"),
    }
}

/// Why the plan came no farther, and why switches do not have it; empty if there is nothing to say.
pub(super) fn reasons(plan: &proto::JobPlan) -> String {
    let reasons = std::iter::once(&plan.reason).chain(&plan.unprogrammed_reasons);
    let reasons = reasons.map(String::as_str).filter(|it| !it.is_empty());
    reasons.collect::<Vec<_>>().join("; ")
}

/// Which way the flows go; nothing where nobody knows.
fn ways(plan: &proto::JobPlan) -> String {
    let (pins, weights) = (plan.programmed_flow_count, plan.weighted_flow_count);
    match plan.own_routing_flow_count {
        0 if pins == 0 && weights == 0 => String::new(),
        own => {
            let text = format!(
                "{pins} flows by pins, {weights} by weights, {own} as the own routing of their leaves has it"
            );
            let known = pins.saturating_add(weights).saturating_add(own);
            match plan.flow_count.saturating_sub(known) {
                0 => text,
                unknown => format!("{text}, {unknown} nobody knows how yet"),
            }
        }
    }
}

/// What hashing may make of what weights carry.
fn hashed(plan: &proto::JobPlan) -> String {
    let Some(of) = &plan.hashed_load else {
        return String::new();
    };
    let [even, most] = [of.even_load, of.most_load].map(|share| share * 100.0);
    format!(
        "the busiest link, at {}, is full to {even:.0}% if every link gets its share, and to {most:.0}% at most, but for one hash of a hundred",
        of.leaf_name
    )
}

/// NICs that are not where their host ports are.
fn moved(plan: &proto::JobPlan) -> String {
    let place = |nic: &proto::MovedNic| format!("{} at {}", nic.host_port_name, nic.leaf_name);
    let places: Vec<_> = plan.moved_nics.iter().map(place).collect();
    match plan.moved_nic_count {
        0 => String::new(),
        count => some(&places, usize::try_from(count).unwrap_or(usize::MAX)),
    }
}

/// What the pins of all jobs together make of the links.
pub(crate) fn certified(certificate: &proto::PinCertificate) -> [(&'static str, String); 3] {
    let percent = |share: f64| format!("{:.2}% of a link", share * 100.0);
    let tight = usize::try_from(certificate.tight_link_count).unwrap_or(usize::MAX);
    [
        (
            "max load",
            format!("{}, by the pins of all jobs", percent(certificate.max_load)),
        ),
        (
            "lower bound",
            format!(
                "{}: {}",
                percent(certificate.lower_bound),
                bound(certificate)
            ),
        ),
        ("tight links", some(&certificate.tight_link_names, tight)),
    ]
}

/// What jobs need beyond what links carry, with what decides it; None: links carry all of it.
pub(crate) fn over(certificate: &proto::PinCertificate) -> Option<String> {
    let times = certificate.lower_bound;
    let whose = (times > FULL).then(|| bound(certificate))?;
    Some(format!(
        "jobs need {times:.2} times what links carry: {whose}"
    ))
}

/// What decides the lower bound.
fn bound(certificate: &proto::PinCertificate) -> String {
    let leaf = |at: usize| {
        let name = certificate.bound_leaf_names.get(at);
        or_dash(name.map_or("", String::as_str))
    };
    match certificate.bound_kind() {
        BoundKind::Unspecified => "nothing has to be sent".to_owned(),
        BoundKind::LeafSends => format!("what {} sends over its uplinks", leaf(0)),
        BoundKind::LeafTakes => format!("what {} takes over its uplinks", leaf(0)),
        BoundKind::AllFlows => of_many(&certificate.bound_leaf_names),
        BoundKind::LeafPair => {
            let (from, to) = (leaf(0), leaf(1));
            format!("what {from} sends to {to} over the spines that both have")
        }
    }
}

/// What many leaves need together: all of a pod, or of two; or, if none is named, those of many flows.
fn of_many(leaves: &[String]) -> String {
    if leaves.is_empty() {
        return "flows of many leaves together: too few spines lead from one to the other, or too little above these".to_owned();
    }
    let shown = &leaves[..leaves.len().min(NAMES_MAX)];
    let more = match leaves.len() - shown.len() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let names = shown.join(", ");
    format!("what these leaves send to other pods, or take from them: {names}{more}")
}

fn group(group: &proto::CollectiveGroup) -> Vec<String> {
    let algorithm = match group.algorithm() {
        CollectiveAlgorithm::Unspecified => "-".to_owned(),
        algorithm => word(algorithm.as_str_name(), "COLLECTIVE_ALGORITHM_"),
    };
    let ranks = match (group.ranks.len(), group.dimension.as_str()) {
        (0, "") => "all".to_owned(),
        (0, dimension) => format!("along {dimension}"),
        (count, _) => count.to_string(),
    };
    vec![
        group.name.clone(),
        word(group.collective().as_str_name(), "COLLECTIVE_"),
        algorithm,
        ranks,
        octets(group),
        words::or_dash(group.channels),
        words::or_dash(group.queue_pairs),
        or_dash(&group.overlap_set),
    ]
}

/// Octets of a buffer; of an all-to-all-v those of all ranks together.
fn octets(group: &proto::CollectiveGroup) -> String {
    if group.collective() != Collective::AllToAllV {
        return group.octets.to_string();
    }
    // A rank sends itself nothing.
    let ranks = group.pair_octets.len().isqrt();
    let others = (0..).zip(&group.pair_octets);
    let others = others.filter(|(at, _)| at % (ranks + 1) != 0);
    let sum: u128 = others.map(|(_, octets)| u128::from(*octets)).sum();
    format!("{sum} in all")
}

/// A count; nothing is not counted.
fn counted(count: usize) -> String {
    (count > 0)
        .then_some(count)
        .map(|it| it.to_string())
        .unwrap_or_default()
}

/// How many there are, and the first names: `40: h1, h2, and 38 more`.
fn some(names: &[String], count: usize) -> String {
    let shown: Vec<_> = names.iter().take(NAMES_MAX).map(String::as_str).collect();
    if shown.is_empty() {
        return counted(count);
    }
    let more = match count.saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{count}: {}{more}", shown.join(", "))
}

/// A job may have thousands of hosts; these say which they are like.
const NAMES_MAX: usize = 8;
/// All that a link carries, whatever is rounded.
const FULL: f64 = 1.000_001;

const SET_TIMES: &[&str] = &["OVERLAP-SET", "IDEAL", "PREDICTED"];

const GROUPS: &[&str] = &[
    "GROUP",
    "COLLECTIVE",
    "ALGORITHM",
    "RANKS",
    "OCTETS",
    "CHANNELS",
    "QUEUE-PAIRS",
    "OVERLAP-SET",
];

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    #[test]
    fn a_job_that_weights_carry_says_what_hashing_may_add() {
        let mut plan = proto::JobPlan::default();
        assert_eq!(hashed(&plan), "");
        plan.hashed_load = Some(proto::HashedLoad {
            even_load: 0.98,
            most_load: 1.174,
            leaf_name: "leaf7".to_owned(),
        });
        assert_eq!(
            hashed(&plan),
            "the busiest link, at leaf7, is full to 98% if every link gets its share, and to 117% at most, but for one hash of a hundred"
        );
    }

    fn job() -> proto::GetJobResponse {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let gradients = proto::CollectiveGroup {
            name: "gradients".to_owned(),
            collective: Collective::AllReduce.into(),
            dimension: "dp".to_owned(),
            octets: 1 << 30,
            queue_pairs: Some(4),
            ..proto::CollectiveGroup::default()
        };
        let job = proto::Job {
            name: "train1".to_owned(),
            expire_time: at(4_600),
            host_names: (1..=10).map(|it| format!("h{it}")).collect(),
            groups: vec![gradients],
            ..proto::Job::default()
        };
        proto::GetJobResponse {
            header: Some(proto::ResponseHeader {
                answer_time: at(1_000),
                ..proto::ResponseHeader::default()
            }),
            resource: Some(job),
        }
    }

    fn plan() -> proto::GetJobPlanResponse {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        proto::GetJobPlanResponse {
            resource: Some(proto::JobPlan {
                state: proto::JobPlanState::Pending.into(),
                reason: "4 flows are not placed yet".to_owned(),
                flow_count: 12,
                pinned_flow_count: 8,
                bundled_flow_count: 6,
                unaddressed_flow_count: 2,
                ..proto::JobPlan::default()
            }),
            certificate: Some(proto::PinCertificate {
                max_load: 0.8,
                lower_bound: 0.75,
                bound_kind: BoundKind::LeafPair.into(),
                bound_leaf_names: names(&["leaf1", "leaf2"]),
                tight_link_names: names(&["leaf1:eth1--spine1:eth1"]),
                tight_link_count: 3,
            }),
            ..proto::GetJobPlanResponse::default()
        }
    }

    #[test]
    fn a_job_with_its_plan_and_its_certificate() {
        let mut out = Vec::new();
        print(&job(), &plan(), true, &mut out).unwrap();
        let expected = "\
job:            train1
hosts:          10: h1, h2, h3, h4, h5, h6, h7, h8, and 2 more
expires:        in 1h0m, 1970-01-01T01:16:40Z
plan:           pending, 8 of 12 flows have their pins, 6 go together with others of their leaf to the same NIC, \
2 go to NICs without an address or a VNI, and by no pin: 4 flows are not placed yet
max load:       80.00% of a link, by the pins of all jobs
lower bound:    75.00% of a link: what leaf1 sends to leaf2 over the spines that both have
tight links:    3: leaf1:eth1--spine1:eth1, and 2 more

GROUP      COLLECTIVE  ALGORITHM  RANKS     OCTETS      CHANNELS  QUEUE-PAIRS  OVERLAP-SET
gradients  all-reduce  -          along dp  1073741824  -         4            -
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_job_says_how_long_its_overlap_sets_take() {
        let duration = |seconds, nanos| Some(Duration { seconds, nanos });
        let time = |overlap_set: &str, ideal, predicted| proto::OverlapSetTime {
            overlap_set: overlap_set.to_owned(),
            ideal_duration: ideal,
            predicted_duration: predicted,
        };
        let plan = proto::JobPlan {
            overlap_set_times: vec![
                time("", duration(0, 150_323_855), duration(2, 400_000_000)),
                time("experts", duration(0, 12_000), None),
            ],
            overlap_set_count: 3,
            ..proto::JobPlan::default()
        };
        let mut out = Vec::new();
        set_times(&plan, true, &mut out).unwrap();
        let expected = "
OVERLAP-SET  IDEAL       PREDICTED
-            150.324 ms  2.4 s
experts      12 us       -
and 1 more overlap set
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        let none = proto::JobPlan::default();
        let mut out = Vec::new();
        set_times(&none, true, &mut out).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn times_have_a_unit_that_fits() {
        for (seconds, nanos, text) in [
            (0, 0, "0 us"),
            (0, 1, "0.001 us"),
            (0, 999_999, "999.999 us"),
            (0, 1_000_000, "1 ms"),
            (10, 0, "10 s"),
            (100, 500_000, "100.001 s"),
            (-1, 0, "0 us"),
            (i64::MAX, 0, "9223372036854775807 s"),
        ] {
            assert_eq!(span(Duration { seconds, nanos }), text);
        }
    }

    #[test]
    fn an_all_to_all_v_says_what_all_ranks_send() {
        let experts = proto::CollectiveGroup {
            name: "experts".to_owned(),
            collective: Collective::AllToAllV.into(),
            pair_octets: vec![9, 1, 2, 3, 9, 4, 5, 6, 9],
            ..proto::CollectiveGroup::default()
        };
        let row = group(&experts);
        assert_eq!(
            (row[1].as_str(), row[4].as_str()),
            ("all-to-all-v", "21 in all")
        );
    }

    #[test]
    fn a_plan_says_what_switches_have_of_it() {
        let mut plan = proto::JobPlan {
            state: proto::JobPlanState::Pinned.into(),
            flow_count: 12,
            pinned_flow_count: 12,
            ..proto::JobPlan::default()
        };
        // An earlier release does not say which way flows go.
        assert_eq!(planned(&plan), "pinned, 12 of 12 flows have their pins");
        assert_eq!(ways(&plan), "");
        plan.programmed_flow_count = 12;
        assert_eq!(planned(&plan), "pinned, 12 of 12 flows have their pins");
        let routed = ", 0 as the own routing of their leaves has it";
        assert_eq!(
            ways(&plan),
            format!("12 flows by pins, 0 by weights{routed}")
        );
        // A leader has not heard the leaf of two of them yet.
        plan.programmed_flow_count = 10;
        let text = format!("10 flows by pins, 0 by weights{routed}, 2 nobody knows how yet");
        assert_eq!(ways(&plan), text);
        (plan.programmed_flow_count, plan.own_routing_flow_count) = (9, 3);
        plan.unprogrammed_reasons = vec!["leaf1, leaf2 are in shadow".to_owned()];
        let text = "pinned, 12 of 12 flows have their pins, of which switches get 9: leaf1, leaf2 are in shadow";
        assert_eq!(planned(&plan), text);
        plan.programmed_flow_count = 0;
        plan.unprogrammed_reasons
            .insert(0, "the job is in shadow".to_owned());
        let text = "pinned, 12 of 12 flows have their pins, of which switches get none: \
                    the job is in shadow; leaf1, leaf2 are in shadow";
        assert_eq!(planned(&plan), text);
        plan.set_state(proto::JobPlanState::Weighted);
        (plan.pinned_flow_count, plan.reason) = (0, "its mode is off".to_owned());
        let text = "weighted, 0 of 12 flows have their pins: \
                    its mode is off; the job is in shadow; leaf1, leaf2 are in shadow";
        assert_eq!(planned(&plan), text);
    }

    #[test]
    fn demand_beyond_what_links_carry_says_what_decides_it() {
        let certificate = |lower_bound: f64| proto::PinCertificate {
            lower_bound,
            bound_kind: BoundKind::LeafTakes.into(),
            bound_leaf_names: vec!["leaf1".to_owned()],
            ..proto::PinCertificate::default()
        };
        // A link that is full carries all that it has to.
        for carried in [0.0, 0.75, 1.0, FULL, f64::NAN] {
            assert_eq!(over(&certificate(carried)), None, "{carried}");
        }
        let said = "jobs need 1.25 times what links carry: what leaf1 takes over its uplinks";
        assert_eq!(over(&certificate(1.25)).as_deref(), Some(said));
        let plan = proto::GetJobPlanResponse {
            certificate: Some(certificate(1.25)),
            ..plan()
        };
        let mut out = Vec::new();
        print(&job(), &plan, true, &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        let line = format!("\ndemand:         {said}\n");
        assert!(printed.contains(&line), "{printed}");
    }

    #[test]
    fn a_bound_of_many_leaves_says_which_they_are() {
        let mut certificate = proto::PinCertificate {
            bound_kind: BoundKind::AllFlows.into(),
            ..proto::PinCertificate::default()
        };
        let together = "flows of many leaves together: too few spines lead from one to the other, or too little above these";
        assert_eq!(bound(&certificate), together);
        certificate.bound_leaf_names = vec!["leaf1".to_owned(), "leaf2".to_owned()];
        let pod = "what these leaves send to other pods, or take from them: leaf1, leaf2";
        assert_eq!(bound(&certificate), pod);
        certificate.bound_leaf_names = (1..=10).map(|at| format!("leaf{at}")).collect();
        assert!(bound(&certificate).ends_with(", leaf8, and 2 more"));
    }

    #[test]
    fn without_pins_there_is_no_certificate() {
        let mut out = Vec::new();
        let job = proto::GetJobResponse {
            resource: Some(proto::Job {
                name: "train1".to_owned(),
                ..proto::Job::default()
            }),
            ..proto::GetJobResponse::default()
        };
        let plan = proto::GetJobPlanResponse {
            resource: Some(proto::JobPlan {
                state: proto::JobPlanState::NoFlows.into(),
                ..proto::JobPlan::default()
            }),
            ..proto::GetJobPlanResponse::default()
        };
        print(&job, &plan, true, &mut out).unwrap();
        let expected = "job:            train1\nexpires:        never\nplan:           no-flows\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert!(object(&job, &plan).get("certificate").is_none());
    }
}
