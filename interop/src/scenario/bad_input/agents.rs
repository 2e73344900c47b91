//! An agent that nobody runs: shown as such, tried again with a bound, and no hindrance to the others.

use std::time::{Duration, Instant};

use super::{REPLICAS, witness};
use crate::{
    check::Checks,
    clock,
    expect::Lines,
    failure::Failure,
    lab::Lab,
    weft::{Client, field},
};

/// Declares the fabric, with one agent that runs and one that does not.
pub(super) fn declared(lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
    let (node, address) = REPLICAS[0];
    let client = Client::of(lab, node, &address.to_string())?;
    let file = lab.files.join("fabric.yaml").display().to_string();
    let accepted: Lines = ["accepted".to_owned()].into();
    let patience = checks.patience();
    let name = "weft accepts fabric.yaml, and programs its leaves";
    checks.agree(name, patience, &accepted, || {
        client.text(&["fabric", "apply", &file])?;
        client.text(&["balance", "on"]).map(|_| accepted.clone())
    })?;
    Ok(())
}

/// What `weft agent list` shows at the leader and at the others, and how often the leader dials in vain.
pub(super) fn unreachable(lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
    let expected: Lines = [
        "leaf1: SWITCH_AGENT_STATE_IN_SYNC".to_owned(),
        format!("leaf2: {UNREACHABLE}, and says why"),
    ]
    .into();
    checks.agree(
        "weft agent list at the leader: one in sync, one unreachable",
        WITHIN,
        &expected,
        || shown(lab, &leader(lab)?),
    )?;
    let others = |leader: &str| {
        let names = REPLICAS.iter().map(|(name, _)| *name);
        names.filter(|name| *name != leader).collect::<Vec<_>>()
    };
    for follower in others(&leader(lab)?) {
        checks.agree(
            &format!("weft agent list at {follower}: the same"),
            WITHIN,
            &expected,
            || shown(lab, follower),
        )?;
    }
    let start = Instant::now();
    let leader = leader(lab)?;
    for rule in COUNTED {
        lab.run(&leader, &["nft", rule])?;
    }
    clock::pause(WATCHED)?;
    let dials = dials(lab, &leader)?;
    // The pause is 1 s at first and is doubled up to 30 s.
    let verdict = match dials <= WATCHED.as_secs() {
        true => Ok(format!("{dials} dials in {WATCHED:?}")),
        false => Err(format!(
            "expected: a dial each second at most\nactual:   {dials} in {WATCHED:?}"
        )),
    };
    checks.record(
        "the unreachable agent is not dialed without pause",
        start,
        verdict,
    );
    Ok(())
}

fn client<'a>(lab: &'a Lab, node: &str) -> Result<Client<'a>, Failure> {
    let known = witness::clients(lab)?;
    let found = known.into_iter().find(|(name, _)| *name == node);
    let (_, client) = found.ok_or_else(|| Failure::new("no leader"))?;
    Ok(client)
}

fn shown(lab: &Lab, node: &str) -> Result<Lines, Failure> {
    let client = client(lab, node)?;
    let agents = client.list(&["agent", "list"])?;
    Ok(agents
        .iter()
        .map(|agent| {
            let (switch, state) = (field(agent, "switch_name"), field(agent, "state"));
            match (state.as_str(), field(agent, "last_error").as_str()) {
                (UNREACHABLE, "") => format!("{switch}: {UNREACHABLE}, and does not say why"),
                (UNREACHABLE, _) => format!("{switch}: {UNREACHABLE}, and says why"),
                _ => format!("{switch}: {state}"),
            }
        })
        .collect())
}

fn leader(lab: &Lab) -> Result<String, Failure> {
    for (_, client) in witness::clients(lab)? {
        let replicas = client.list(&["replica", "list"])?;
        let leads = replicas
            .iter()
            .find(|replica| field(replica, "role") == "REPLICA_ROLE_LEADER");
        let at = leads.map(|replica| field(replica, "raft_address"));
        let at = at.unwrap_or_default();
        let named = REPLICAS
            .iter()
            .find(|(_, address)| at.starts_with(&format!("{address}:")));
        if let Some((name, _)) = named {
            return Ok((*name).to_owned());
        }
    }
    Err(Failure::new("no leader"))
}

/// How often a node dialed an agent since that is counted.
fn dials(lab: &Lab, node: &str) -> Result<u64, Failure> {
    let text = lab.run(node, &["nft", "list table inet dials"])?;
    let mut words = text
        .split_whitespace()
        .skip_while(|word| *word != "packets");
    let counted = words.nth(1).and_then(|word| word.parse().ok());
    counted.ok_or_else(|| Failure::new(format!("no counter in {text}")))
}

/// SYNs to the port where no agent is.
const COUNTED: [&str; 3] = [
    "add table inet dials",
    "add chain inet dials out { type filter hook output priority 0; }",
    "add rule inet dials out tcp dport 9341 tcp flags & (syn | ack) == syn counter",
];

const UNREACHABLE: &str = "SWITCH_AGENT_STATE_UNREACHABLE";
const WITHIN: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(4);
