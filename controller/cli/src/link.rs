//! `weft link`: the declared links between switches, one by one.

use clap::Subcommand;
use prost_types::{FieldMask, Timestamp};
use tonic::Code;
use weft_proto::v1::resource_change::Resource;
use weft_proto::v1::{self as proto, AdminState, ChangeType};

use crate::completion;
use crate::connection::{Connection, Page, request_id};
use crate::dialog::{Dialog, Heard, PAGE_SIZE};
use crate::fabric::{rate, state};
use crate::failure::Failure;
use crate::output::{self, Row, or_dash, printable};

pub(crate) mod status;

/// What can be done with links.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every link, with its capacity and administrative state.
    List,
    /// One link.
    Show {
        /// SWITCH:INTERFACE--SWITCH:INTERFACE.
        #[arg(add = completion::links())]
        link: String,
    },
    /// What is seen of links: whether plans use them and why not, what they carry, what LLDP hears, what they are derated for.
    Status {
        /// SWITCH:INTERFACE--SWITCH:INTERFACE; all links if it is left out.
        #[arg(add = completion::links())]
        link: Option<String>,
    },
    /// Let a link carry what it can. Weights follow at once.
    Up {
        /// SWITCH:INTERFACE--SWITCH:INTERFACE.
        #[arg(add = completion::links())]
        link: String,
    },
    /// Let a link carry nothing. Weights follow at once.
    Down {
        /// SWITCH:INTERFACE--SWITCH:INTERFACE.
        #[arg(add = completion::links())]
        link: String,
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
            Self::Show { link } => show(&link, dialog).await,
            Self::Status { link } => status::show(link, dialog).await,
            Self::Up { link } => set(&link, AdminState::Up, false, dialog).await,
            Self::Down { link, force } => set(&link, AdminState::Down, force, dialog).await,
        }
    }
}

async fn list(dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    if dialog.watch {
        let request = proto::WatchRequest {
            kinds: vec![proto::ResourceKind::Link.into()],
            ..proto::WatchRequest::default()
        };
        return dialog.follow(request, heard).await;
    }
    dialog.pages(page).await
}

/// What an answer of a watch says of links.
fn heard(answer: proto::WatchResponse) -> Heard<proto::Link> {
    let whole = answer.snapshot && answer.header.is_some();
    let (mut rows, mut gone) = (Vec::new(), Vec::new());
    for change in answer.changes {
        let deleted = change.change_type() == ChangeType::Deleted;
        if let Some(Resource::LinkResource(link)) = change.resource {
            if deleted { &mut gone } else { &mut rows }.push(link);
        }
    }
    Heard { rows, gone, whole }
}

/// One page of links.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::Link>, Failure> {
    let mut client = connection.fabric().await?;
    let request = proto::ListLinksRequest {
        page_size: PAGE_SIZE,
        page_token,
        ..proto::ListLinksRequest::default()
    };
    let page = connection.answer(client.list_links(request)).await?;
    Ok(Page::new(page.header, page.links, page.next_page_token))
}

async fn show(link: &str, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let ask = async |name: String| {
        let mut client = connection.fabric().await?;
        let call = client.get_link(proto::GetLinkRequest { name });
        Ok(connection.status(call).await?.map(|it| it.resource))
    };
    let link = of_either_name(link, connection, ask).await?;
    let link = link.unwrap_or_default();
    match dialog.object(&link.object())? {
        true => Ok(()),
        false => dialog.rows(&[link], None),
    }
}

async fn set(
    link: &str,
    state: AdminState,
    force: bool,
    dialog: &mut Dialog<'_>,
) -> Result<(), Failure> {
    let connection = &dialog.connection;
    // Twice is once: another replica may be asked the same. Each name is a content of its own, with an id of its own.
    let (given, turned) = (request_id(), request_id());
    let ask = async |name: String| {
        let request_id = if name == link { &given } else { &turned };
        let request = proto::UpdateLinkRequest {
            resource: Some(proto::Link {
                name,
                admin_state: state.into(),
                ..proto::Link::default()
            }),
            update_mask: Some(FieldMask {
                paths: vec!["admin_state".to_owned()],
            }),
            request_id: request_id.clone(),
            force,
            ..proto::UpdateLinkRequest::default()
        };
        let mut client = connection.fabric().await?;
        connection.status(client.update_link(request)).await
    };
    let answer = of_either_name(link, connection, ask).await?;
    let link = answer.resource.unwrap_or_default();
    if !dialog.object(&link.object())? {
        let revision = answer.header.unwrap_or_default().revision;
        let state = self::state(link.admin_state() == AdminState::Down);
        let name = printable(&link.name);
        writeln!(dialog.out, "link {name} {state}, revision {revision}")?;
    }
    Ok(())
}

/// Asks for a link by its name; its ends may be given in either order.
async fn of_either_name<T>(
    link: &str,
    connection: &Connection,
    ask: impl AsyncFn(String) -> Result<Result<T, tonic::Status>, Failure>,
) -> Result<T, Failure> {
    let turned = link.split_once("--").map(|(a, b)| format!("{b}--{a}"));
    let question = async || {
        let mut answer = ask(link.to_owned()).await?;
        if let (Err(status), Some(turned)) = (&answer, &turned)
            && status.code() == Code::NotFound
        {
            let other = ask(turned.clone()).await?;
            // A name that is unknown both ways is said as it was given.
            if !matches!(&other, Err(status) if status.code() == Code::NotFound) {
                answer = other;
            }
        }
        answer.map_err(|status| Failure::of_change(connection.address(), &status))
    };
    connection.change(question).await
}

impl Row for proto::Link {
    const HEADER: &'static [&'static str] =
        &["LINK", "ADDRESS-A", "ADDRESS-B", "CAPACITY", "STATE"];
    const WIDE: &'static [&'static str] = &["DERATED"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.Link", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let address = |end: &Option<proto::LinkEnd>| {
            let address = end.as_ref().map(|end| end.address.as_str());
            or_dash(address.unwrap_or_default())
        };
        vec![vec![
            self.name.clone(),
            address(&self.a),
            address(&self.b),
            rate(self.capacity_bps),
            state(self.admin_state() == AdminState::Down).to_owned(),
            format!("{} %", self.derating_percent),
        ]]
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
