//! `weft job`: what trains on the fabric, one by one: declares it, keeps it alive, and shows what is planned for it.

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use prost_types::{Duration, FieldMask, Timestamp};
use tonic::Code;
use weft_proto::v1::resource_change::Resource;
use weft_proto::v1::{self as proto, ChangeType};

use crate::balance;
use crate::completion;
use crate::connection::{Connection, Page, request_id};
use crate::dialog::{Dialog, Heard, PAGE_SIZE};
use crate::failure::{self, Failure};
use crate::output::{self, Format, Row, or_dash, printable};
use crate::words;

pub(crate) mod declared;
pub(crate) mod detail;
mod flows;
mod import;
pub(crate) mod listed;

/// What can be done with jobs.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every job, with how far its plan came, what it runs on, what it sends, and when it ends by itself.
    List,
    /// One job: what is planned for it, and how good the pins of all jobs are.
    Show {
        /// Its name.
        #[arg(add = completion::jobs())]
        job: String,
        /// Each of its flows instead: the way that it goes, what is predicted and what is seen of it, and with which others it
        /// goes together.
        #[arg(long)]
        flows: bool,
    },
    /// Declare a job, or make it what a file says; on an error nothing changes.
    Apply(Apply),
    /// Make a job of what other tools know of it, and print it as a job file, or declare it.
    #[command(subcommand)]
    Import(import::Command),
    /// Have a job expire later, or earlier.
    Renew(Renew),
    /// Say that a job has ended. Its pins go with it.
    Delete {
        /// Its name.
        #[arg(add = completion::jobs())]
        job: String,
    },
}

/// A declaration.
#[derive(Args)]
pub(crate) struct Apply {
    /// Job file, YAML or JSON, with the fields of the API's message Job; `-` is standard input.
    file: PathBuf,
    /// Check everything, change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// A lease.
#[derive(Args)]
pub(crate) struct Renew {
    /// Its name.
    #[arg(add = completion::jobs())]
    job: String,
    /// Time from now until it expires, as in 90m.
    #[arg(long, value_name = "TIME", value_parser = read_ttl)]
    ttl: Duration,
    /// Job file with the hosts or ranks that the job has now, as after a requeue; the rest of the job stays. `-` is standard input.
    #[arg(long, value_name = "FILE")]
    members: Option<PathBuf>,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List => list(dialog).await,
            Self::Show { job, flows: true } => flows::list(job, dialog).await,
            Self::Show { job, flows: false } => show(job, dialog).await,
            Self::Apply(apply) => apply.run(dialog).await,
            Self::Import(import) => import.run(dialog).await,
            Self::Renew(renew) => renew.run(dialog).await,
            Self::Delete { job } => delete(job, dialog).await,
        }
    }
}

async fn list(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let request = proto::WatchRequest {
        kinds: vec![proto::ResourceKind::Job.into()],
        ..proto::WatchRequest::default()
    };
    match (dialog.format, dialog.watch) {
        (Format::Table | Format::Wide, false) => listed::list(dialog).await,
        (Format::Table | Format::Wide, true) => listed::follow(request, dialog).await,
        // A job as the API has it.
        (Format::Json | Format::Yaml | Format::Name, false) => dialog.pages(page).await,
        (Format::Json | Format::Yaml | Format::Name, true) => dialog.follow(request, heard).await,
    }
}

/// What an answer of a watch says of jobs.
fn heard(answer: proto::WatchResponse) -> Heard<proto::Job> {
    let whole = answer.snapshot && answer.header.is_some();
    let (mut rows, mut gone) = (Vec::new(), Vec::new());
    for change in answer.changes {
        let deleted = change.change_type() == ChangeType::Deleted;
        if let Some(Resource::JobResource(job)) = change.resource {
            if deleted { &mut gone } else { &mut rows }.push(job);
        }
    }
    Heard { rows, gone, whole }
}

/// One page of jobs.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::Job>, Failure> {
    let mut client = connection.jobs().await?;
    let request = proto::ListJobsRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let page = connection.answer(client.list_jobs(request)).await?;
    Ok(Page::new(page.header, page.jobs, page.next_page_token))
}

