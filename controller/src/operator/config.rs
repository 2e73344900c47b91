//! The configuration as operators ask for it. Knows messages; what they say is `crate::config`'s.

use std::path::PathBuf;

use tonic::Status;
use weft_proto::operator::v1 as proto;

use crate::config::diff::Change;
use crate::config::show::{self, From};
use crate::speaker::reload::{ReloadError, Reloader};

/// Reads the file again, or compares.
pub(super) async fn reload(
    reloader: &Reloader,
    replica: u64,
    request: proto::ReloadConfigRequest,
) -> Result<proto::ReloadConfigResponse, Status> {
    let proto::ReloadConfigRequest {
        dry_run,
        text,
        name,
    } = request;
    let of_text = !text.is_empty() || !name.is_empty();
    if of_text && !dry_run {
        return Err(Status::invalid_argument("text: only with dry_run"));
    }
    let changes = match of_text {
        true => reloader.compare(&text, &name),
        false => reloader.reload(dry_run).await,
    };
    let changes = changes.map_err(refused)?;
    Ok(proto::ReloadConfigResponse {
        changes: changes.into_iter().map(change).collect(),
        file: if of_text {
            String::new()
        } else {
            file(reloader)
        },
        replica,
    })
}

/// What holds.
pub(super) fn get(
    reloader: &Reloader,
    replica: u64,
    request: &proto::GetConfigRequest,
) -> Result<proto::GetConfigResponse, Status> {
    let subjects = show::show(&reloader.config());
    let known = |name: &str| subjects.iter().position(|subject| subject.name == name);
    if !request.subject.is_empty() && known(&request.subject).is_none() {
        let reason = format!("subject: there is no {:?}", request.subject);
        return Err(Status::not_found(reason));
    }
    let after = match request.page_token.as_str() {
        "" => 0,
        token => known(token).map(|at| at + 1).ok_or_else(|| {
            Status::invalid_argument("page_token: not from an earlier answer, or gone since")
        })?,
    };
    let size = match usize::try_from(request.page_size).unwrap_or(SUBJECTS_MAX) {
        0 => SUBJECTS,
        size => size.min(SUBJECTS_MAX),
    };
    let asked = |name: &str| request.subject.is_empty() || request.subject == name;
    let rest = &subjects[after.min(subjects.len())..];
    let page = &rest[..size.min(rest.len())];
    let next = page.last().filter(|_| rest.len() > page.len());
    let values = page.iter().filter(|subject| asked(&subject.name));
    let values = values.flat_map(|subject| {
        let held = subject.values.iter();
        let held = held.filter(|value| request.all || value.from != From::Default);
        held.map(|value| proto::ConfigValue {
            subject: subject.name.clone(),
            knob: value.knob.to_owned(),
            value: value.value.clone(),
            from: value.from.to_string(),
        })
    });
    Ok(proto::GetConfigResponse {
        values: values.collect(),
        next_page_token: next.map(|last| last.name.clone()).unwrap_or_default(),
        file: file(reloader),
        replica,
    })
}

fn file(reloader: &Reloader) -> String {
    let path = reloader.file().map(PathBuf::as_path);
    path.map_or_else(String::new, |path| path.display().to_string())
}

fn refused(error: ReloadError) -> Status {
    let message = error.to_string();
    match error {
        ReloadError::NoFile => Status::failed_precondition(message),
        ReloadError::Refused(_) => Status::invalid_argument(message),
        ReloadError::Stopping => Status::unavailable(message),
    }
}

fn change(change: Change) -> proto::ConfigChange {
    let Change {
        subject,
        knob,
        old,
        new,
        effect,
    } = change;
    let kind = match (&old, &new) {
        (None, _) => "added",
        (Some(_), None) => "removed",
        (Some(_), Some(_)) => "changed",
    };
    proto::ConfigChange {
        subject,
        change: kind.to_owned(),
        knob: knob.to_owned(),
        old: old.unwrap_or_default(),
        new: new.unwrap_or_default(),
        effect: effect.to_string(),
    }
}

/// About 200 kB of values.
const SUBJECTS: usize = 100;
/// A message holds 4 MiB.
const SUBJECTS_MAX: usize = 1000;
