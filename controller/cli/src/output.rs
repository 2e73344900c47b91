//! Tables, JSON and YAML on standard output. Knows columns and rows, and no noun.

use std::io::{self, Write};

use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, Width};
use serde::Serialize;

/// Form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    Table,
    /// More columns, where there are more.
    Wide,
    /// For machines; a list has one object a line.
    Json,
    /// For both.
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

/// A row of a list, as an object and in columns.
pub(crate) trait Row: Serialize {
    /// What stands above the columns.
    const HEADER: &'static [&'static str];
    /// What stands above the columns that are there with `-o wide` only.
    const WIDE: &'static [&'static str] = &[];
    /// One text for each column.
    fn cells(&self) -> Vec<String>;
    /// One text for each further column.
    fn wide(&self) -> Vec<String> {
        Vec::new()
    }
    /// One text for each column that does not change all the time: a row that differs in nothing else is the same.
    fn lasting(&self) -> Vec<String> {
        self.cells()
    }
    /// What other commands call it by.
    fn name(&self) -> String {
        self.cells().into_iter().next().unwrap_or_default()
    }
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

    /// It never ends: JSON is one object a line, and what is printed is there at once.
    pub(crate) fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    /// Prints the names of rows that went.
    pub(crate) fn gone<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n String>,
    ) -> io::Result<()> {
        for name in names {
            match self.format {
                Format::Table | Format::Wide | Format::Name => {
                    writeln!(self.out, "{} is gone", printable(name))?;
                }
                Format::Json | Format::Yaml => {
                    let gone = serde_json::json!({ "gone": name });
                    match self.format {
                        Format::Yaml => self.out.write_all(yaml(&[gone])?.as_bytes())?,
                        _ => writeln!(self.out, "{gone}")?,
                    }
                }
            }
        }
        self.out.flush()
    }

    /// Prints one page; the first one brings the header, later ones keep at least its widths.
    pub(crate) fn add<R: Row>(&mut self, rows: &[R]) -> io::Result<()> {
        match self.format {
            Format::Table | Format::Wide => self.add_to_table(rows)?,
            Format::Name => {
                for row in rows {
                    writeln!(self.out, "{}", printable(&row.name()))?;
                }
            }
            Format::Json if self.endless => {
                for row in rows {
                    writeln!(self.out, "{}", serde_json::to_string(row)?)?;
                }
            }
            Format::Json => {
                for (at, row) in (self.rows..).zip(rows) {
                    self.out
                        .write_all(if at == 0 { b"[\n  " } else { b",\n  " })?;
                    self.out.write_all(&serde_json::to_vec(row)?)?;
                }
            }
            // Sequences one after another are one sequence.
            Format::Yaml if rows.is_empty() => {}
            Format::Yaml => self.out.write_all(yaml(&rows)?.as_bytes())?,
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

    fn add_to_table<R: Row>(&mut self, rows: &[R]) -> io::Result<()> {
        let wide = self.format == Format::Wide;
        let cells = |row: &R| match wide {
            true => [row.cells(), row.wide()].concat(),
            false => row.cells(),
        };
        let rows: Vec<_> = rows.iter().map(cells).collect();
        let first = self.table.is_none();
        let header = match wide {
            true => [R::HEADER, R::WIDE].concat(),
            false => R::HEADER.to_vec(),
        };
        let table = self.table.get_or_insert_with(|| Table::new(&header));
        table.fit(&rows);
        if first && self.headers {
            writeln!(self.out, "{}", table.header())?;
        }
        if !rows.is_empty() {
            writeln!(self.out, "{}", table.body(&rows))?;
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
        Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(value)?)?,
        Format::Yaml => out.write_all(yaml(value)?.as_bytes())?,
    }
    Ok(true)
}

/// Columns whose widths are known before all rows are.
pub(crate) struct Table {
    header: Vec<&'static str>,
    widths: Vec<u16>,
}

impl Table {
    /// As wide as the header.
    pub(crate) fn new(header: &[&'static str]) -> Self {
        let mut table = Self {
            header: header.to_vec(),
            widths: vec![1; header.len()],
        };
        table.fit(&[header.iter().map(ToString::to_string).collect()]);
        table
    }

    /// Prints header and rows of a table that is all there.
    pub(crate) fn print(
        out: &mut dyn Write,
        header: &[&'static str],
        rows: &[Vec<String>],
    ) -> io::Result<()> {
        let mut table = Self::new(header);
        table.fit(rows);
        writeln!(out, "{}", table.header())?;
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(out, "{}", table.body(rows))
    }

    /// Widens the columns to these rows.
    pub(crate) fn fit(&mut self, rows: &[Vec<String>]) {
        let needed = lay_out(rows).column_max_content_widths();
        for (width, needed) in self.widths.iter_mut().zip(needed) {
            *width = needed.max(*width);
        }
    }

    /// Wraps the last column so that a line has `columns` columns, if the others leave enough.
    pub(crate) fn wrap(&mut self, columns: u16) {
        let (last, others) = self.widths.split_last_mut().expect("a table has a column");
        let taken: u16 = others
            .iter()
            .fold(0, |sum, width| sum.saturating_add(width + GAP));
        *last = (*last).min(columns.saturating_sub(taken).max(LAST_MIN));
    }

    /// The line above the rows.
    pub(crate) fn header(&self) -> String {
        self.body(&[self.header.iter().map(ToString::to_string).collect()])
    }

    /// The rows as lines, without the last end of line.
    pub(crate) fn body(&self, rows: &[Vec<String>]) -> String {
        let mut table = lay_out(rows);
        for (column, width) in table.column_iter_mut().zip(&self.widths) {
            let width = width.saturating_add(GAP);
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
        table.trim_fmt()
    }
}

fn lay_out(rows: &[Vec<String>]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(NOTHING);
    table.add_rows(
        rows.iter()
            .map(|row| row.iter().map(|cell| printable(cell))),
    );
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    table
}

/// A text with its control characters spelled out: what a peer or a switch says must not move the cursor.
pub(crate) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// The same for a text of several lines, which stay lines.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(printable).collect();
    lines.join("\n")
}

/// A text, or what stands for none.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

fn yaml(value: &impl Serialize) -> io::Result<String> {
    serde_yaml_ng::to_string(value).map_err(io::Error::other)
}

/// Blanks between two columns.
const GAP: u16 = 2;
/// A wrapped column is not made narrower than this.
const LAST_MIN: u16 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_lines_and_nothing_else_moves_the_cursor() {
        let told = "weft.toml: line 2\n  |\n2 | asm = \u{1b}[2J1\r\n  | ^^^\rx\n";
        let printed = "weft.toml: line 2\n  |\n2 | asm = \\u{1b}[2J1\n  | ^^^\\rx";
        assert_eq!(printable_lines(told), printed);
    }
}
