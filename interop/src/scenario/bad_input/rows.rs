//! Plays every row of `cases.yaml`: all sessions are up at the same time, so that each row is a test of
//! all the others too.

use std::{
    collections::BTreeMap,
    fmt::Write,
    time::{Duration, Instant},
};

use super::{
    REPLICAS, ROGUE, SOON,
    table::{Answer, Case, Table, When},
    voice::{KEEPALIVE, NOTIFICATION, OPEN, Voice},
    witness::{self, Routes},
};
use crate::{check::Checks, clock, expect::Lines, failure::Failure, lab::Lab};

/// A case, its connection, and what was wrong with what it came to.
struct Played {
    case: Case,
    voice: Voice,
    wrong: String,
}

/// Greets, announces, says what is bad, and asks what came of it.
pub(super) fn played(lab: &Lab, table: &Table, checks: &mut Checks) -> Result<(), Failure> {
    let replicas = REPLICAS.map(|(_, address)| address);
    let start = Instant::now();
    let mut rows = Vec::new();
    for case in table.cases(&replicas)? {
        if case.when != When::Connected {
            rows.push(greet(lab, table, case)?);
        }
    }
    announced(lab, table, &rows, checks)?;
    for row in &mut rows {
        row.say(table)?;
    }
    // Afterwards, since some of these take the identity of somebody who is there.
    for case in table.cases(&replicas)? {
        if case.when == When::Connected {
            let mut row = greet(lab, table, case)?;
            row.say(table)?;
            rows.push(row);
        }
    }
    for row in &mut rows {
        row.answered()?;
    }
    let actual = settled(lab, &rows)?;
    for row in &mut rows {
        row.compare(&actual)?;
    }
    rows.sort_by_key(|row| row.case.own);
    for row in &rows {
        let note = format!("{}, from {}", row.case.answer.told(), row.case.own);
        let verdict = match row.wrong.is_empty() {
            true => Ok(note),
            false => Err(row.wrong.clone()),
        };
        checks.record(&row.case.name, Instant::now(), verdict);
    }
    let expected = leaf(&rows);
    checks.agree(
        "the leaf has what the replicas have, from each once",
        SOON.min(checks.patience()),
        &expected,
        || witness::leaf_routes(lab),
    )?;
    println!("  {} rows in {}", rows.len(), clock::since(start));
    Ok(())
}

/// Connects, and brings the session to where the row begins.
fn greet(lab: &Lab, table: &Table, case: Case) -> Result<Played, Failure> {
    let mut voice = Voice::dial(lab.namespace(ROGUE)?, case.own, case.to, None)?;
    let mut wrong = String::new();
    if case.when != When::Connected {
        voice.say(&table.fragment("OPEN", &case)?);
        voice.hear(PATIENCE, |voice| voice.got(KEEPALIVE))?;
        if !voice.got(OPEN) || !voice.got(KEEPALIVE) {
            let _ = writeln!(wrong, "no session: {:?}", voice.notification);
        }
    }
    if case.when == When::Established {
        voice.say(&table.fragment("KEEPALIVE", &case)?);
        voice.say(&table.fragment("ANNOUNCE_FIRST", &case)?);
    }
    Ok(Played { case, voice, wrong })
}

/// What the rows will spoil is there, everywhere: otherwise it would prove nothing that it goes.
fn announced(
    lab: &Lab,
    table: &Table,
    rows: &[Played],
    checks: &mut Checks,
) -> Result<(), Failure> {
    let mut expected = super::before();
    for row in rows.iter().filter(|row| row.case.when == When::Established) {
        for name in ["good", "victim"] {
            let key = table.key(name, row.case.own)?;
            let at = |(name, _): &(&str, _)| format!("{name}: {} {key}", row.case.own);
            expected.extend(REPLICAS.iter().map(at));
        }
    }
    checks.agree(
        "every replica has what all rows announced first",
        SOON,
        &expected,
        || witness::everywhere(lab),
    )?;
    Ok(())
}

impl Played {
    fn say(&mut self, table: &Table) -> Result<(), Failure> {
        self.voice.say(&self.case.octets);
        if self.case.answer == Answer::Up {
            self.voice
                .say(&table.fragment("ANNOUNCE_LAST", &self.case)?);
        }
        Ok(())
    }

    fn answered(&mut self) -> Result<(), Failure> {
        let ended = |voice: &Voice| voice.closed || voice.got(NOTIFICATION);
        match self.case.answer {
            Answer::Notification(..) | Answer::Closed | Answer::Nothing => {
                self.voice.hear(PATIENCE, ended)?;
                // After a NOTIFICATION the connection has to be closed too.
                self.voice.hear(PATIENCE, |voice| voice.closed)?;
            }
            Answer::Up | Answer::Waits | Answer::Any => {
                self.voice.hear(A_MOMENT, |voice| voice.closed)?;
            }
        }
        let difference = self.case.answer.difference(&self.voice);
        self.wrong.push_str(&difference);
        Ok(())
    }

