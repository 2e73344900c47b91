//! The service of the configuration. Knows messages; what they say is `crate::config`'s.

use std::path::PathBuf;
use std::sync::Arc;

use tonic::{Request, Response, Status};
use weft_proto::v1::{
    self as proto, ChangeType, ConfigEffect, ConfigSource, config_service_server,
};

use super::access::Identity;
use super::once::{self, Once, Turn};
use super::page::Page;
use super::{Answer, header, page, refusal};
use crate::config::diff::Change;
use crate::config::settings::Effect;
use crate::config::show::{self, From};
use crate::fabric::fact::InvalidFabric;
use crate::speaker::Shared;
use crate::speaker::reload::{ReloadError, Reloader};

/// Answers of the configuration.
pub struct Service {
    shared: Arc<Shared>,
    reloader: Arc<Reloader>,
    once: Once<()>,
}

impl Service {
    /// For a running daemon.
    pub fn new(shared: Arc<Shared>, reloader: Arc<Reloader>) -> Self {
        Self {
            shared,
            reloader,
            once: Once::default(),
        }
    }

    fn header(&self) -> Option<proto::ResponseHeader> {
        Some(header::own(&self.shared))
    }
}

#[tonic::async_trait]
impl config_service_server::ConfigService for Service {
    async fn list_config_values(
        &self,
        request: Request<proto::ListConfigValuesRequest>,
    ) -> Answer<proto::ListConfigValuesResponse> {
        let (values, next_page_token) = values(&self.reloader, request.get_ref())?;
        Ok(Response::new(proto::ListConfigValuesResponse {
            header: self.header(),
            values,
            next_page_token,
            file: file(&self.reloader),
        }))
    }

    async fn reload_config(
        &self,
        request: Request<proto::ReloadConfigRequest>,
    ) -> Answer<proto::ReloadConfigResponse> {
        let by = Identity::of(&request);
        let proto::ReloadConfigRequest {
            validate_only,
            text,
            text_name,
            request_id,
        } = request.into_inner();
        let mut faults = InvalidFabric::default();
        let id = once::id(&request_id, &mut faults).filter(|_| !validate_only);
        if text.is_some() && !validate_only {
            faults.fault("text", "only with validate_only");
        }
        refusal::check(&faults)?;
        let turn = self.once.begin(id, ())?;
        let changes = match (&text, turn) {
            (Some(text), _) => self.reloader.compare(text, &text_name),
            (None, Turn::First) => self.reloader.reload(validate_only, by).await,
            (None, Turn::Again) => Ok(Vec::new()),
        };
        let changes = changes.map_err(|error| {
            self.once.undo(id);
            refused(&error)
        })?;
        if !validate_only {
            tracing::info!(%by, changes = changes.len(), "configuration reloaded");
        }
        let count = u32::try_from(changes.len()).unwrap_or(u32::MAX);
        let page = Page::of(usize::MAX, changes.into_iter().map(change));
        Ok(Response::new(proto::ReloadConfigResponse {
            header: self.header(),
            changes: page.rows,
            change_count: count,
            file: file(&self.reloader).filter(|_| text.is_none()),
        }))
    }
}

/// A page of values that hold, and the token of the next one.
fn values(
    reloader: &Reloader,
    request: &proto::ListConfigValuesRequest,
) -> Result<(Vec<proto::ConfigValue>, String), Status> {
    let subjects = show::show(&reloader.config());
    let known = |name: &str| subjects.iter().position(|subject| subject.name == name);
    let read = |name: &str| known(name).map(|at| at + 1);
    let mut faults = InvalidFabric::default();
    let after = page::after_read(LIST, &request.page_token, read, &mut faults);
    let after = after.unwrap_or_default();
    let size = match request.page_size {
        0 => SUBJECTS,
        size => page::size(size, &mut faults).min(SUBJECTS_MAX),
    };
    refusal::check(&faults)?;
    if let Some(name) = &request.subject
        && known(name).is_none()
    {
        let reason = format!("there is no {name:?}");
        return Err(refusal::missing_because("subject", "subject", name, reason));
    }
    let asked = |name: &str| request.subject.as_ref().is_none_or(|it| it == name);
    let rest = &subjects[after.min(subjects.len())..];
    let page = &rest[..size.min(rest.len())];
    let next = page.last().filter(|_| rest.len() > page.len());
    let values = page.iter().filter(|subject| asked(&subject.name));
    let values = values.flat_map(|subject| {
        let held = subject.values.iter();
        let held = held.filter(|value| request.with_defaults || value.from != From::Default);
        held.map(|value| proto::ConfigValue {
            subject: subject.name.clone(),
            key: value.knob.to_owned(),
            value: value.value.clone(),
            source: source(value.from).into(),
        })
    });
    let next = next.map(|last| page::token(LIST, &last.name));
    Ok((values.collect(), next.unwrap_or_default()))
}

fn source(from: From) -> ConfigSource {
    match from {
        From::Default => ConfigSource::Default,
        From::File => ConfigSource::File,
        From::Group => ConfigSource::PeerGroup,
        From::Peer => ConfigSource::Peer,
    }
}

fn file(reloader: &Reloader) -> Option<String> {
    let path = reloader.file().map(PathBuf::as_path);
    path.map(|path| path.display().to_string())
}

fn refused(error: &ReloadError) -> Status {
    let message = error.to_string();
    match error {
        ReloadError::NoFile => refusal::no_config_file(message),
        ReloadError::Refused(_) => refusal::config_invalid(&message),
        ReloadError::Stopping => refusal::stopping(),
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
    let change_type = match (&old, &new) {
        (None, _) => ChangeType::Created,
        (Some(_), None) => ChangeType::Deleted,
        (Some(_), Some(_)) => ChangeType::Updated,
    };
    let effect = match effect {
        Effect::Applied => ConfigEffect::Applied,
        Effect::NextSession => ConfigEffect::NextSession,
        Effect::SessionReset => ConfigEffect::SessionReset,
        Effect::NeedsRestart => ConfigEffect::NeedsRestart,
    };
    proto::ConfigChange {
        subject,
        change_type: change_type.into(),
        key: (!knob.is_empty()).then(|| knob.to_owned()),
        old_value: old,
        new_value: new,
        effect: effect.into(),
    }
}

const LIST: &str = "config_values";
/// About 200 kB of values.
const SUBJECTS: usize = 100;
/// A message holds 4 MiB.
const SUBJECTS_MAX: usize = 1000;