async fn show(name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.jobs().await?;
        let request = proto::GetJobRequest { name: name.clone() };
        let job = connection.answer(client.get_job(request)).await?;
        let mut client = connection.plans().await?;
        let job_name = name.clone();
        let call = client.get_job_plan(proto::GetJobPlanRequest { job_name });
        Ok((job, connection.answer(call).await?))
    };
    let (job, plan) = connection.read(question).await?;
    if !dialog.object(&detail::object(&job, &plan))? {
        detail::print(&job, &plan, dialog.headers, dialog.out)?;
    }
    Ok(())
}

impl Apply {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let (file, job) = declared::read(&self.file, &mut io::stdin())?;
        declare(&file, job, self.dry_run, dialog).await
    }
}

/// Creates a job, or makes it what it is here; `file` is where it comes from.
async fn declare(
    file: &str,
    job: proto::Job,
    dry_run: bool,
    dialog: &mut Dialog<'_>,
) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let name = printable(&job.name);
    let before = found(&job.name, connection).await?;
    // Twice is once: another replica may be asked the same.
    let request_id = request_id();
    let question = async || {
        let (job, id) = (job.clone(), request_id.clone());
        let answer = match before {
            None => create(job, id, dry_run, connection).await?,
            Some(_) => replace(job, id, dry_run, connection).await?,
        };
        answer.map_err(|status| match status.code() {
            Code::InvalidArgument => {
                Failure::Refused(format!("{file}: {}", failure::said(&status)))
            }
            _ => Failure::from_status(connection.address(), &status),
        })
    };
    let after = connection.read(question).await?.unwrap_or_default();
    if dialog.object(&after.object())? {
        return Ok(());
    }
    let verdict = match dry_run {
        true => "valid, nothing changed; it would be ",
        false => "",
    };
    let done = match before {
        None => "created",
        Some(before) if before == after => "unchanged",
        Some(_) => "updated",
    };
    writeln!(dialog.out, "job {name} {verdict}{done}")?;
    Ok(())
}

/// The job of this name, if there is one.
async fn found(name: &str, connection: &Connection) -> Result<Option<proto::Job>, Failure> {
    let question = async || {
        let mut client = connection.jobs().await?;
        let name = name.to_owned();
        let call = client.get_job(proto::GetJobRequest { name });
        match connection.status(call).await? {
            Ok(answer) => Ok(answer.resource),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(Failure::from_status(connection.address(), &status)),
        }
    };
    connection.read(question).await
}

async fn create(
    job: proto::Job,
    request_id: String,
    validate_only: bool,
    connection: &Connection,
) -> Result<Result<Option<proto::Job>, tonic::Status>, Failure> {
    let request = proto::CreateJobRequest {
        resource: Some(job),
        request_id,
        validate_only,
    };
    let mut client = connection.jobs().await?;
    let answer = connection.status(client.create_job(request)).await?;
    Ok(answer.map(|it| it.resource))
}

/// Gives a job every field as it is here, also those that are empty.
async fn replace(
    job: proto::Job,
    request_id: String,
    validate_only: bool,
    connection: &Connection,
) -> Result<Result<Option<proto::Job>, tonic::Status>, Failure> {
    let request = proto::UpdateJobRequest {
        resource: Some(job),
        update_mask: Some(mask(&["*"])),
        request_id,
        validate_only,
    };
    let mut client = connection.jobs().await?;
    let answer = connection.status(client.update_job(request)).await?;
    Ok(answer.map(|it| it.resource))
}

/// Makes a job what it is here: replaces one that is present, or creates it.
pub(crate) async fn put(
    job: &proto::Job,
    is_present: bool,
    connection: &Connection,
) -> Result<(), Failure> {
    let request_id = request_id();
    let question = async || {
        let (job, id) = (job.clone(), request_id.clone());
        let answer = if is_present {
            replace(job, id, false, connection).await?
        } else {
            create(job, id, false, connection).await?
        };
        answer.map_err(|status| Failure::of_change(connection.address(), &status))
    };
    connection.change(question).await.map(drop)
}

