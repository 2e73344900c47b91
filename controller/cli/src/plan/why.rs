//! `weft plan why`: why a weight or a pin is what it is, from the reasons that plans carry. Plans nothing by itself.

use std::io::{self, Write};
use std::net::IpAddr;

use clap::Args;
use serde_json::Value;
use weft_proto::v1 as proto;

use self::missing::{Missing, missing};
use super::{print_entry, rows};
use crate::balance;
use crate::completion;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::job;
use crate::output::{self, printable};
use crate::pin;
use crate::switch;

mod missing;
mod sends;

/// What is asked about.
#[derive(Args)]
pub(crate) struct Why {
    /// The leaf that sends; with --job the host port of the NIC that does.
    #[arg(add = completion::leaves())]
    source: String,
    /// Only what it sends there: a leaf, or the prefix of its VTEP; with --job the host port of the NIC that takes.
    #[arg(add = completion::leaves())]
    destination: Option<String>,
    /// The job whose flow is asked about, from one host port to another.
    #[arg(long, value_name = "JOB", requires = "destination", add = completion::jobs())]
    job: Option<String>,
}

impl Why {
    /// Asks and prints.
    pub(super) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match (self.job, self.destination) {
            (Some(job), Some(to)) => flow(&job, &self.source, &to, dialog).await,
            (_, to) => weights(&self.source, to.as_deref(), dialog).await,
        }
    }
}

/// Weights of a leaf, and what it does not send by them.
async fn weights(leaf: &str, to: Option<&str>, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let plan = leaf_plan(leaf, to, dialog).await?;
    let balance = leaf_balance(leaf, dialog).await?;
    let missing = missing(&balance, dialog).await?;
    let mut object = serde_json::json!({
        "leaf_plan": output::message("weft.v1.LeafPlan", &plan),
        "leaf_balance": output::message("weft.v1.LeafBalance", &balance),
    });
    if let Some(missing) = &missing {
        object["missing_reason"] = missing.why().into();
    }
    if dialog.object(&object)? {
        return Ok(());
    }
    print_entries(&plan, dialog.out)?;
    let said = in_force(&balance, Some(&plan), missing.as_ref());
    writeln!(dialog.out, "{said}")?;
    Ok(())
}

/// What the leaf does with its weights, as far as it is known to have them.
fn in_force(
    balance: &proto::LeafBalance,
    plan: Option<&proto::LeafPlan>,
    missing: Option<&Missing>,
) -> String {
    let gets = programmed(balance, plan);
    match missing.filter(|_| has_weights(balance, plan)) {
        None => gets,
        Some(Missing::Some(why)) => format!("{gets}; {why}"),
        Some(Missing::All(why)) => {
            let (leaf, whose) = (printable(&balance.leaf_name), whose(balance));
            format!("{leaf} is on ({whose}), and is not known to have any of this: {why}")
        }
    }
}

/// Where the balance mode of a leaf comes from: its own, or that of the fabric.
fn whose(balance: &proto::LeafBalance) -> &'static str {
    match balance.has_own_mode {
        true => "its own mode",
        false => "the mode of all leaves",
    }
}

/// What the leaf does with its weights: those of a plan, if one is given.
fn programmed(balance: &proto::LeafBalance, plan: Option<&proto::LeafPlan>) -> String {
    let leaf = printable(&balance.leaf_name);
    let mode = balance::name(balance.mode());
    let whose = whose(balance);
    let ways = (&balance.agent_address, &balance.peer_address);
    let to = plan.map(unweighted).unwrap_or_default();
    // The plan has weights to some leaves, and none to these.
    let but = match to.as_str() {
        "" => String::new(),
        to => format!("; it gets none{to}, where its own routing decides"),
    };
    match (balance.mode(), ways) {
        (_, (None, None)) => {
            format!("{leaf} has no agent, and takes no weights over BGP: its own routing decides")
        }
        (proto::BalanceMode::On, _) if plan.is_some_and(is_unweighted) => {
            format!("{leaf} is on ({whose}), and gets no weights{to}: its own routing decides")
        }
        (proto::BalanceMode::On, (Some(_), _)) => {
            format!(
                "{leaf} is on ({whose}): it gets these weights, and flows that are pinned go by their pins{but}"
            )
        }
        (proto::BalanceMode::On, (None, Some(peer))) => {
            let peer = printable(peer);
            format!(
                "{leaf} is on ({whose}): it is told these weights over BGP, on its sessions from {peer}, and no pins{but}"
            )
        }
        (_, _) => format!("{leaf} is {mode} ({whose}): its own routing decides"),
    }
}

