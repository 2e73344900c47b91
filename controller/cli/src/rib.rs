//! `weft rib`: the tables as a file that others read.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use weft_proto::v1::{self as proto, AddressFamily};

use crate::connection::Connection;
use crate::dialog::Dialog;
use crate::failure::Failure;
use crate::words;

/// What can be done with the tables.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Write them as MRT, TABLE_DUMP_V2 (RFC 6396), as bgpdump and bgpkit read it.
    Dump(Dump),
}

/// What is written where.
#[derive(Args)]
pub(crate) struct Dump {
    /// The file, which is replaced; `-` is standard output.
    file: PathBuf,
    /// Only this family; may be given several times.
    #[arg(long, value_name = "FAMILY", value_parser = words::read_family)]
    family: Vec<AddressFamily>,
}

impl Command {
    /// Asks and writes.
    pub(crate) async fn run(self, dialog: &mut Dialog<'_>) -> Result<(), Failure> {
        let Dialog {
            connection,
            progress,
            out,
            ..
        } = dialog;
        let count = |octets| progress.say(format!("{octets} octets so far"));
        let Self::Dump(Dump { file, family }) = self;
        let families = family.into_iter().map(i32::from).collect();
        let request = proto::ExportMrtRequest { families };
        if file == Path::new("-") {
            let whole = dump(request, connection, out, Failure::from, count).await;
            return whole.map(drop);
        }
        let refused =
            |error: std::io::Error| Failure::Refused(format!("{}: {error}", file.display()));
        // Half a file looks like a whole one: it gets its name when it is complete.
        let mut part = file.clone().into_os_string();
        part.push(".part");
        let mut written = BufWriter::new(File::create(&part).map_err(refused)?);
        let result = dump(request, connection, &mut written, refused, count).await;
        let result = match result {
            Ok(octets) => written
                .flush()
                .and_then(|()| std::fs::rename(&part, &file))
                .map(|()| octets)
                .map_err(refused),
            Err(failure) => Err(failure),
        };
        if result.is_err() {
            // The failure matters more than what is left of it.
            let _ = std::fs::remove_file(&part);
        }
        let octets = result?;
        writeln!(out, "{}: {octets} octets", file.display())?;
        Ok(())
    }
}

/// Writes what the replica answers, whole; `unwritten` says what it means that this cannot be.
async fn dump(
    request: proto::ExportMrtRequest,
    connection: &Connection,
    out: &mut dyn Write,
    unwritten: impl Fn(std::io::Error) -> Failure,
    count: impl Fn(u64),
) -> Result<u64, Failure> {
    let question = async || {
        let mut client = connection.routes().await?;
        let call = client.export_mrt(request.clone());
        let mut parts = connection.answer(call).await?;
        let first = connection.part(parts.message()).await?;
        Ok((parts, first))
    };
    let (mut parts, mut next) = connection.read(question).await?;
    let mut octets = 0;
    while let Some(part) = next {
        out.write_all(&part.octets).map_err(&unwritten)?;
        octets += part.octets.len() as u64;
        count(octets);
        next = connection.part(parts.message()).await?;
    }
    Ok(octets)
}
