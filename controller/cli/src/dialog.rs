//! One command: whom it asks, where its answer goes and in which form. Knows no noun.

use std::io::Write;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, List, Row};

/// What every command has.
pub(crate) struct Dialog<'a> {
    /// Whom to ask.
    pub(crate) connection: Connection,
    /// How to print.
    pub(crate) format: Format,
    /// With a line above the columns.
    pub(crate) headers: bool,
    /// Where to.
    pub(crate) out: &'a mut dyn Write,
}

impl Dialog<'_> {
    /// Prints a list that came whole.
    pub(crate) fn rows<T, R: Row + From<T>>(&mut self, rows: Vec<T>) -> Result<(), Failure> {
        let rows: Vec<R> = rows.into_iter().map(R::from).collect();
        let mut list = List::new(self.out, self.format).headers(self.headers);
        list.add(&rows)?;
        Ok(list.end()?)
    }

    /// Prints a list page by page. `ask` gets the token of a page, and gives its rows with the token of
    /// the next one; the last has none.
    pub(crate) async fn pages<T, R: Row + From<T>>(
        &mut self,
        mut ask: impl AsyncFnMut(&Connection, String) -> Result<(Vec<T>, String), Failure>,
    ) -> Result<(), Failure> {
        let mut list = List::new(self.out, self.format).headers(self.headers);
        let mut token = String::new();
        loop {
            let (rows, next) = ask(&self.connection, token.clone()).await?;
            list.add(&rows.into_iter().map(R::from).collect::<Vec<_>>())?;
            if next.is_empty() {
                return Ok(list.end()?);
            }
            self.connection.advance(&mut token, next)?;
        }
    }
}

/// Rows to ask for at a time: for every page the replica looks at its whole table, so as many as it gives.
pub(crate) const PAGE_SIZE: i32 = 10_000;
