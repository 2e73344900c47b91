//! `weft plan what-if` and `weft plan simulate`: what would be planned if the fabric, or what runs on it, were another one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tonic::Code;
use weft_proto::v1::{self as proto, JobPlanState};

use super::svg;
use crate::completion;
use crate::dialog::Dialog;
use crate::failure::{self, Failure};
use crate::output::{self, Format, List, Table, or_dash, printable};
use crate::words::word;
use crate::{fabric, job};

/// How the fabric that is there would be changed.
#[derive(Args)]
pub(crate) struct WhatIf {
    #[command(flatten)]
    changes: Changes,
    /// A job that would not run; may be given several times.
    #[arg(long, value_name = "JOB", add = completion::jobs())]
    without_job: Vec<String>,
    /// Plan every pin anew, instead of keeping those that can stay.
    #[arg(long)]
    replan: bool,
}

/// A fabric in the place of the one that is declared.
#[derive(Args)]
pub(crate) struct Simulate {
    /// Fabric file, YAML or JSON, as `weft fabric apply` reads it.
    #[arg(long, value_name = "FILE")]
    fabric: PathBuf,
    #[command(flatten)]
    changes: Changes,
}

/// What both can change.
#[derive(Args)]
struct Changes {
    /// A switch whose links would carry nothing; may be given several times.
    #[arg(long, value_name = "SWITCH", add = completion::switches())]
    drain: Vec<String>,
    /// A link that would carry nothing; may be given several times.
    #[arg(long, value_name = "LINK", add = completion::links())]
    fail_link: Vec<String>,
    /// File of a job that would run too, as `weft job apply` reads it; may be given several times, and once as `-`. A job with
    /// the name of a declared one stands in its place.
    ///
    /// To rank placements of a declared job, write a file of it for each, with other hosts or ranks, and compare what
    /// `weft plan what-if --replan --job a.yaml` and `weft plan what-if --replan --job b.yaml` print.
    #[arg(long, value_name = "FILE")]
    job: Vec<PathBuf>,
    /// Print every pin there would be too, as `weft pin list` does; refused if they do not fit into an answer of 4 MiB.
    #[arg(long)]
    pins: bool,
    /// Draw a bar for each uplink into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl WhatIf {
    /// Asks, prints, and fails if a job could not run as it should.
    pub(super) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let mut request = self.changes.request()?;
        request.excluded_job_names = self.without_job;
        request.replan_pins = self.replan;
        run(&request, self.changes.svg.as_deref(), dialog).await
    }
}

impl Simulate {
    /// The same of a fabric from a file.
    pub(super) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let mut request = self.changes.request()?;
        request.fabric = Some(fabric::read_whole(&self.fabric)?);
        run(&request, self.changes.svg.as_deref(), dialog).await
    }
}

impl Changes {
    fn request(&self) -> Result<proto::SimulatePlanRequest, Failure> {
        let read = |file: &PathBuf| Ok(job::declared::read(file, &mut io::stdin())?.1);
        let jobs: Result<Vec<_>, Failure> = self.job.iter().map(read).collect();
        Ok(proto::SimulatePlanRequest {
            drained_switch_names: self.drain.clone(),
            failed_link_names: self.fail_link.clone(),
            jobs: jobs?,
            with_pins: self.pins,
            ..proto::SimulatePlanRequest::default()
        })
    }
}

async fn run(
    request: &proto::SimulatePlanRequest,
    picture: Option<&Path>,
    dialog: &mut Dialog<'_>,
) -> Result<(), Failure> {
    // A large fabric is planned in seconds.
    let connection = &dialog.connection.patient(PATIENCE);
    let question = async || {
        let mut client = connection.simulations().await?;
        let answer = connection.status(client.simulate_plan(request.clone()));
        answer.await?.map_err(|status| match status.code() {
            // It is not that nobody answers.
            Code::DeadlineExceeded => Failure::Refused(failure::said(&status)),
            _ => Failure::from_status(connection.address(), &status),
        })
    };
    let answer = connection.read(question).await?;
    if let Some(file) = picture {
        let drawn = svg::draw(&answer.link_loads);
        let written = std::fs::write(file, drawn);
        written.map_err(|error| Failure::Refused(format!("{}: {error}", file.display())))?;
    }
    let object = output::message("weft.v1.SimulatePlanResponse", &answer);
    if !dialog.object(&object)? {
        print(&answer, dialog.format, dialog.headers, dialog.out)?;
    }
    match unmet(&answer) {
        None => Ok(()),
        Some(unmet) => Err(Failure::Unmet(unmet)),
    }
}

