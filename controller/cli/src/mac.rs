//! `weft mac`: MAC addresses that move too often.

use clap::Subcommand;
use prost_types::Timestamp;
use weft_proto::v1 as proto;

use crate::completion;
use crate::connection::{Connection, Page, request_id};
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, Row, printable};
use crate::words;

/// What can be asked of MAC addresses.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Those that moved too often and have not recovered, as the asked replica saw it, and those that are frozen.
    Moves,
    /// Thaws one and takes its alarm back, on every replica: its moves count anew.
    Clear {
        /// Its broadcast domain.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=0xff_ffff), add = completion::vnis())]
        vni: u32,
        /// The MAC address.
        #[arg(add = completion::duplicates())]
        mac: String,
    },
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        match self {
            Self::Moves => dialog.pages(page).await,
            Self::Clear { vni, mac } => clear(vni, mac, dialog).await,
        }
    }
}

/// One page of addresses that moved too often.
pub(crate) async fn page(
    connection: &Connection,
    page_token: String,
) -> Result<Page<proto::DuplicateMac>, Failure> {
    let mut client = connection.evpn().await?;
    let request = proto::ListDuplicateMacsRequest {
        page_size: PAGE_SIZE,
        page_token,
    };
    let call = client.list_duplicate_macs(request);
    let page = connection.answer(call).await?;
    let rows = page.duplicate_macs;
    Ok(Page::new(page.header, rows, page.next_page_token))
}

async fn clear(vni: u32, mac: String, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
    let connection = &dialog.connection;
    let name = printable(&mac);
    let request = proto::ClearDuplicateMacRequest {
        vni,
        mac,
        request_id: request_id(),
    };
    let question = async || {
        let mut client = connection.evpn().await?;
        let call = client.clear_duplicate_mac(request.clone());
        connection.answer(call).await
    };
    let answer = connection.read(question).await?;
    let object = output::message("weft.v1.ClearDuplicateMacResponse", &answer);
    if !dialog.object(&object)? {
        let done = done(answer.cleared.as_ref());
        writeln!(dialog.out, "{name} in VNI {vni}: {done}")?;
    }
    Ok(())
}

/// What clearing did.
fn done(cleared: Option<&proto::DuplicateMac>) -> &'static str {
    match cleared {
        None => "nothing to clear",
        Some(moved) if moved.frozen => "thawed, its moves count anew",
        Some(_) => "no alarm any more, its moves count anew",
    }
}

impl Row for proto::DuplicateMac {
    const HEADER: &'static [&'static str] = &["VNI", "MAC", "VTEP", "RECOVERS", "FROZEN"];
    const PASSING: &'static [&'static str] = &["RECOVERS"];

    fn object(&self) -> serde_json::Value {
        output::message("weft.v1.DuplicateMac", self)
    }

    fn lines(&self, _: Option<Timestamp>) -> Vec<Vec<String>> {
        let holder = self.vtep_address.as_ref().or(self.esi.as_ref());
        vec![vec![
            self.vni.to_string(),
            self.mac.clone(),
            words::or_dash(holder),
            format!("{}s", words::secs(self.recovers_in.as_ref())),
            match (self.frozen, self.withheld_path_count) {
                (false, _) => "no".to_owned(),
                (true, 0) => "yes".to_owned(),
                (true, withheld) => format!("yes, {withheld} withheld"),
            },
        ]]
    }

    /// As `weft mac clear` wants it.
    fn name(&self) -> String {
        format!("{} {}", self.vni, self.mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, List};

    #[test]
    fn moves_in_columns() {
        let row = |last: u8, frozen, withheld| proto::DuplicateMac {
            vni: 100,
            mac: format!("00:00:5e:00:53:0{last}"),
            vtep_address: Some("192.0.2.11".to_owned()),
            esi: None,
            recovers_in: Some(prost_types::Duration {
                seconds: 1_799,
                nanos: 999,
            }),
            frozen,
            withheld_path_count: withheld,
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        let rows = [row(1, false, 0), row(2, true, 0), row(3, true, 2)];
        list.add(&rows, None).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "VNI  MAC                VTEP        RECOVERS  FROZEN\n",
            "100  00:00:5e:00:53:01  192.0.2.11  1799s     no\n",
            "100  00:00:5e:00:53:02  192.0.2.11  1799s     yes\n",
            "100  00:00:5e:00:53:03  192.0.2.11  1799s     yes, 2 withheld\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
