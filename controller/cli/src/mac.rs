//! `weft mac`: MAC addresses that move too often.

use std::io::Write;

use clap::Subcommand;
use serde::Serialize;
use weft_proto::operator::v1 as proto;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{self, Format, List, or_dash};

/// What can be asked of MAC addresses.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Those that moved too often and have not recovered, as the asked replica saw it.
    Moves,
}

impl Command {
    /// Asks and prints.
    pub(crate) async fn run(
        self,
        connection: &Connection,
        format: Format,
        out: &mut dyn Write,
    ) -> Result<(), Failure> {
        let Self::Moves = self;
        let mut client = connection.operator().await?;
        let request = proto::ListMovesRequest {};
        let answer = connection.answer(client.list_moves(request)).await?;
        let mut list = List::new(out, format);
        let rows = answer.moves.into_iter().map(Move::from);
        list.add(&rows.collect::<Vec<_>>())?;
        Ok(list.end()?)
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
