//! One command: whom it asks, where its answer goes and in which form. Knows no noun.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

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
    /// Lists go on.
    pub(crate) watch: bool,
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
        if self.watch {
            return self.follow::<T, R>(ask).await;
        }
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

    /// Prints a list, and then what comes, changes or goes, until the reader has read enough.
    async fn follow<T, R: Row + From<T>>(
        &mut self,
        mut ask: impl AsyncFnMut(&Connection, String) -> Result<(Vec<T>, String), Failure>,
    ) -> Result<(), Failure> {
        let mut list = List::new(self.out, self.format)
            .headers(self.headers)
            .endless();
        // Rows without what changes all the time, by which they are known again.
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        loop {
            let (mut seen, mut fresh) = (BTreeMap::new(), Vec::new());
            let mut token = String::new();
            loop {
                let (rows, next) = ask(&self.connection, token.clone()).await?;
                for row in rows.into_iter().map(R::from) {
                    let lasting = row.lasting().join("\0");
                    let name = row.name();
                    if !known.contains_key(&lasting) {
                        fresh.push(row);
                    }
                    seen.insert(lasting, name);
                }
                if next.is_empty() {
                    break;
                }
                self.connection.advance(&mut token, next)?;
            }
            list.add(&fresh)?;
            let names: BTreeSet<&String> = seen.values().collect();
            let gone: BTreeSet<&String> = known.values().filter(|it| !names.contains(it)).collect();
            list.gone(gone)?;
            known = seen;
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Between two looks at a list.
const AGAIN: Duration = Duration::from_secs(1);
/// Rows to ask for at a time: as many as a replica gives.
pub(crate) const PAGE_SIZE: i32 = 10_000;
