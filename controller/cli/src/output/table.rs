//! Columns of text. Knows widths, and no noun.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{ColumnConstraint, Width};

use super::printable;

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
        headers: bool,
    ) -> io::Result<()> {
        let mut table = Self::new(header);
        table.fit(rows);
        if headers {
            writeln!(out, "{}", table.header())?;
        }
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

/// Blanks between two columns.
const GAP: u16 = 2;
/// A wrapped column is not made narrower than this.
const LAST_MIN: u16 = 24;