impl Renew {
    async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let (job, fields) = self.changes(&mut io::stdin())?;
        let name = printable(&job.name);
        let answer = update(job, fields, &dialog.connection).await?;
        let job = answer.resource.unwrap_or_default();
        if !dialog.object(&job.object())? {
            let revision = answer.header.unwrap_or_default().revision;
            let at = words::or_dash(job.expire_time);
            writeln!(dialog.out, "job {name} expires {at}, revision {revision}")?;
        }
        Ok(())
    }

    /// Returns the fields that change, and their names. `input` stands behind the name `-`.
    fn changes(
        self,
        input: &mut dyn io::Read,
    ) -> Result<(proto::Job, &'static [&'static str]), Failure> {
        let mut job = proto::Job {
            name: self.job,
            ttl: Some(self.ttl),
            ..proto::Job::default()
        };
        let Some(file) = self.members else {
            return Ok((job, &["ttl"]));
        };
        let (file, members) = declared::read(&file, input)?;
        if members.name != job.name {
            let reason = format!(
                "{file}: is of job {:?}, not of {:?}",
                members.name, job.name
            );
            return Err(Failure::Refused(reason));
        }
        (job.host_names, job.ranks) = (members.host_names, members.ranks);
        Ok((job, &["ttl", "host_names", "ranks"]))
    }
}

/// Says what weft does with a job.
pub(crate) async fn set_mode(
    name: String,
    mode: proto::BalanceMode,
    dialog: &mut Dialog<'_>,
) -> Result<(), Failure> {
    let job = proto::Job {
        name: name.clone(),
        balance_mode: mode.into(),
        ..proto::Job::default()
    };
    let answer = update(job, &["balance_mode"], &dialog.connection).await?;
    if !dialog.object(&answer.resource.unwrap_or_default().object())? {
        let revision = answer.header.unwrap_or_default().revision;
        let (name, mode) = (printable(&name), balance::name(mode));
        writeln!(dialog.out, "job {name} is {mode}, revision {revision}")?;
    }
    Ok(())
}

/// Gives a job some fields as they are here.
async fn update(
    job: proto::Job,
    fields: &[&str],
    connection: &Connection,
) -> Result<proto::UpdateJobResponse, Failure> {
    let request = proto::UpdateJobRequest {
        resource: Some(job),
        update_mask: Some(mask(fields)),
        request_id: request_id(),
        validate_only: false,
    };
    let question = async || {
        let mut client = connection.jobs().await?;
        connection.answer(client.update_job(request.clone())).await
    };
    connection.read(question).await
}

async fn delete(name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let answer = remove(&name, &dialog.connection).await?;
    if !dialog.object(&output::message("weft.v1.DeleteJobResponse", &answer))? {
        let revision = answer.header.unwrap_or_default().revision;
        let name = printable(&name);
        writeln!(dialog.out, "job {name} deleted, revision {revision}")?;
    }
    Ok(())
}

/// Deletes a job.
pub(crate) async fn remove(
    name: &str,
    connection: &Connection,
) -> Result<proto::DeleteJobResponse, Failure> {
    let request = proto::DeleteJobRequest {
        name: name.to_owned(),
        request_id: request_id(),
        ..proto::DeleteJobRequest::default()
    };
    let question = async || {
        let mut client = connection.jobs().await?;
        connection.answer(client.delete_job(request.clone())).await
    };
    connection.read(question).await
}

fn mask(paths: &[&str]) -> FieldMask {
    FieldMask {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    }
}

/// Reads a number with a unit: `45s`, `90m`, `1h`, `7d`.
fn read_ttl(text: &str) -> Result<Duration, String> {
    let unit = text.find(|it: char| !it.is_ascii_digit());
    let (number, unit) = text.split_at(unit.unwrap_or(text.len()));
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let secs = number.parse::<i64>().ok().zip(unit);
    let secs = secs.and_then(|(number, (_, unit))| number.checked_mul(*unit));
    let seconds =
        secs.ok_or_else(|| "a number and s, m, h or d is needed, as in 90m".to_owned())?;
    Ok(Duration { seconds, nanos: 0 })
}

/// Time from the answer until a job expires.
fn expires_in(job: &proto::Job, answered: Option<Timestamp>) -> String {
    if job.expire_time.is_none() {
        return "never".to_owned();
    }
    let left = words::age(job.expire_time, answered);
    words::or_dash(left.map(|it| words::units(it.as_secs())))
}

/// `tp 8, dp 16`, that in which neighboring ranks differ first.
fn layout(job: &proto::Job) -> String {
    let dimensions = job.layout.iter();
    let dimensions = dimensions.map(|it| format!("{} {}", it.name, it.degree));
    dimensions.collect::<Vec<_>>().join(", ")
}

/// `team=vision, tier=1`.
fn labels(job: &proto::Job) -> String {
    let labels = job.labels.iter();
    let labels = labels.map(|(name, value)| format!("{name}={value}"));
    labels.collect::<Vec<_>>().join(", ")
}