    fn compare(&mut self, actual: &BTreeMap<&str, Routes>) -> Result<(), Failure> {
        let peer = self.case.own.to_string();
        for (replica, routes) in actual {
            let found = routes.get(&peer).cloned().unwrap_or_default();
            for missing in self.case.routes.difference(&found) {
                let _ = writeln!(self.wrong, "expected: {replica} has {missing}");
            }
            for surplus in found.difference(&self.case.routes) {
                let _ = writeln!(self.wrong, "actual:   {replica} has {surplus}");
            }
        }
        // Between its answer and now, nothing else may have come.
        if self.case.answer == Answer::Up {
            self.voice.hear(Duration::from_millis(1), |_| false)?;
            if self.voice.closed || self.voice.got(NOTIFICATION) {
                let _ = writeln!(self.wrong, "actual:   {}", told(&self.voice));
            }
        }
        Ok(())
    }
}

/// The tables of all replicas, once they are as expected or it took too long.
fn settled<'a>(lab: &'a Lab, rows: &[Played]) -> Result<BTreeMap<&'a str, Routes>, Failure> {
    let mut expected = Routes::new();
    for row in rows.iter().filter(|row| !row.case.routes.is_empty()) {
        expected.insert(row.case.own.to_string(), row.case.routes.clone());
    }
    let deadline = clock::deadline(SETTLED);
    loop {
        let mut actual = BTreeMap::new();
        for (name, client) in witness::clients(lab)? {
            let mut routes = witness::routes(&client)?;
            routes.remove(&super::LEAF_ADDRESS.to_string());
            actual.insert(name, routes);
        }
        if actual.values().all(|routes| *routes == expected) || Instant::now() > deadline {
            return Ok(actual);
        }
        clock::pause(Duration::from_millis(200))?;
    }
}

/// What the leaf has to have: its own route, and what is left of the rows, once from each replica.
fn leaf(rows: &[Played]) -> Lines {
    let own = format!("{}:100 {}, 1 paths", super::LEAF_ADDRESS, super::LEAF_ROUTE);
    let mut lines: Lines = [own].into();
    for case in rows.iter().map(|row| &row.case) {
        let of = |key: &String| format!("{}:100 {key}, {} paths", case.own, REPLICAS.len());
        lines.extend(case.at_leaf.iter().map(of));
    }
    lines
}

impl Answer {
    /// For the line of a row that passed.
    fn told(&self) -> String {
        match self {
            Self::Up => "session up".to_owned(),
            Self::Notification(code, subcode, _) => format!("NOTIFICATION {code}/{subcode}"),
            Self::Closed => "closed".to_owned(),
            Self::Nothing => "closed, nothing said".to_owned(),
            Self::Waits => "left open".to_owned(),
            Self::Any => "nobody minds".to_owned(),
        }
    }

    /// Empty if it is what was heard.
    fn difference(&self, voice: &Voice) -> String {
        let fits = match self {
            Self::Up | Self::Waits => !voice.closed && voice.notification.is_none(),
            Self::Notification(code, subcode, data) => {
                let same = |heard: &(u8, u8, Vec<u8>)| {
                    (heard.0, heard.1) == (*code, *subcode)
                        && data.as_ref().is_none_or(|data| *data == heard.2)
                };
                voice.closed && voice.notification.as_ref().is_some_and(same)
            }
            Self::Closed => voice.closed && voice.notification.is_none(),
            Self::Nothing => voice.closed && voice.octets == 0,
            Self::Any => true,
        };
        if fits {
            return String::new();
        }
        format!("expected: {self:?}\nactual:   {}\n", told(voice))
    }
}

fn told(voice: &Voice) -> String {
    let state = if voice.closed { "closed" } else { "open" };
    match &voice.notification {
        Some((code, subcode, data)) => {
            format!("NOTIFICATION {code}/{subcode} with data {data:02x?}, {state}")
        }
        None => format!("{} octets and no NOTIFICATION, {state}", voice.octets),
    }
}

/// A hold timer of 3 s, and what a busy machine adds to it.
const PATIENCE: Duration = Duration::from_secs(6);

/// What is agreed takes milliseconds; a busy machine is given longer.
const SETTLED: Duration = Duration::from_secs(6);

/// Long enough for an answer to what was said before, if there is one.
const A_MOMENT: Duration = Duration::from_millis(5);
