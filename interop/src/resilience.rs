//! What must survive: a killed replica, a rolling restart; and what must not: the routes of a leaf that
//! stopped.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::{
    check::{Checks, agreement},
    clock,
    expect::{Expect, Lines},
    failure::Failure,
    lab::Lab,
    sabotage::{self, Break},
    tables,
    traffic::{Seen, Watch},
    weft::{Client, field},
};

/// SIGKILL to a replica, the leader if there is one, during pings every 10 ms.
pub(crate) fn killed(lab: &mut Lab, expect: &Expect, checks: &mut Checks) -> Result<(), Failure> {
    let victim = leader(lab, expect)?;
    let start = Instant::now();
    let seen = watch_a_kill(lab, expect, &victim)?;
    checks.record(
        &format!("{victim} killed: no ping lost, no FDB entry removed"),
        start,
        seen.untouched(),
    );
    lab.start(&victim)?;
    whole(
        lab,
        expect,
        checks,
        &format!("{victim} is back with all routes"),
    )
}

/// Kills a replica while pings run, and watches for longer than any hold timer runs.
pub(crate) fn watch_a_kill(lab: &mut Lab, expect: &Expect, victim: &str) -> Result<Seen, Failure> {
    let watch = Watch::start(lab, expect, "kill")?;
    clock::pause(Duration::from_secs(2))?;
    lab.end(victim, Signal::SIGKILL)?;
    clock::pause(expect.hold() + Duration::from_secs(3))?;
    watch.stop()
}

/// The replica that leads, or the last one where nobody says.
pub(crate) fn leader(lab: &Lab, expect: &Expect) -> Result<String, Failure> {
    let last = expect
        .reflectors
        .keys()
        .next_back()
        .cloned()
        .unwrap_or_default();
    for replica in expect.reflectors.keys() {
        let Some(client) = Client::at(lab, expect, replica)? else {
            return Ok(last);
        };
        let Ok(replicas) = client.list(&["replica", "list"]) else {
            continue;
        };
        let leads = replicas
            .iter()
            .find(|replica| field(replica, "role") == "REPLICA_ROLE_LEADER");
        let address = leads.map(|replica| field(replica, "raft_address"));
        let address = address.unwrap_or_default();
        let named = expect
            .reflectors
            .iter()
            .find(|(_, at)| address.starts_with(&format!("{at}:")));
        if let Some((name, _)) = named {
            return Ok(name.clone());
        }
    }
    Ok(last)
}

/// Every replica ended with SIGTERM and started again, one after another.
pub(crate) fn restarted(
    lab: &mut Lab,
    expect: &Expect,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    let watch = Watch::start(lab, expect, "restart")?;
    for replica in expect.reflectors.keys() {
        lab.end(replica, Signal::SIGTERM)?;
        clock::pause(Duration::from_secs(1))?;
        lab.start(replica)?;
        whole(
            lab,
            expect,
            checks,
            &format!("{replica} restarted and has all routes"),
        )?;
    }
    let seen = watch.stop()?;
    checks.record(
        "all replicas restarted: no ping lost, no FDB entry removed",
        start,
        seen.untouched(),
    );
    Ok(())
}

/// A leaf whose programs stand still sends no more keepalives: its routes must be gone everywhere within
/// its hold time and one second, and come back with it.
pub(crate) fn leaf_stopped(
    lab: &mut Lab,
    expect: &Expect,
    sabotage: Option<Break>,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let leaf = expect.vteps.keys().next_back().cloned().unwrap_or_default();
    let mut expected = expect.routes(Some(&leaf));
    expected.extend(expect.forwarding(Some(&leaf)));
    for replica in expect.reflectors.keys().filter(|_| lab.programs.is_some()) {
        expected.extend(
            expect
                .members(Some(&leaf))
                .iter()
                .map(|line| format!("{replica}: {line}")),
        );
    }
    let watch = Watch::start_tables(lab, expect, "stop")?;
    lab.freeze(&leaf, true)?;
    let start = Instant::now();
    if sabotage == Some(Break::Withdraw) {
        clock::pause(sabotage::BEFORE_THE_FIRST_WITHDRAW)?;
        sabotage::swallow_withdraws(lab, expect, true)?;
    }
    let within = expect.hold() + Duration::from_secs(1);
    let name = format!(
        "{leaf} stopped: withdrawn everywhere within {} s",
        within.as_secs()
    );
    let left = within.saturating_sub(start.elapsed());
    let gone = agreement(left, &expected, || everywhere_without(lab, expect, &leaf))?;
    checks.record(
        &name,
        start,
        gone.map(|()| format!("{} lines", expected.len())),
    );
    checks.record(
        "bridge monitor saw what left",
        start,
        removals(expect, &leaf, watch)?,
    );
    lab.freeze(&leaf, false)?;
    if sabotage == Some(Break::Withdraw) {
        sabotage::swallow_withdraws(lab, expect, false)?;
    }
    whole(
        lab,
        expect,
        checks,
        &format!("{leaf} is back with all routes"),
    )
}

/// The watcher that saw nothing while a replica was killed must see something when entries do leave.
fn removals(expect: &Expect, leaf: &str, watch: Watch) -> Result<Result<String, String>, Failure> {
    let before = expect.forwarding(None);
    let after = expect.forwarding(Some(leaf));
    let own = format!("{leaf} ");
    let due = before
        .difference(&after)
        .filter(|line| !line.starts_with(&own))
        .count();
    let seen = watch.stop()?.removed.len();
    Ok(if seen >= due {
        Ok(format!("{seen} removals, {due} due"))
    } else {
        Err(format!(
            "expected: {due} removals or more\nactual:   {seen}"
        ))
    })
}

fn everywhere_without(lab: &Lab, expect: &Expect, leaf: &str) -> Result<Lines, Failure> {
    let mut lines = tables::routes(lab, expect, Some(leaf))?;
    lines.extend(tables::forwarding(lab, expect, Some(leaf))?);
    for replica in expect.reflectors.keys() {
        let Some(client) = Client::at(lab, expect, replica)? else {
            break;
        };
        lines.extend(
            tables::members_of(&client)?
                .iter()
                .map(|line| format!("{replica}: {line}")),
        );
    }
    Ok(lines)
}

/// Waits until every leaf holds a session to every reflector, and every route from each of them.
fn whole(lab: &Lab, expect: &Expect, checks: &mut Checks, name: &str) -> Result<(), Failure> {
    let mut expected = expect.sessions();
    expected.extend(expect.routes(None));
    expected.extend(expect.forwarding(None));
    checks.agree(name, checks.patience(), &expected, || {
        let mut lines = tables::sessions(lab, expect)?;
        lines.extend(tables::routes(lab, expect, None)?);
        lines.extend(tables::forwarding(lab, expect, None)?);
        Ok(lines)
    })?;
    Ok(())
}