/// Whether no entry of a plan has weights.
fn is_unweighted(plan: &proto::LeafPlan) -> bool {
    plan.entries.iter().all(|entry| entry.members.is_empty())
}

/// The leaves that a plan has no weights to: ` to leaf2, leaf3 and 4 more`; empty: it has some to all leaves.
fn unweighted(plan: &proto::LeafPlan) -> String {
    let without = plan.entries.iter().filter(|it| it.members.is_empty());
    let named = without.clone().take(NAMES_MAX);
    let named: Vec<String> = named
        .map(|it| printable(&it.destination_switch_name))
        .collect();
    let named = named.join(", ");
    match without.count() {
        0 => String::new(),
        all if all > NAMES_MAX => format!(" to {named} and {} more", all - NAMES_MAX),
        _ => format!(" to {named}"),
    }
}

/// Whether the leaf gets weights: some of those of a plan, if one is given.
fn has_weights(balance: &proto::LeafBalance, plan: Option<&proto::LeafPlan>) -> bool {
    let has_way = balance.agent_address.is_some() || balance.peer_address.is_some();
    has_way && balance.mode() == proto::BalanceMode::On && !plan.is_some_and(is_unweighted)
}

/// Why no switch gets the pin of a flow; None: its leaf is to have it. A plan, if one is given, says whether the leaf has weights
/// there, over whose next hops a pin goes.
fn unpinned(
    job: proto::BalanceMode,
    balance: Option<&proto::LeafBalance>,
    plan: Option<&proto::LeafPlan>,
) -> Option<String> {
    if job == proto::BalanceMode::Shadow {
        return Some("the job is in shadow".to_owned());
    }
    let balance = balance?;
    let gets = has_weights(balance, plan) && balance.agent_address.is_some();
    (!gets).then(|| programmed(balance, plan))
}

/// One flow of a job: where it goes, and why.
async fn flow(job: &str, from: &str, to: &str, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let plan = job_plan(job, dialog).await?;
    let pins = pins(job, to, dialog).await?;
    let pin = pins.iter().find(|pin| pin.source_host_port_name == from);
    let ends = [from, to].map(|port| leaf(&plan, port));
    let crosses = ends[0] != ends[1] && ends.iter().all(|leaf| !leaf.is_empty());
    if pin.is_none() {
        sends::check(&plan, job, [from, to], crosses, dialog).await?;
    }
    // What is not pinned goes as the leaf sends everything, unless it stays below the leaf.
    let entries = match pin {
        None if crosses => Some(leaf_plan(ends[0], Some(ends[1]), dialog).await?),
        Some(_) | None => None,
    };
    let balance = match crosses {
        true => Some(leaf_balance(ends[0], dialog).await?),
        false => None,
    };
    let missing = match &balance {
        Some(balance) => missing(balance, dialog).await?,
        None => None,
    };
    let mode = match pin {
        Some(_) => declared(job, dialog).await?.balance_mode(),
        None => proto::BalanceMode::Unspecified,
    };
    let mut object = object(&plan, pin, entries.as_ref(), balance.as_ref());
    if let Some(missing) = &missing {
        object["missing_reason"] = missing.why().into();
    }
    if dialog.object(&object)? {
        return Ok(());
    }
    let mut unpinned_by = unpinned(mode, balance.as_ref(), None);
    // A pin goes over next hops that have weights.
    if pin.is_some() && crosses && unpinned_by.is_none() {
        let weights = entries_to(ends[0], Some(ends[1]), dialog).await?;
        unpinned_by = unpinned(mode, balance.as_ref(), Some(&weights));
    }
    let out = &mut *dialog.out;
    let [job, from, to] = [job, from, to].map(printable);
    write!(out, "{job}, {from} to {to}: ")?;
    match (pin, entries) {
        (Some(pin), _) => {
            writeln!(out, "pinned to {}", paths(pin))?;
            print_pin(pin, ends[0], together(&plan, pin, &pins), out)?;
            if let Some(why) = unpinned_by {
                writeln!(out, "  no switch gets this pin: {why}")?;
            } else if let Some(missing) = &missing {
                writeln!(out, "  {}", missing.of_pin())?;
            }
        }
        (None, None) if ends.contains(&"") => {
            let why = "no type 2 route that is known here says which leaves they are behind";
            writeln!(out, "not pinned; {why}")?;
        }
        (None, None) => {
            let leaf = printable(ends[0]);
            writeln!(out, "not pinned; it stays below {leaf}")?;
        }
        (None, Some(entries)) => {
            print_unpinned(&entries, balance.as_ref(), missing.as_ref(), out)?;
        }
    }
    print_plan(&plan, out)?;
    Ok(())
}