/// What would not be as it should.
fn unmet(answer: &proto::SimulatePlanResponse) -> Option<String> {
    let without = answer.job_plans.iter().filter(|plan| {
        let state = plan.state();
        matches!(state, JobPlanState::Infeasible | JobPlanState::Unresolved)
    });
    let without: Vec<_> = without.map(|plan| printable(&plan.job_name)).collect();
    let without = (!without.is_empty()).then(|| format!("not placed: {}", without.join(", ")));
    let certificate = answer.pin_certificate.as_ref();
    let over = certificate.and_then(job::detail::over);
    let parts: Vec<_> = without.into_iter().chain(over).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// For people: jobs, what changes, how good it is, the fullest links, and the pins if they are there; all links with `-o wide`.
fn print(
    answer: &proto::SimulatePlanResponse,
    format: Format,
    headers: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    if format == Format::Name {
        let names = answer
            .job_plans
            .iter()
            .map(|plan| printable(&plan.job_name));
        return names
            .into_iter()
            .try_for_each(|name| writeln!(out, "{name}"));
    }
    let rows: Vec<_> = answer.job_plans.iter().map(job_row).collect();
    Table::print(out, JOBS, &rows, headers)?;
    writeln!(out)?;
    for (name, text) in summary(answer) {
        writeln!(out, "{:15} {}", format!("{name}:"), printable(&text))?;
    }
    if !answer.placement_rates.is_empty() {
        writeln!(out)?;
        let rows: Vec<_> = answer.placement_rates.iter().map(rate_row).collect();
        Table::print(out, RATES, &rows, headers)?;
    }
    let shown = match format {
        Format::Wide => answer.link_loads.len(),
        _ => answer.link_loads.len().min(LINKS_SHOWN),
    };
    if shown > 0 {
        writeln!(out)?;
        let rows: Vec<_> = answer.link_loads[..shown].iter().map(load_row).collect();
        Table::print(out, LINKS, &rows, headers)?;
        let all = usize::try_from(answer.link_load_count).unwrap_or(usize::MAX);
        let more = all.saturating_sub(shown);
        if more > 0 {
            writeln!(out, "and {more} more")?;
        }
    }
    if answer.pins.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut pins = List::new(out, format).headers(headers);
    pins.add(&answer.pins, None)?;
    pins.end()
}

fn summary(answer: &proto::SimulatePlanResponse) -> Vec<(&'static str, String)> {
    let pins = answer.pin_changes.unwrap_or_default();
    let pins = format!(
        "{}: {} move, {} are new, {} go",
        pins.pin_count, pins.moved_count, pins.added_count, pins.removed_count
    );
    let mut all = vec![("pins", pins)];
    if let Some(certificate) = &answer.pin_certificate {
        all.extend(job::detail::certified(certificate));
    }
    if let Some(weights) = &answer.weight_certificate {
        all.push(("weights", weights_of(weights)));
    }
    if answer.stranded_flow_count > 0 {
        let (stranded, flows) = (answer.stranded_flow_count, answer.flow_count);
        all.push(("without a way", format!("{stranded} of {flows} flows")));
    }
    all
}

fn weights_of(weights: &proto::WeightCertificate) -> String {
    let (leaves, changed) = (weights.leaf_count, weights.changed_leaf_count);
    let mut text = format!("of {leaves} leaves, {changed} change");
    if weights.max_overload_ppm > 0 {
        let percent = weights.max_overload_ppm as f64 / 10_000.0;
        let leaf = &weights.max_overload_leaf_name;
        text = format!("{text}; rounding gives a next hop of {leaf} {percent:.2}% too much");
    }
    if weights.unreachable_pair_count > 0 {
        let pairs = weights.unreachable_pair_count;
        text = format!("{text}; {pairs} pairs of leaves have no way");
    }
    text
}

fn job_row(plan: &proto::JobPlan) -> Vec<String> {
    vec![
        plan.job_name.clone(),
        word(plan.state().as_str_name(), "JOB_PLAN_STATE_"),
        plan.flow_count.to_string(),
        plan.pinned_flow_count.to_string(),
        or_dash(&plan.reason),
    ]
}

fn rate_row(rate: &proto::PlacementRate) -> Vec<String> {
    let method = rate.placement_method().as_str_name();
    vec![
        word(method, "PLACEMENT_METHOD_"),
        percent(rate.slowest_flow_share),
        percent(rate.mean_flow_share),
        rate.draw_count.to_string(),
    ]
}

fn load_row(load: &proto::LinkLoad) -> Vec<String> {
    vec![
        load.link_name.clone(),
        load.source_switch_name.clone(),
        load.destination_switch_name.clone(),
        format!("{:.1} Gb/s", load.load_bps as f64 / 1e9),
        percent(load.share),
    ]
}

/// `66.7%`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

const JOBS: &[&str] = &["JOB", "PLAN", "FLOWS", "PINNED", "REASON"];
const RATES: &[&str] = &["PLACEMENT", "SLOWEST-FLOW", "MEAN-FLOW", "DRAWS"];
const LINKS: &[&str] = &["LINK", "FROM", "TO", "LOAD", "SHARE"];
/// The fullest ones say what there is to say.
const LINKS_SHOWN: usize = 10;
/// As long as a replica takes at most, and what the way there and back may add.
const PATIENCE: Duration = Duration::from_secs(70);
