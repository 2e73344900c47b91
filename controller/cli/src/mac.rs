//! `weft mac`: MAC addresses that move too often.

use clap::Subcommand;
use serde::Serialize;
use weft_proto::operator::v1 as proto;

use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::output::{self, or_dash};

/// What can be asked of MAC addresses.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Those that moved too often and have not recovered, as the asked replica saw it.
    Moves,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let Self::Moves = self;
        let mut client = dialog.connection.operator().await?;
        let call = client.list_moves(proto::ListMovesRequest {});
        let answer = dialog.connection.answer(call).await?;
        dialog.rows::<_, Move>(answer.moves)
    }
}

#[derive(Serialize)]
struct Move {
    vni: u32,
    mac: String,
    holder: String,
    recovers_secs: u64,
}

impl From<proto::Move> for Move {
    fn from(moved: proto::Move) -> Self {
        Self {
            vni: moved.vni,
            mac: moved.mac,
            holder: moved.holder,
            recovers_secs: moved.recovers_secs,
        }
    }
}

impl output::Row for Move {
    const HEADER: &'static [&'static str] = &["VNI", "MAC", "AT", "RECOVERS"];

    fn cells(&self) -> Vec<String> {
        vec![
            self.vni.to_string(),
            self.mac.clone(),
            or_dash(&self.holder),
            format!("{}s", self.recovers_secs),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{Format, List};

    #[test]
    fn moves_in_columns() {
        let row = Move::from(proto::Move {
            vni: 100,
            mac: "00:00:5e:00:53:01".to_owned(),
            holder: "192.0.2.11".to_owned(),
            recovers_secs: 1_799,
        });
        let mut out = Vec::new();
        let mut list = List::new(&mut out, Format::Table);
        list.add(&[row]).unwrap();
        list.end().unwrap();
        let expected = concat!(
            "VNI  MAC                AT          RECOVERS\n",
            "100  00:00:5e:00:53:01  192.0.2.11  1799s\n",
        );
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
