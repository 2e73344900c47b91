//! The checks of an EVPN fabric, in the order in which an engineer would ask them. What the answers
//! must be is `expect.rs`; how they are obtained is `tables.rs`.

use std::time::{Duration, Instant};

use crate::{
    check::Checks,
    clock,
    expect::{Expect, Lines},
    failure::Failure,
    lab::Lab,
    resilience,
    sabotage::{self, Break},
    tables,
    weft::{Client, field},
};

/// Every check of the lab, from the first session to a stopped leaf.
pub(crate) fn check(
    lab: &mut Lab,
    expect: &Expect,
    sabotage: Option<Break>,
) -> Result<Checks, Failure> {
    let mut checks = Checks::default();
    introduce(lab, expect, &mut checks)?;
    if sabotage == Some(Break::RouteTarget) {
        sabotage::route_target(lab, expect)?;
    }
    tables_agree(lab, expect, &mut checks)?;
    hosts_reach_each_other(lab, expect, &mut checks)?;
    weft_agrees(lab, expect, &mut checks)?;
    weights_agree(lab, expect, sabotage, &mut checks)?;
    link_drained(lab, expect, &mut checks)?;
    resilience::killed(lab, expect, &mut checks)?;
    resilience::restarted(lab, expect, &mut checks)?;
    resilience::leaf_stopped(lab, expect, sabotage, &mut checks)?;
    let fallen = lab.fallen();
    checks.record(
        "no program ended by itself",
        Instant::now(),
        match fallen.is_empty() {
            true => Ok("all run".to_owned()),
            false => Err(fallen.join("\n")),
        },
    );
    Ok(checks)
}

/// Waits for the sessions, declares the fabric to weft, lets the hosts be heard.
pub(crate) fn introduce(lab: &Lab, expect: &Expect, checks: &mut Checks) -> Result<(), Failure> {
    checks.agree(
        "two underlay paths to every VTEP",
        checks.patience(),
        &expect.underlay(),
        || tables::underlay(lab, expect),
    )?;
    checks.agree(
        "every leaf peers with every reflector",
        checks.patience(),
        &expect.sessions(),
        || tables::sessions(lab, expect),
    )?;
    if let Some(client) = Client::at(lab, expect, any_replica(expect))? {
        let file = lab.files.join("fabric.yaml").display().to_string();
        let accepted: Lines = ["accepted".to_owned()].into();
        checks.agree(
            "weft accepts fabric.yaml, and programs its leaves",
            checks.patience(),
            &accepted,
            || {
                client.text(&["fabric", "apply", &file])?;
                client.text(&["balance", "on"]).map(|_| accepted.clone())
            },
        )?;
    }
    for (a, b) in expect.neighbours(true) {
        let to = expect.hosts[b].address.to_string();
        let _first_may_be_lost = lab.run(a, &["ping", "-c", "1", "-W", "1", &to]);
    }
    Ok(())
}

fn tables_agree(lab: &Lab, expect: &Expect, checks: &mut Checks) -> Result<(), Failure> {
    checks.agree(
        "FRR's tables hold exactly the expected routes",
        checks.patience(),
        &expect.routes(None),
        || tables::routes(lab, expect, None),
    )?;
    checks.agree(
        "bridge fdb agrees",
        checks.patience(),
        &expect.forwarding(None),
        || tables::forwarding(lab, expect, None),
    )?;
    Ok(())
}

fn hosts_reach_each_other(lab: &Lab, expect: &Expect, checks: &mut Checks) -> Result<(), Failure> {
    for vni in &expect.vnis {
        let pairs = expect.neighbours(true);
        let inside = pairs
            .into_iter()
            .filter(|(a, _)| expect.hosts[*a].vni == *vni);
        let start = Instant::now();
        let mut lost = Vec::new();
        let mut asked = 0;
        for (a, b) in inside {
            asked += 1;
            let to = expect.hosts[b].address.to_string();
            if let Err(error) =
                lab.run(a, &["ping", "-q", "-i", "0.05", "-c", "10", "-W", "1", &to])
            {
                lost.push(format!("expected: {a} reaches {b}\nactual:   {error}"));
            }
            clock::go_on()?;
        }
        let answer = if lost.is_empty() {
            Ok(format!("{asked} pairs"))
        } else {
            Err(lost.join("\n"))
        };
        checks.record(
            &format!("hosts of VNI {vni} ping each other"),
            start,
            answer,
        );
    }
    isolated(lab, expect, checks)
}

/// No host reaches a host of another VNI, though both are in one subnet; not even its MAC is learned.
fn isolated(lab: &Lab, expect: &Expect, checks: &mut Checks) -> Result<(), Failure> {
    let start = Instant::now();
    let pairs = expect.neighbours(false);
    let mut reached = Vec::new();
    for (a, b) in &pairs {
        let to = expect.hosts[*b].address.to_string();
        if lab
            .run(a, &["ping", "-q", "-i", "0.05", "-c", "3", "-W", "1", &to])
            .is_ok()
        {
            reached.push(format!(
                "expected: {a} does not reach {b}\nactual:   it does"
            ));
        }
        let neighbours = lab.run(a, &["ip", "neigh", "show", &to])?;
        if neighbours.contains("lladdr") {
            reached.push(format!(
                "expected: {a} has no MAC for {b}\nactual:   {neighbours}"
            ));
        }
        clock::go_on()?;
    }
    let answer = if reached.is_empty() {
        Ok(format!("{} pairs", pairs.len()))
    } else {
        Err(reached.join("\n"))
    };
    checks.record("no host reaches another VNI", start, answer);
    Ok(())
}