impl Row for proto::Job {
    const HEADER: &'static [&'static str] =
        &["JOB", "HOSTS", "RANKS", "GROUPS", "FLOWS", "EXPIRES"];
    const WIDE: &'static [&'static str] = &["EXPIRE-TIME", "LAYOUT", "LABELS"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Job", self)
    }

    fn lines(&self, answered: Option<Timestamp>) -> Vec<Vec<String>> {
        // A job names its hosts, or its ranks.
        let either = |count: usize| words::or_dash((count > 0).then_some(count));
        vec![vec![
            self.name.clone(),
            either(self.host_names.len()),
            either(self.ranks.len()),
            self.groups.len().to_string(),
            self.flows.len().to_string(),
            expires_in(self, answered),
            words::or_dash(self.expire_time),
            or_dash(&layout(self)),
            or_dash(&labels(self)),
        ]]
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    /// Most of a job is in no column: its etag says that it changed.
    fn lasting(&self) -> String {
        format!("{} {}", self.etag, words::or_dash(self.expire_time))
    }
}

/// Units of a time, in seconds.
const UNITS: [(&str, i64); 4] = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::List;

    #[test]
    fn jobs_in_columns() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let ranks = proto::Job {
            name: "train1".to_owned(),
            expire_time: at(4_600),
            ranks: vec![proto::Nic::default(); 16],
            layout: vec![proto::LayoutDimension {
                name: "tp".to_owned(),
                degree: 16,
            }],
            groups: vec![proto::CollectiveGroup::default()],
            labels: [("team".to_owned(), "vision".to_owned())].into(),
            ..proto::Job::default()
        };
        let hosts = proto::Job {
            name: "train2".to_owned(),
            host_names: vec!["h1".to_owned()],
            ..proto::Job::default()
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Wide);
        list.add(&[ranks, hosts], at(1_000)).unwrap();
        list.end().unwrap();
        let expected = "\
JOB     HOSTS  RANKS  GROUPS  FLOWS  EXPIRES  EXPIRE-TIME           LAYOUT  LABELS
train1  -      16     1       0      1h0m     1970-01-01T01:16:40Z  tp 16   team=vision
train2  1      -      0       0      never    -                     -       -
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_renewal_and_a_change_in_no_column_are_news() {
        let job = proto::Job {
            etag: "1".to_owned(),
            ..proto::Job::default()
        };
        let changed = proto::Job {
            etag: "2".to_owned(),
            ..job.clone()
        };
        let renewed = proto::Job {
            expire_time: Some(Timestamp::default()),
            ..job.clone()
        };
        assert_ne!(job.lasting(), changed.lasting());
        assert_ne!(job.lasting(), renewed.lasting());
    }

    #[test]
    fn a_renewal_may_bring_the_hosts_or_ranks_of_a_file() {
        let renew = |members: Option<&str>| Renew {
            job: "train1".to_owned(),
            ttl: read_ttl("1h").unwrap(),
            members: members.map(PathBuf::from),
        };
        let (job, fields) = renew(None).changes(&mut io::empty()).unwrap();
        assert_eq!((job.host_names.len(), fields), (0, &["ttl"][..]));
        let text = "name: train1\npriority: 7\nhost_names: [h3, h4]\n";
        let renewed = renew(Some("-")).changes(&mut text.as_bytes()).unwrap();
        let (job, fields) = renewed;
        assert_eq!(job.host_names, ["h3", "h4"]);
        assert_eq!(fields, ["ttl", "host_names", "ranks"]);
        assert_eq!(
            (job.priority, job.ttl.map(|it| it.seconds)),
            (0, Some(3_600))
        );
        let other = "name: train2\nhost_names: [h3]\n";
        let refused = renew(Some("-")).changes(&mut other.as_bytes());
        let text = "standard input: is of job \"train2\", not of \"train1\"";
        assert_eq!(refused.unwrap_err().to_string(), text);
    }

    #[test]
    fn a_time_has_a_unit() {
        for (text, seconds) in [("45s", 45), ("90m", 5_400), ("1h", 3_600), ("7d", 604_800)] {
            assert_eq!(read_ttl(text).unwrap(), Duration { seconds, nanos: 0 });
        }
        for text in [
            "",
            "1",
            "h",
            "-1h",
            "1.5h",
            "1h30m",
            "1 h",
            "1µ",
            "9223372036854775807d",
        ] {
            assert!(read_ttl(text).is_err(), "{text}");
        }
    }
}