/// How far the plan of a job came, and how good the pins of all jobs are.
fn print_plan(plan: &proto::GetJobPlanResponse, out: &mut dyn Write) -> io::Result<()> {
    let no_plan = proto::JobPlan::default();
    let job_plan = plan.resource.as_ref().unwrap_or(&no_plan);
    let planned = job::detail::planned(job_plan);
    writeln!(out, "plan of the job: {}", printable(&planned))?;
    for (name, text) in plan.certificate.iter().flat_map(job::detail::certified) {
        writeln!(out, "{name}: {}", printable(&text))?;
    }
    Ok(())
}

/// How a leaf sends what is not pinned.
fn print_unpinned(
    plan: &proto::LeafPlan,
    balance: Option<&proto::LeafBalance>,
    missing: Option<&Missing>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match balance {
        Some(balance) if !has_weights(balance, None) => {
            return writeln!(out, "not pinned; {}", programmed(balance, None));
        }
        Some(balance) if is_unweighted(plan) => {
            writeln!(out, "not pinned; {}", programmed(balance, Some(plan)))?;
        }
        Some(balance) if missing.is_some() => {
            let said = in_force(balance, Some(plan), missing);
            writeln!(out, "not pinned; {said}")?;
        }
        Some(_) | None => writeln!(out, "not pinned; what is sent goes by weights")?,
    }
    print_entries(plan, out)
}

/// What there is to say of a pin beside its spines; so many other flows of its leaf go with it.
fn print_pin(pin: &proto::Pin, leaf: &str, others: usize, out: &mut dyn Write) -> io::Result<()> {
    let ports = pin::ports(pin);
    if !ports.is_empty() {
        let ports = printable(&ports);
        writeln!(out, "  by the UDP source ports of queue pairs: {ports}")?;
    }
    if others > 0 {
        let leaf = printable(leaf);
        writeln!(
            out,
            "  with {others} other flows of {leaf} to the same NIC, over the same spines"
        )?;
    }
    Ok(())
}

