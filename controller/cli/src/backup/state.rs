//! Everything that is declared at the replicas, read as of one moment. Knows no file.

use std::cell::Cell;

use prost_types::Timestamp;
use weft_proto::v1 as proto;

use super::Backup;
use crate::connection::{Connection, Page};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::{fabric, job, link, switch, words};

/// Everything that is declared, and the time of a replica's answer.
pub(super) struct State {
    /// Declared fabric, balance modes and jobs.
    pub(super) backup: Backup,
    /// Time of the answer.
    pub(super) answered: Option<Timestamp>,
}

impl State {
    /// Reads everything. If anything changes meanwhile, reads it again, a few times.
    pub(super) async fn read(dialog: &Dialog<'_>) -> Result<Self, Failure> {
        let connection = &dialog.connection;
        for _ in 0..ATTEMPTS {
            let before = fabric::head(connection).await?;
            let (jobs, balances) = (jobs(dialog).await?, balances(connection).await?);
            let generation = before.generation;
            let answered = words::answered(before.header.as_ref());
            let declared = declared(dialog, before.display_name).await?;
            let is_same = fabric::head(connection).await?.generation == generation
                && self::jobs(dialog).await? == jobs
                && self::balances(connection).await? == balances;
            if is_same {
                let (default_mode, leaf_balances) = balances;
                let mut backup = Backup {
                    fabric: declared,
                    generation,
                    default_mode,
                    leaf_balances,
                    jobs,
                };
                backup.normalize();
                return Ok(Self { backup, answered });
            }
        }
        let reason = "what is declared changes while it is read; repeat the command";
        Err(Failure::unanswered(connection.address(), reason))
    }
}

/// Reads the declared fabric, page by page.
async fn declared(dialog: &Dialog<'_>, display_name: String) -> Result<proto::Fabric, Failure> {
    let connection = &dialog.connection;
    let say = |noun: &'static str| {
        move |count: usize| dialog.progress.say(format!("{count} {noun} so far"))
    };
    let ask = async |token| switch::page(connection, token).await;
    let switches = connection.every(ask, say("switches")).await?;
    let ask = async |token| fabric::hosts(connection, token).await;
    let hosts = connection.every(ask, say("hosts")).await?;
    let ask = async |token| link::page(connection, token).await;
    let links = connection.every(ask, say("links")).await?;
    let ask = async |token| fabric::host_ports(connection, token).await;
    let host_ports = connection.every(ask, say("host ports")).await?;
    Ok(proto::Fabric {
        display_name,
        switches,
        hosts,
        links,
        host_ports,
    })
}

/// Reads the jobs, page by page.
async fn jobs(dialog: &Dialog<'_>) -> Result<Vec<proto::Job>, Failure> {
    let connection = &dialog.connection;
    let ask = async |token| job::page(connection, token).await;
    let say = |count| dialog.progress.say(format!("{count} jobs so far"));
    connection.every(ask, say).await
}

/// Reads the default balance mode, and the leaves with a mode of their own.
async fn balances(
    connection: &Connection,
) -> Result<(proto::BalanceMode, Vec<proto::LeafBalance>), Failure> {
    let default_mode = Cell::new(proto::BalanceMode::Unspecified);
    let ask = async |page_token| {
        let mut client = connection.plans().await?;
        let request = proto::ListLeafBalancesRequest {
            page_size: PAGE_SIZE,
            page_token,
        };
        let page = connection.answer(client.list_leaf_balances(request));
        let page = page.await?;
        default_mode.set(page.default_mode());
        let (rows, next) = (page.leaf_balances, page.next_page_token);
        Ok(Page::new(page.header, rows, next))
    };
    let mut leaves = connection.every(ask, |_| ()).await?;
    leaves.retain(|leaf| leaf.has_own_mode);
    Ok((default_mode.get(), leaves))
}

/// Times that everything is read while others change it.
const ATTEMPTS: usize = 5;
