//! One command: whom it asks, where its answer goes and in which form. Knows no noun.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::time::Duration;

use prost_types::Timestamp;
use serde::Serialize;
use tokio::time::Instant;
use weft_proto::v1 as proto;

use crate::connection::{Connection, Page};
use crate::failure::Failure;
use crate::follow::{Follow, News, PATIENCE};
use crate::output::{self, Format, List, Row, Table};
use crate::person::Person;
use crate::progress::Progress;
use crate::words;

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
    /// What takes long.
    pub(crate) progress: &'a Progress,
    /// Confirms changes that delete something.
    pub(crate) person: Person<'a>,
    /// Where to.
    pub(crate) out: &'a mut dyn Write,
}

impl Dialog<'_> {
    /// Asks the person whether to go on with `changes`, unless `yes` is set.
    pub(crate) fn confirm(
        &mut self,
        yes: bool,
        changes: &str,
        question: &str,
    ) -> Result<(), Failure> {
        self.progress.wipe();
        self.person.confirm(yes, changes, question)
    }

    /// Prints one object where that was asked for. False: something for people was.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> Result<bool, Failure> {
        Ok(output::object(self.out, self.format, value)?)
    }

    /// Prints a table for people that is all there; of names, the first column alone.
    pub(crate) fn table(
        &mut self,
        header: &[&'static str],
        rows: &[Vec<String>],
    ) -> Result<(), Failure> {
        if self.format == Format::Name {
            for name in rows.iter().filter_map(|row| row.first()) {
                writeln!(self.out, "{}", output::printable(name))?;
            }
            return Ok(());
        }
        Ok(Table::print(self.out, header, rows, self.headers)?)
    }

    /// Prints a list that came whole.
    pub(crate) fn rows<R: Row>(
        &mut self,
        rows: &[R],
        answered: Option<Timestamp>,
    ) -> Result<(), Failure> {
        let mut list = List::new(self.out, self.format).headers(self.headers);
        list.add(rows, answered)?;
        Ok(list.end()?)
    }

    /// Prints a list page by page. `ask` gets the token of a page.
    pub(crate) async fn pages<R: Row>(
        &mut self,
        ask: impl AsyncFn(&Connection, String) -> Result<Page<R>, Failure>,
    ) -> Result<(), Failure> {
        self.pages_or(ask, async |_: &Connection| Ok(())).await
    }

    /// Prints a list page by page. If it has no row, `check` may refuse what it was asked of.
    pub(crate) async fn pages_or<R: Row>(
        &mut self,
        ask: impl AsyncFn(&Connection, String) -> Result<Page<R>, Failure>,
        check: impl AsyncFn(&Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.watch {
            return self.look_again(ask).await;
        }
        let connection = &self.connection;
        let mut list = List::new(self.out, self.format).headers(self.headers);
        let (mut token, mut count) = (String::new(), 0);
        loop {
            let question = async || ask(connection, token.clone()).await;
            let page = connection.read(question).await?;
            count += page.rows.len();
            if count == 0 && page.next.is_empty() {
                check(connection).await?;
            }
            list.add(&page.rows, page.answered())?;
            self.progress.say(format!("{count} so far"));
            if page.next.is_empty() {
                return Ok(list.end()?);
            }
            connection.advance(&mut token, page.next)?;
        }
    }

    /// Prints a list, and then what comes, changes or goes, until the reader has read enough.
    async fn look_again<R: Row>(
        &mut self,
        ask: impl AsyncFn(&Connection, String) -> Result<Page<R>, Failure>,
    ) -> Result<(), Failure> {
        self.progress.end();
        let connection = &self.connection;
        let mut list = List::new(self.out, self.format)
            .headers(self.headers)
            .endless();
        let (mut known, mut token) = (Known::default(), String::new());
        let mut heard = None;
        loop {
            let question = async || ask(connection, token.clone()).await;
            let page = match connection.read(question).await {
                Ok(page) => page,
                // While replicas elect a leader, none answers.
                Err(Failure::Unanswered { .. })
                    if heard.is_some_and(|at: Instant| at.elapsed() < PATIENCE) =>
                {
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            heard = Some(Instant::now());
            let answered = page.answered();
            list.add(&known.news(page.rows), answered)?;
            if !page.next.is_empty() {
                connection.advance(&mut token, page.next)?;
                continue;
            }
            for name in known.missed() {
                list.gone(&name)?;
            }
            list.flush()?;
            token.clear();
            known.begin();
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Prints a list, and then what comes, changes or goes, as the replicas say it. It ends where a replica does not say that.
    pub(crate) async fn follow<R: Reader>(
        &mut self,
        request: proto::WatchRequest,
        mut reader: R,
    ) -> Result<(), Failure> {
        self.progress.end();
        let mut list = List::new(self.out, self.format)
            .headers(self.headers)
            .endless();
        let mut known = Known::default();
        let mut follow = Follow::new(&self.connection, request).or_anew();
        let mut parts = Heard::default();
        loop {
            let answer = match follow.next().await? {
                News::Begins => {
                    reader.begin();
                    parts = Heard::default();
                    continue;
                }
                News::Answer(answer) => *answer,
            };
            let answered = words::answered(answer.header.as_ref());
            let is_last = answer.header.is_some();
            let Some(heard) = reader.read(answer) else {
                return Ok(());
            };
            parts.gone.extend(heard.gone);
            parts.rows.extend(heard.rows);
            parts.whole |= heard.whole;
            // Ages are counted from what the last part says.
            if !is_last {
                continue;
            }
            let heard = std::mem::take(&mut parts);
            for row in heard.gone.iter().filter(|row| known.forget(&row.name())) {
                list.gone(&row.name())?;
            }
            if heard.whole {
                known.begin();
            }
            list.add(&known.news(heard.rows), answered)?;
            if heard.whole {
                for name in known.missed() {
                    list.gone(&name)?;
                }
            }
            list.flush()?;
        }
    }
}

/// Reads rows out of the answers of a watch.
pub(crate) trait Reader {
    /// A row of the list.
    type Row: Row;

    /// A stream begins, at this replica or at another one.
    fn begin(&mut self) {}

    /// What an answer says; None: the replica is of a release that does not stream such rows.
    fn read(&mut self, answer: proto::WatchResponse) -> Option<Heard<Self::Row>>;
}

/// One that needs the answer alone.
impl<R: Row, F: FnMut(proto::WatchResponse) -> Heard<R>> Reader for F {
    type Row = R;

    fn read(&mut self, answer: proto::WatchResponse) -> Option<Heard<R>> {
        Some(self(answer))
    }
}

/// What an answer of a watch says of one kind.
pub(crate) struct Heard<R> {
    /// What is there.
    pub(crate) rows: Vec<R>,
    /// What is not there any more.
    pub(crate) gone: Vec<R>,
    /// The rows, with those of the parts before, are all that are there.
    pub(crate) whole: bool,
}

impl<R> Default for Heard<R> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            gone: Vec::new(),
            whole: false,
        }
    }
}

/// Rows that were printed, by their names.
#[derive(Default)]
struct Known {
    /// A hash of what they are known again by.
    rows: BTreeMap<String, u64>,
    /// Those that came since everything began to come once more.
    seen: BTreeSet<String>,
}

impl Known {
    /// Everything comes once more from here on.
    fn begin(&mut self) {
        self.seen.clear();
    }

    /// Those of the rows that are new, or not as they were.
    fn news<R: Row>(&mut self, rows: Vec<R>) -> Vec<R> {
        let is_news = |row: &R| {
            let mut hasher = DefaultHasher::new();
            row.lasting().hash(&mut hasher);
            let hash = hasher.finish();
            self.seen.insert(row.name());
            self.rows.insert(row.name(), hash) != Some(hash)
        };
        rows.into_iter().filter(is_news).collect()
    }

    /// True: it was known.
    fn forget(&mut self, name: &str) -> bool {
        self.seen.remove(name);
        self.rows.remove(name).is_some()
    }

    /// Everything came: the names of rows that did not are not there any more.
    fn missed(&mut self) -> Vec<String> {
        let gone = self.rows.keys().filter(|name| !self.seen.contains(*name));
        let gone: Vec<_> = gone.cloned().collect();
        self.rows.retain(|name, _| self.seen.contains(name));
        gone
    }
}

/// Between two looks at a list.
const AGAIN: Duration = Duration::from_secs(1);
/// Rows to ask for at a time: as many as a replica gives.
pub(crate) const PAGE_SIZE: i32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_by_its_own_name_and_not_by_that_of_another() {
        let host = |mac: &str| proto::HostAddress {
            vni: Some(100),
            ip: "198.51.100.1".to_owned(),
            mac: mac.to_owned(),
            ..proto::HostAddress::default()
        };
        let mut known = Known::default();
        let both = || vec![host("00:00:5e:00:53:01"), host("00:00:5e:00:53:02")];
        assert_eq!(known.news(both()).len(), 2);
        assert!(known.missed().is_empty());
        known.begin();
        assert!(known.news(both()[..1].to_vec()).is_empty());
        // The address is still there at the other host.
        assert_eq!(known.missed(), ["100 198.51.100.1 00:00:5e:00:53:02 "]);
        assert!(known.missed().is_empty());
    }
}