fn object(
    plan: &proto::GetJobPlanResponse,
    pin: Option<&proto::Pin>,
    entries: Option<&proto::LeafPlan>,
    balance: Option<&proto::LeafBalance>,
) -> Value {
    let job_plan = plan.resource.as_ref();
    let certificate = plan.certificate.as_ref();
    let fields = [
        (
            "job_plan",
            job_plan.map(|it| output::message("weft.v1.JobPlan", it)),
        ),
        (
            "certificate",
            certificate.map(|it| output::message("weft.v1.PinCertificate", it)),
        ),
        ("pin", pin.map(|it| output::message("weft.v1.Pin", it))),
        (
            "leaf_plan",
            entries.map(|it| output::message("weft.v1.LeafPlan", it)),
        ),
        (
            "leaf_balance",
            balance.map(|it| output::message("weft.v1.LeafBalance", it)),
        ),
    ];
    // What is absent is not there, as in any message.
    let fields = fields.into_iter();
    fields
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// VNI and address of a NIC that no host port declares, by its name: `vni100:192.0.2.1`.
fn undeclared(port: &str) -> Option<(u32, IpAddr)> {
    let (vni, ip) = port.strip_prefix("vni")?.split_once(':')?;
    Some((vni.parse().ok()?, ip.parse().ok()?))
}

/// The leaf that a NIC is behind; empty: of one that no host port declares, the plan does not say.
fn leaf<'a>(plan: &'a proto::GetJobPlanResponse, port: &'a str) -> &'a str {
    let mut moved = plan.resource.iter().flat_map(|it| &it.moved_nics);
    match moved.find(|nic| nic.host_port_name == port) {
        Some(nic) => &nic.leaf_name,
        None if undeclared(port).is_some() => "",
        None => port.split_once(':').map_or(port, |(leaf, _)| leaf),
    }
}

/// `spine1, 2 of 3 parts, and spine2, 1 of 3 parts`.
fn paths(pin: &proto::Pin) -> String {
    let sum: u64 = pin.paths.iter().map(|path| u64::from(path.weight)).sum();
    let one = |path: &proto::PinPath| {
        let spine = printable(&path.spine_name);
        format!("{spine}, {} of {sum} parts", path.weight)
    };
    let paths: Vec<_> = pin.paths.iter().map(one).collect();
    match pin.paths.as_slice() {
        [only] => printable(&only.spine_name),
        _ => paths.join(", and "),
    }
}

/// How many other flows of the same leaf go to the same NIC, if all of them have the same spines: else the leaf tells them apart.
fn together(plan: &proto::GetJobPlanResponse, pin: &proto::Pin, all: &[proto::Pin]) -> usize {
    let leaf = |pin: &proto::Pin| leaf(plan, &pin.source_host_port_name).to_owned();
    let own = leaf(pin);
    let of_leaf = || all.iter().filter(|it| leaf(it) == own);
    match of_leaf().all(|it| it.paths == pin.paths) {
        true => of_leaf().count().saturating_sub(1),
        false => 0,
    }
}

fn print_entries(plan: &proto::LeafPlan, out: &mut dyn Write) -> io::Result<()> {
    for entry in &plan.entries {
        print_entry(&plan.leaf_name, entry, out)?;
        for row in rows(entry) {
            // Share, switch, interface, next hop, reason.
            if let [share, via, interface, _, reason] = row.as_slice() {
                let cells = [via, interface, reason].map(|cell| printable(cell));
                writeln!(
                    out,
                    "{share} over {} ({}): {}",
                    cells[0], cells[1], cells[2]
                )?;
            }
        }
    }
    Ok(())
}

/// The plan of one leaf, of which only entries to one destination are kept if that is named; some there have to be then.
async fn leaf_plan(
    leaf: &str,
    to: Option<&str>,
    dialog: &Dialog<'_>,
) -> Result<proto::LeafPlan, Failure> {
    let plan = entries_to(leaf, to, dialog).await?;
    match to {
        Some(to) if plan.entries.is_empty() => {
            let reason = unplanned(leaf, to, dialog).await?;
            Err(Failure::Refused(reason))
        }
        Some(_) | None => Ok(plan),
    }
}

/// Why a leaf has no plan for what it sends to a leaf, or to the prefix of a VTEP.
async fn unplanned(leaf: &str, to: &str, dialog: &Dialog<'_>) -> Result<String, Failure> {
    if to == leaf {
        return Ok(format!("{leaf} sends nothing to itself over a spine"));
    }
    let none = format!("{leaf} has no plan for what it sends to {to:?}");
    // No name has a slash.
    if to.contains('/') {
        return Ok(none);
    }
    let found = switch::found(to, &dialog.connection).await?;
    Ok(match found.map(|it| it.role()) {
        None => format!("no leaf is named {to:?}"),
        Some(proto::SwitchRole::Spine) => format!("{to:?} is a spine"),
        Some(proto::SwitchRole::Leaf | proto::SwitchRole::Unspecified) => none,
    })
}

/// The plan of one leaf, of which only entries to one destination are kept if that is named.
async fn entries_to(
    leaf: &str,
    to: Option<&str>,
    dialog: &Dialog<'_>,
) -> Result<proto::LeafPlan, Failure> {
    let connection = &dialog.connection;
    let ask = async |page_token| {
        let mut client = connection.plans().await?;
        let request = proto::ListLeafPlansRequest {
            page_size: PAGE_SIZE,
            page_token,
            leaf_name: Some(leaf.to_owned()),
        };
        let page = connection.answer(client.list_leaf_plans(request)).await?;
        Ok(Page::new(
            page.header,
            page.leaf_plans,
            page.next_page_token,
        ))
    };
    let parts = connection.every(ask, |_| ()).await?;
    let mut plan = parts.first().cloned().unwrap_or_default();
    let entries = parts.into_iter().flat_map(|part| part.entries);
    let wanted = |entry: &proto::PlanEntry| match to {
        None => true,
        Some(to) => [&entry.destination_switch_name, &entry.prefix].contains(&&to.to_owned()),
    };
    plan.entries = entries.filter(wanted).collect();
    Ok(plan)
}

async fn leaf_balance(leaf: &str, dialog: &Dialog<'_>) -> Result<proto::LeafBalance, Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.plans().await?;
        let leaf_name = leaf.to_owned();
        let call = client.get_leaf_balance(proto::GetLeafBalanceRequest { leaf_name });
        connection.answer(call).await
    };
    let answer = connection.read(question).await?;
    Ok(answer.resource.unwrap_or_default())
}

