//! `weft switch`: the declared switches, one by one.

use clap::Subcommand;
use prost_types::{FieldMask, Timestamp};
use tonic::Code;
use weft_proto::v1::resource_change::Resource;
use weft_proto::v1::{self as proto, AdminState, ChangeType, SwitchRole};

use crate::completion;
use crate::connection::{Connection, Page, request_id};
use crate::dialog::{Dialog, Heard, PAGE_SIZE};
use crate::fabric::state;
use crate::failure::Failure;
use crate::output::{self, Row, or_dash, printable};
use crate::words;

/// What can be done with switches.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every switch, with its role, VTEP, agent and administrative state.
    List,
    /// One switch.
    Show {
        /// Its name.
        #[arg(add = completion::switches())]
        switch: String,
    },
    /// Let a spine carry what it can. Weights follow at once.
    Up {
        /// Its name.
        #[arg(add = completion::switches())]
        switch: String,
    },
    /// Let nothing go over a spine that can go over another, as before its maintenance. Weights follow at once.
    Down {
        /// Its name.
        #[arg(add = completion::switches())]
        switch: String,
        /// Do it even if two leaves lose their last path to each other.
        #[arg(long)]
        force: bool,
    },
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::List => list(dialog).await,
            Self::Show { switch } => show(switch, dialog).await,
            Self::Up { switch } => set(switch, AdminState::Up, false, dialog).await,
            Self::Down { switch, force } => set(switch, AdminState::Down, force, dialog).await,
        }
    }
}

async fn list(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    if dialog.watch {
        let request = proto::WatchRequest {
            kinds: vec![proto::ResourceKind::Switch.into()],
            ..proto::WatchRequest::default()
        };
        return dialog.follow(request, heard).await;
    }
    dialog.pages(page).await
}

/// What an answer of a watch says of switches.
fn heard(answer: proto::WatchResponse) -> Heard<proto::Switch> {
    let whole = answer.snapshot && answer.header.is_some();
    let (mut rows, mut gone) = (Vec::new(), Vec::new());
    for change in answer.changes {
        let deleted = change.change_type() == ChangeType::Deleted;
        if let Some(Resource::SwitchResource(switch)) = change.resource {
            if deleted { &mut gone } else { &mut rows }.push(switch);
        }
    }
    Heard { rows, gone, whole }
}

/// One page of switches.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::Switch>, Failure> {
    let mut client = connection.fabric().await?;
    let request = proto::ListSwitchesRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let page = connection.answer(client.list_switches(request)).await?;
    Ok(Page::new(page.header, page.switches, page.next_page_token))
}

/// The switch of this name, if one is declared.
pub(crate) async fn found(
    name: &str,
    connection: &Connection,
) -> Result<Option<proto::Switch>, Failure> {
    let question = async || {
        let mut client = connection.fabric().await?;
        let name = name.to_owned();
        let call = client.get_switch(proto::GetSwitchRequest { name });
        match connection.status(call).await? {
            Ok(answer) => Ok(answer.resource),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(Failure::from_status(connection.address(), &status)),
        }
    };
    connection.read(question).await
}

async fn show(name: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let question = async || {
        let mut client = connection.fabric().await?;
        let name = name.clone();
        let call = client.get_switch(proto::GetSwitchRequest { name });
        connection.answer(call).await
    };
    let switch = connection.read(question).await?.resource;
    let switch = switch.unwrap_or_default();
    match dialog.object(&switch.object())? {
        true => Ok(()),
        false => dialog.rows(&[switch], None),
    }
}

async fn set(
    name: String,
    state: AdminState,
    force: bool,
    dialog: &mut Dialog<'_>,
) -> Result<(), Failure> {
    let connection = &dialog.connection;
    // Twice is once: another replica may be asked the same.
    let request_id = request_id();
    let question = async || {
        let request = proto::UpdateSwitchRequest {
            resource: Some(proto::Switch {
                name: name.clone(),
                admin_state: state.into(),
                ..proto::Switch::default()
            }),
            update_mask: Some(FieldMask {
                paths: vec!["admin_state".to_owned()],
            }),
            request_id: request_id.clone(),
            force,
            ..proto::UpdateSwitchRequest::default()
        };
        let mut client = connection.fabric().await?;
        connection.changed(client.update_switch(request)).await
    };
    let answer = connection.change(question).await?;
    let switch = answer.resource.unwrap_or_default();
    if !dialog.object(&switch.object())? {
        let revision = answer.header.unwrap_or_default().revision;
        let state = self::state(switch.admin_state() == AdminState::Down);
        let name = printable(&switch.name);
        writeln!(dialog.out, "switch {name} {state}, revision {revision}")?;
    }
    Ok(())
}

impl Row for proto::Switch {
    const HEADER: &'static [&'static str] = &["SWITCH", "ROLE", "VTEP", "AGENT", "STATE"];
    const WIDE: &'static [&'static str] = &["TIER", "PLANE", "RAIL", "POD"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Switch", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let role = match self.role() {
            SwitchRole::Leaf => "leaf",
            SwitchRole::Spine => "spine",
            SwitchRole::Unspecified => "-",
        };
        vec![vec![
            self.name.clone(),
            role.to_owned(),
            or_dash(&self.vtep_address),
            or_dash(&self.agent_address),
            state(self.admin_state() == AdminState::Down).to_owned(),
            words::or_dash(self.tier),
            words::or_dash(self.plane),
            words::or_dash(self.rail),
            or_dash(&self.pod),
        ]]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
