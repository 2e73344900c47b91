//! Plays every row of `cases.yaml`: all sessions are up at the same time, so that each row is a test of
//! all the others too.

use std::{
    collections::BTreeMap,
    fmt::Write,
    net::Ipv4Addr,
    thread,
    time::{Duration, Instant},
};

use super::{
    LEAF, REPLICAS, ROGUE, SOON,
    acts::Act,
    counters, shown,
    table::{Answer, Case, Counts, Table, When},
    told,
    voice::{KEEPALIVE, NOTIFICATION, OPEN, Voice},
    witness::{self, Routes},
};
use crate::{
    check::Checks, clock, expect::Lines, failure::Failure, lab::Lab, namespace::Namespace,
};

/// A case, its connection, and what was wrong with what it came to.
struct Played {
    case: Case,
    voice: Voice,
    wrong: String,
}

/// Greets, announces, says what is bad, and asks what came of it.
pub(super) fn played(lab: &Lab, table: &Table, checks: &mut Checks) -> Result<(), Failure> {
    let replicas = REPLICAS.map(|(_, address)| address);
    let suite = lab.suite(LEAF)?;
    let start = Instant::now();
    let mut rows = Vec::new();
    for case in table.cases(&replicas, suite)? {
        if case.when != When::Connected {
            rows.push(greet(lab, table, case)?);
        }
    }
    announced(lab, table, &rows, checks)?;
    said(lab, table, &mut rows)?;
    // Afterwards, since some of these take the identity of somebody who is there.
    let mut late = Vec::new();
    for case in table.cases(&replicas, suite)? {
        if case.when == When::Connected {
            late.push(greet(lab, table, case)?);
        }
    }
    said(lab, table, &mut late)?;
    rows.extend(late);
    for row in &mut rows {
        row.answered()?;
    }
    let actual = settled(lab, &rows)?;
    let counted = counted(lab, &rows)?;
    for row in &mut rows {
        row.compare(&actual)?;
        row.compare_counts(&counted);
    }
    shown::plainly(lab, &named(&rows), checks)?;
    shown::of_counts(lab, &countable(&rows), checks)?;
    told::rightly(lab, table, checks)?;
    told::of_memberships(lab, table, checks)?;
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
        voice.say(&table.octets("OPEN", &case, 0)?)?;
        voice.hear(PATIENCE, |voice| voice.got(KEEPALIVE))?;
        if !voice.got(OPEN) || !voice.got(KEEPALIVE) {
            let _ = writeln!(wrong, "no session: {:?}", voice.notification);
        }
    }
    if case.when == When::Established {
        voice.say(&table.octets("KEEPALIVE ANNOUNCE_FIRST", &case, 0)?)?;
    }
    Ok(Played { case, voice, wrong })
}

/// Every row says what is bad. Those that take their time do so at the same time.
fn said(lab: &Lab, table: &Table, rows: &mut [Played]) -> Result<(), Failure> {
    let namespace = lab.namespace(ROGUE)?;
    thread::scope(|scope| {
        let mut slow = Vec::new();
        for row in rows {
            if row.case.acts.iter().any(Act::takes_time) {
                slow.push(scope.spawn(|| row.say(namespace, table)));
            } else {
                row.say(namespace, table)?;
            }
        }
        slow.into_iter().try_for_each(|row| {
            row.join()
                .unwrap_or_else(|_| Err(Failure::new("a row's thread")))
        })
    })
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
    fn say(&mut self, namespace: &Namespace, table: &Table) -> Result<(), Failure> {
        for act in &self.case.acts {
            act.played(namespace, table, &self.case, &mut self.voice)?;
        }
        if self.case.answer == Answer::Up {
            let last = table.octets("ANNOUNCE_LAST", &self.case, 0)?;
            self.voice.say(&last)?;
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

    /// Nothing else may be counted either: a good row counts nothing.
    fn compare_counts(&mut self, actual: &BTreeMap<Ipv4Addr, counters::Counted>) {
        if self.counts_differ(actual) {
            let _ = writeln!(self.wrong, "expected: {:?}", self.case.counts);
            let _ = writeln!(self.wrong, "actual:   {:?}", self.counts_in(actual));
        }
    }

    fn counts_differ(&self, actual: &BTreeMap<Ipv4Addr, counters::Counted>) -> bool {
        let expected = self.case.counts.as_ref();
        expected.is_some_and(|expected| *expected != self.counts_in(actual))
    }

    fn counts_in(&self, actual: &BTreeMap<Ipv4Addr, counters::Counted>) -> Counts {
        let replica = actual.get(self.case.to.ip());
        let counts = replica.and_then(|counted| counted.get(&self.case.own.to_string()));
        counts.cloned().unwrap_or_default()
    }
}

/// Those whose own OPEN began a session, and those who said why they ended one.
fn named(rows: &[Played]) -> Vec<(Ipv4Addr, Ipv4Addr)> {
    let cases = rows.iter().map(|row| &row.case);
    let told = cases.filter(|case| match case.answer {
        Answer::Up => case.when == When::Connected,
        Answer::Closed => true,
        Answer::Notification(..) | Answer::Nothing | Answer::Waits | Answer::Any => false,
    });
    told.map(|case| (case.own, *case.to.ip())).collect()
}

/// Those of whom something is to be counted, with the replica that does.
fn countable(rows: &[Played]) -> Vec<(Ipv4Addr, Ipv4Addr, &Counts)> {
    let cases = rows.iter().map(|row| &row.case);
    cases
        .filter_map(|case| Some((case.own, *case.to.ip(), case.counts.as_ref()?)))
        .collect()
}

/// What all replicas count, once it is as expected or it took too long.
fn counted(lab: &Lab, rows: &[Played]) -> Result<BTreeMap<Ipv4Addr, counters::Counted>, Failure> {
    let deadline = clock::deadline(SETTLED / 3);
    loop {
        let mut actual = BTreeMap::new();
        for (_, address) in REPLICAS {
            actual.insert(address, counters::at(lab, address)?);
        }
        if !rows.iter().any(|row| row.counts_differ(&actual)) || Instant::now() > deadline {
            return Ok(actual);
        }
        clock::pause(Duration::from_millis(200))?;
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
        let of = |key: &String| format!("{key}, {} paths", REPLICAS.len());
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