/// A job as it is declared.
async fn declared(job: &str, dialog: &Dialog<'_>) -> Result<proto::Job, Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.jobs().await?;
        let name = job.to_owned();
        let call = client.get_job(proto::GetJobRequest { name });
        connection.answer(call).await
    };
    let answer = connection.read(question).await?;
    Ok(answer.resource.unwrap_or_default())
}

async fn job_plan(job: &str, dialog: &Dialog<'_>) -> Result<proto::GetJobPlanResponse, Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.plans().await?;
        let job_name = job.to_owned();
        let call = client.get_job_plan(proto::GetJobPlanRequest { job_name });
        connection.answer(call).await
    };
    connection.read(question).await
}

/// The pins of a job to one NIC.
async fn pins(job: &str, to: &str, dialog: &Dialog<'_>) -> Result<Vec<proto::Pin>, Failure> {
    let connection: &Connection = &dialog.connection;
    let ask = async |page_token| {
        let mut client = connection.plans().await?;
        let request = proto::ListPinsRequest {
            page_size: PAGE_SIZE,
            page_token,
            job_name: Some(job.to_owned()),
        };
        let page = connection.answer(client.list_pins(request)).await?;
        // A job has up to half a million.
        let mut pins = page.pins;
        pins.retain(|pin| pin.destination_host_port_name == to);
        Ok(Page::new(page.header, pins, page.next_page_token))
    };
    connection.every(ask, |_| ()).await
}