/// The answers of every replica, which must be the same.
fn weft_agrees(lab: &Lab, expect: &Expect, checks: &mut Checks) -> Result<(), Failure> {
    for replica in expect.reflectors.keys() {
        let Some(client) = Client::at(lab, expect, replica)? else {
            return Ok(());
        };
        checks.agree(
            &format!("weft peer list at {replica}"),
            checks.patience(),
            &expect.owned(),
            || tables::peers(&client),
        )?;
        checks.agree(
            &format!("weft route list at {replica}"),
            checks.patience(),
            &expect.reflected(None),
            || tables::reflected(&client),
        )?;
        checks.agree(
            &format!("weft vtep list at {replica}"),
            checks.patience(),
            &expect.members(None),
            || tables::members_of(&client),
        )?;
    }
    Ok(())
}

fn weights_agree(
    lab: &Lab,
    expect: &Expect,
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let Some(client) = Client::at(lab, expect, any_replica(expect))? else {
        return Ok(());
    };
    checks.agree(
        "weft plan show follows the capacities",
        checks.patience(),
        &expect.shares(),
        || tables::ratios(&client),
    )?;
    let in_sync: Lines = expect
        .vteps
        .keys()
        .map(|leaf| format!("{leaf}: SWITCH_AGENT_STATE_IN_SYNC"))
        .collect();
    checks.agree(
        "weft agent list: every agent in sync",
        checks.patience(),
        &in_sync,
        || {
            let leader = resilience::leader(lab, expect)?; // the only replica that speaks to agents
            let Some(leader) = Client::at(lab, expect, &leader)? else {
                return Ok(Lines::new());
            };
            let agents = leader.list(&["agent", "list"])?;
            let agents = agents
                .iter()
                .map(|agent| (field(agent, "switch_name"), field(agent, "state")));
            let known = agents.filter(|(switch, _)| expect.vteps.contains_key(switch));
            Ok(known
                .map(|(switch, state)| format!("{switch}: {state}"))
                .collect())
        },
    )?;
    if sabotage == Some(Break::Weight) {
        sabotage::weight(lab, expect)?;
    }
    let planned = tables::planned(&client).or_else(unless_interrupted)?;
    let patience = if sabotage == Some(Break::Weight) {
        Duration::ZERO
    } else {
        checks.patience()
    };
    checks.agree(
        "kernel next-hop weights equal weft plan show",
        patience,
        &planned,
        || tables::installed(lab, expect),
    )?;
    Ok(())
}

/// A link set down through the API takes its share from the plan and from every kernel, and gets it back.
fn link_drained(lab: &Lab, expect: &Expect, checks: &mut Checks) -> Result<(), Failure> {
    let Some(client) = Client::at(lab, expect, any_replica(expect))? else {
        return Ok(());
    };
    let link = &expect.drained.link;
    for (state, expected) in [("down", expect.shares_drained()), ("up", expect.shares())] {
        let start = Instant::now();
        let set = client
            .text(&["link", state, link])
            .map(|_| "accepted".to_owned());
        checks.record(
            &format!("{link} set {state}"),
            start,
            set.map_err(|error| error.to_string()),
        );
        let name = format!("the plan follows {link} {state}");
        checks.agree(&name, AT_ONCE, &expected, || tables::ratios(&client))?;
        let planned = tables::planned(&client).or_else(unless_interrupted)?;
        let name = format!("every kernel follows {link} {state}");
        checks.agree(&name, AT_ONCE, &planned, || tables::installed(lab, expect))?;
    }
    Ok(())
}

/// A question that nobody answers has no expected lines: what depends on it then fails by itself.
fn unless_interrupted(failure: Failure) -> Result<Lines, Failure> {
    match failure {
        Failure::Interrupted => Err(Failure::Interrupted),
        Failure::Said(reason) => Ok([format!("no answer: {reason}")].into()),
    }
}

pub(crate) fn any_replica(expect: &Expect) -> &str {
    expect.reflectors.keys().next().map_or("", String::as_str)
}

/// How a person looks around in the lab.
pub(crate) fn hint(lab: &Lab, expect: &Expect) -> Result<String, Failure> {
    let leaf = expect.vteps.keys().next().map_or("", String::as_str);
    let namespace = &lab.namespace(leaf)?.0;
    let mut text = format!(
        "to look around:\n    ip netns exec {namespace} vtysh -N {namespace} -c 'show bgp l2vpn evpn'\n"
    );
    text.push_str(&format!("    ip netns exec {namespace} bridge fdb show\n"));
    if let Some(client) = Client::at(lab, expect, any_replica(expect))? {
        text.push_str(&format!("    {}", client.spelled("route list")?));
    }
    Ok(text)
}

/// Nothing is waited for between a link's state and the kernels but messages.
const AT_ONCE: Duration = Duration::from_secs(3);
