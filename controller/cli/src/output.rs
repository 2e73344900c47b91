//! Tables, JSON and YAML on standard output. Knows columns, rows and messages, and no noun.

use std::io::{self, Write};

use clap::ValueEnum;
use prost_types::Timestamp;
use serde::Serialize;
use serde_json::Value;

mod table;
mod text;

pub(crate) use table::Table;
pub(crate) use text::{or_dash, printable, printable_lines};

/// Form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// More columns, where there are more.
    Wide,
    /// For machines: the API's messages, of a list one a line.
    Json,
    /// For both: the same as JSON.
    Yaml,
    /// Of a list the names alone, one a line.
    Name,
}

impl Format {
    /// Whether columns or lines for people are wanted.
    pub(crate) fn is_for_people(self) -> bool {
        matches!(self, Self::Table | Self::Wide | Self::Name)
    }
}

/// A row of a list, as an object and in columns. Mostly it is a message of the API.
pub(crate) trait Row {
    /// What stands above the columns.
    const HEADER: &'static [&'static str];
    /// What stands above the columns that are there with `-o wide` only, behind the others.
    const WIDE: &'static [&'static str] = &[];
    /// Those of the columns that change all the time: a row that differs in nothing else is the same.
    const PASSING: &'static [&'static str] = &[];
    /// What machines read: a message as the API's JSON has it.
    fn object(&self) -> Value;
    /// One text for each column, those of `-o wide` too; a line for each part of it that has one of its own. Ages are counted
    /// from `answered`, when the replica said so.
    fn lines(&self, answered: Option<Timestamp>) -> Vec<Vec<String>>;
    /// What other commands call it by; no two rows of a list have the same.
    fn name(&self) -> String;

    /// What it is known again by: all columns without those that change all the time.
    fn lasting(&self) -> String {
        let names = Self::HEADER.iter().chain(Self::WIDE);
        let lasting: Vec<bool> = names.map(|name| !Self::PASSING.contains(name)).collect();
        let mut text = String::new();
        for line in self.lines(None) {
            for (cell, _) in line.iter().zip(&lasting).filter(|(_, lasting)| **lasting) {
                text.push_str(cell);
                text.push('\0');
            }
        }
        text
    }
}

/// A message of the API as the API's JSON has it; `name` is its full name, `weft.v1.Link`.
pub(crate) fn message<M: prost::Message>(name: &str, message: &M) -> Value {
    let value = weft_proto::json::value(name, message);
    value.expect("the descriptors have every message that is printed, by its name")
}

/// A list that is printed page by page; only one page is held.
pub(crate) struct List<'a> {
    out: &'a mut dyn Write,
    format: Format,
    headers: bool,
    endless: bool,
    table: Option<Table>,
    rows: u64,
}

impl<'a> List<'a> {
    /// An empty list.
    pub(crate) fn new(out: &'a mut dyn Write, format: Format) -> Self {
        Self {
            out,
            format,
            headers: true,
            endless: false,
            table: None,
            rows: 0,
        }
    }

    /// With a line above the columns, or without.
    pub(crate) fn headers(mut self, headers: bool) -> Self {
        self.headers = headers;
        self
    }

    /// It never ends: JSON is one object a line.
    pub(crate) fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    /// What is printed is there at once.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Says that a row is not there any more, except among bare names.
    pub(crate) fn gone(&mut self, name: &str) -> io::Result<()> {
        let gone = serde_json::json!({ "gone": name });
        match self.format {
            Format::Table | Format::Wide => writeln!(self.out, "{} is gone", printable(name)),
            Format::Name => Ok(()),
            Format::Json => writeln!(self.out, "{}", text::json(&gone)?),
            Format::Yaml => self.out.write_all(text::yaml(&[gone])?.as_bytes()),
        }
    }

    /// Prints one page; the first one brings the header, later ones keep at least its widths. Where the list never ends, the header
    /// comes with the first rows. Ages are counted from `answered`.
    pub(crate) fn add<R: Row>(
        &mut self,
        rows: &[R],
        answered: Option<Timestamp>,
    ) -> io::Result<()> {
        match self.format {
            Format::Table | Format::Wide => self.add_to_table(rows, answered)?,
            Format::Name => {
                for row in rows {
                    writeln!(self.out, "{}", printable(&row.name()))?;
                }
            }
            Format::Json if self.endless => {
                for row in rows {
                    writeln!(self.out, "{}", text::json(&row.object())?)?;
                }
            }
            Format::Json => {
                for (at, row) in (self.rows..).zip(rows) {
                    let before = if at == 0 { "[\n  " } else { ",\n  " };
                    write!(self.out, "{before}{}", text::json(&row.object())?)?;
                }
            }
            // Sequences one after another are one sequence.
            Format::Yaml => {
                for row in rows {
                    write!(self.out, "{}", text::yaml(&[row.object()])?)?;
                }
            }
        }
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Prints what closes the list.
    pub(crate) fn end(self) -> io::Result<()> {
        match (self.format, self.rows) {
            (Format::Table | Format::Wide | Format::Name, _) => Ok(()),
            (Format::Json | Format::Yaml, 0) => self.out.write_all(b"[]\n"),
            (Format::Json, _) => self.out.write_all(b"\n]\n"),
            (Format::Yaml, _) => Ok(()),
        }
    }

    fn add_to_table<R: Row>(&mut self, rows: &[R], answered: Option<Timestamp>) -> io::Result<()> {
        let header = match self.format {
            Format::Wide => [R::HEADER, R::WIDE].concat(),
            _ => R::HEADER.to_vec(),
        };
        let lines = rows.iter().flat_map(|row| row.lines(answered));
        let lines: Vec<_> = lines
            .map(|mut line| {
                line.truncate(header.len());
                line
            })
            .collect();
        if self.endless && lines.is_empty() {
            return Ok(());
        }
        let first = self.table.is_none();
        let table = self.table.get_or_insert_with(|| Table::new(&header));
        table.fit(&lines);
        if first && self.headers {
            writeln!(self.out, "{}", table.header())?;
        }
        if !lines.is_empty() {
            writeln!(self.out, "{}", table.body(&lines))?;
        }
        Ok(())
    }
}

/// Prints one object where that was asked for. False: a table was.
pub(crate) fn object(
    out: &mut dyn Write,
    format: Format,
    value: &impl Serialize,
) -> io::Result<bool> {
    match format {
        Format::Table | Format::Wide | Format::Name => return Ok(false),
        Format::Json => writeln!(out, "{}", text::json_lines(value)?)?,
        Format::Yaml => out.write_all(text::yaml(value)?.as_bytes())?,
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn among_bare_names_stands_none_that_is_gone() {
        let print = |format| {
            let mut out = Vec::new();
            let mut list = List::new(&mut out, format).endless();
            list.gone("192.0.2.11").unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(print(Format::Name), "");
        assert_eq!(print(Format::Table), "192.0.2.11 is gone\n");
        assert_eq!(print(Format::Json), "{\"gone\":\"192.0.2.11\"}\n");
        assert_eq!(print(Format::Yaml), "- gone: 192.0.2.11\n");
    }
}