/// Leaves that a line names; --output json has all.
const NAMES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(
        mode: proto::BalanceMode,
        agent: Option<&str>,
        peer: Option<&str>,
    ) -> proto::LeafBalance {
        proto::LeafBalance {
            leaf_name: "leaf1".to_owned(),
            mode: mode.into(),
            has_own_mode: true,
            agent_address: agent.map(str::to_owned),
            peer_address: peer.map(str::to_owned),
        }
    }

    #[test]
    fn what_becomes_of_weights_depends_on_the_mode_and_on_who_takes_them() {
        use proto::BalanceMode::{On, Shadow};
        let (agent, peer) = (Some("192.0.2.11:9340"), Some("192.0.2.11"));
        let of_all = proto::LeafBalance {
            has_own_mode: false,
            ..balance(Shadow, agent, None)
        };
        assert_eq!(
            programmed(&of_all, None),
            "leaf1 is shadow (the mode of all leaves): its own routing decides"
        );
        let table = [
            (
                On,
                agent,
                None,
                "on (its own mode): it gets these weights, and flows that are pinned go by their pins",
            ),
            (
                On,
                None,
                peer,
                "on (its own mode): it is told these weights over BGP, on its sessions from 192.0.2.11, and no pins",
            ),
            (
                Shadow,
                None,
                peer,
                "shadow (its own mode): its own routing decides",
            ),
            (
                Shadow,
                agent,
                None,
                "shadow (its own mode): its own routing decides",
            ),
        ];
        for (mode, agent, peer, text) in table {
            let balance = balance(mode, agent, peer);
            assert_eq!(programmed(&balance, None), format!("leaf1 is {text}"));
            assert_eq!(has_weights(&balance, None), mode == On);
        }
        let nobody = balance(On, None, None);
        let text = "leaf1 has no agent, and takes no weights over BGP: its own routing decides";
        assert_eq!(programmed(&nobody, None), text);
        assert!(!has_weights(&nobody, None));
    }

    /// What leaf 1 sends to these leaves: whether it has weights there.
    fn planned(entries: impl IntoIterator<Item = (String, bool)>) -> proto::LeafPlan {
        let entry = |(to, weighted): (String, bool)| proto::PlanEntry {
            destination_switch_name: to,
            members: vec![proto::PlanMember::default(); usize::from(weighted)],
            ..proto::PlanEntry::default()
        };
        proto::LeafPlan {
            leaf_name: "leaf1".to_owned(),
            entries: entries.into_iter().map(entry).collect(),
            ..proto::LeafPlan::default()
        }
    }

    #[test]
    fn a_leaf_without_weights_is_not_said_to_get_them() {
        use proto::BalanceMode::{On, Shadow};
        let (agent, peer) = (Some("192.0.2.11:9340"), Some("192.0.2.11"));
        let to = |leaf: u8, weighted| (format!("leaf{leaf}"), weighted);
        let gets = "leaf1 is on (its own mode): it gets these weights, and flows that are pinned go by their pins";
        let told = "leaf1 is on (its own mode): it is told these weights over BGP, on its sessions from 192.0.2.11, and no pins";
        let none = |to: &str| {
            format!("leaf1 is on (its own mode), and gets no weights{to}: its own routing decides")
        };
        let but = |to: &str| format!("; it gets none to {to}, where its own routing decides");
        let many = " to leaf2, leaf3, leaf4, leaf5, leaf6, leaf7, leaf8, leaf9 and 2 more";
        let all = planned([to(2, true), to(3, true)]);
        let some = planned([to(2, true), to(3, false), to(4, false)]);
        let unweighted = planned([to(2, false)]);
        let large = planned((2..=11).map(|leaf| to(leaf, false)));
        let table = [
            (agent, None, &all, gets.to_owned(), true),
            (None, peer, &all, told.to_owned(), true),
            (
                agent,
                None,
                &some,
                format!("{gets}{}", but("leaf3, leaf4")),
                true,
            ),
            (
                None,
                peer,
                &some,
                format!("{told}{}", but("leaf3, leaf4")),
                true,
            ),
            (agent, None, &unweighted, none(" to leaf2"), false),
            (None, peer, &unweighted, none(" to leaf2"), false),
            (agent, None, &large, none(many), false),
            // Nothing is planned yet.
            (agent, None, &planned([]), none(""), false),
        ];
        for (agent, peer, plan, text, has) in table {
            let balance = balance(On, agent, peer);
            assert_eq!(programmed(&balance, Some(plan)), text);
            assert_eq!(has_weights(&balance, Some(plan)), has);
        }
        let shadow = balance(Shadow, agent, None);
        let text = "leaf1 is shadow (its own mode): its own routing decides";
        assert_eq!(programmed(&shadow, Some(&unweighted)), text);
    }

    #[test]
    fn a_leaf_that_has_nothing_is_not_said_to_have_its_weights() {
        use proto::BalanceMode::{On, Shadow};
        let agent = Some("192.0.2.11:9340");
        let plan = planned([("leaf2".to_owned(), true)]);
        let why = "weft-agent of leaf1 has been silent for 12 s";
        let (all, some) = (
            Missing::All(why.to_owned()),
            Missing::Some("2 are not there".to_owned()),
        );
        let on = balance(On, agent, None);
        let said = |missing| in_force(&on, Some(&plan), missing);
        let gets = programmed(&on, Some(&plan));
        assert_eq!(said(None), gets);
        assert_eq!(said(Some(&some)), format!("{gets}; 2 are not there"));
        let none = "leaf1 is on (its own mode), and is not known to have any of this";
        assert_eq!(said(Some(&all)), format!("{none}: {why}"));
        // It is to have nothing.
        let shadow = balance(Shadow, agent, None);
        let gets = programmed(&shadow, Some(&plan));
        assert_eq!(in_force(&shadow, Some(&plan), Some(&all)), gets);
    }

    #[test]
    fn a_pin_that_no_switch_gets_says_why() {
        use proto::BalanceMode::{On, Shadow, Unspecified};
        let (agent, peer) = (Some("192.0.2.11:9340"), Some("192.0.2.11"));
        let on = balance(On, agent, None);
        assert_eq!(unpinned(Unspecified, Some(&on), None), None);
        let why = unpinned(Shadow, Some(&on), None);
        assert_eq!(why.as_deref(), Some("the job is in shadow"));
        let shadow = balance(Shadow, agent, None);
        let why = "leaf1 is shadow (its own mode): its own routing decides";
        assert_eq!(unpinned(On, Some(&shadow), None).as_deref(), Some(why));
        let bgp = unpinned(On, Some(&balance(On, None, peer)), None).unwrap();
        assert!(bgp.ends_with("and no pins"), "{bgp}");
        let weighted = planned([("leaf2".to_owned(), true)]);
        assert_eq!(unpinned(On, Some(&on), Some(&weighted)), None);
        let unweighted = planned([("leaf2".to_owned(), false)]);
        let why =
            "leaf1 is on (its own mode), and gets no weights to leaf2: its own routing decides";
        let said = unpinned(On, Some(&on), Some(&unweighted));
        assert_eq!(said.as_deref(), Some(why));
    }
}
