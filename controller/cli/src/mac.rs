//! `weft mac`: MAC addresses that move too often.

use clap::Subcommand;
use serde::Serialize;
use weft_proto::v1 as proto;

use crate::connection::Connection;
use crate::dialog::{Dialog, PAGE_SIZE};
use crate::failure::Failure;
use crate::output::{self, or_dash, printable};
use crate::words;

/// What can be asked of MAC addresses.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Those that moved too often and have not recovered, as the asked replica saw it, and those that are frozen.
    Moves,
    /// Thaws one and takes its alarm back, on every replica: its moves count anew.
    Clear {
        /// Its broadcast domain.
        vni: u32,
        /// The MAC address.
        mac: String,
    },
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let mut client = dialog.connection.evpn().await?;
        if let Self::Clear { vni, mac } = self {
            let request = proto::ClearDuplicateMacRequest {
                vni,
                mac: mac.clone(),
            };
            let answer = dialog
                .connection
                .answer(client.clear_duplicate_mac(request));
            let cleared = answer.await?.cleared;
            if !dialog.format.is_for_people() {
                return dialog.rows::<_, Move>(cleared.into_iter().collect());
            }
            let done = done(cleared.as_ref());
            writeln!(dialog.out, "{} in VNI {vni}: {done}", printable(&mac))?;
            return Ok(());
        }
        let ask = async |connection: &Connection, page_token| {
            let request = proto::ListDuplicateMacsRequest {
                page_size: PAGE_SIZE,
                page_token,
            };
            let call = client.list_duplicate_macs(request);
            let page = connection.answer(call).await?;
            Ok((page.duplicate_macs, page.next_page_token))
        };
        dialog.pages::<_, Move>(ask).await
    }
}

/// What clearing did.
fn done(cleared: Option<&proto::DuplicateMac>) -> &'static str {
    match cleared {
        None => "nothing to clear",
        Some(moved) if moved.frozen => "thawed, its moves count anew",
        Some(_) => "no alarm any more, its moves count anew",
    }
}

#[derive(Serialize)]
struct Move {
    vni: u32,
    mac: String,
    holder: String,
    recovers_secs: u64,
    frozen: bool,
    withheld: u64,
}

impl From<proto::DuplicateMac> for Move {
    fn from(moved: proto::DuplicateMac) -> Self {
        Self {
            vni: moved.vni,
            mac: moved.mac,
            recovers_secs: words::secs(moved.recovers_in.as_ref()),
            holder: moved.vtep_address.or(moved.esi).unwrap_or_default(),
            frozen: moved.frozen,
            withheld: moved.withheld_path_count,
        }
    }
}

impl output::Row for Move {
    const HEADER: &'static [&'static str] = &["VNI", "MAC", "AT", "RECOVERS", "FROZEN"];

    fn lasting(&self) -> Vec<String> {
        const RECOVERS: usize = 3;
        let mut cells = self.cells();
        cells.remove(RECOVERS);
        cells
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.vni.to_string(),
            self.mac.clone(),
            or_dash(&self.holder),
            format!("{}s", self.recovers_secs),
            match (self.frozen, self.withheld) {
                (false, _) => "no".to_owned(),
                (true, 0) => "yes".to_owned(),
                (true, withheld) => format!("yes, {withheld} withheld"),
            },
        ]
    }

    fn name(&self) -> String {
        self.mac.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, List};

    #[test]
    fn moves_in_columns() {
        let row = |last: u8, frozen, withheld| {
            Move::from(proto::DuplicateMac {
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
            })
        };
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[row(1, false, 0), row(2, true, 0), row(3, true, 2)])
            .unwrap();
        list.end().unwrap();
        let expected = concat!(
            "VNI  MAC                AT          RECOVERS  FROZEN\n",
            "100  00:00:5e:00:53:01  192.0.2.11  1799s     no\n",
            "100  00:00:5e:00:53:02  192.0.2.11  1799s     yes\n",
            "100  00:00:5e:00:53:03  192.0.2.11  1799s     yes, 2 withheld\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
