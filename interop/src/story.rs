//! A lab as a story: steps that ask, act and wait, read from its `expect.yaml`. What is asked and what
//! must come of it stands in the file; it does not know what any speaker is.

mod absence;
#[cfg(test)]
mod answers;
mod expectation;
mod path;
mod record;
mod step;
mod table;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use serde::Deserialize;

use crate::{
    check::Checks,
    clock,
    daemon::Daemon,
    failure::{Context, Failure},
    lab::Lab,
    sabotage::Break,
    scenario::Form,
    speakers::Suite,
    traffic,
};

use absence::Absence;
use expectation::{Memory, fill};
use record::Record;
use step::{Ask, How, Nodes, Only, Repeat, Run, Step, Stop, Watch};
use table::Table;

/// The steps of a lab, in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Story {
    steps: Vec<Step>,
}

impl Story {
    /// The story of a lab, or None where its `expect.yaml` tells of a fabric.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join("expect.yaml");
        let text = fs::read_to_string(&path).context(|| path.display().to_string())?;
        let whole: serde_json::Value =
            serde_yaml_ng::from_str(&text).context(|| path.display().to_string())?;
        let Some(steps) = whole.get("steps").and_then(serde_json::Value::as_array) else {
            return Ok(None);
        };
        let mut story = Self { steps: Vec::new() };
        for (number, step) in steps.iter().enumerate() {
            let step = serde_json::from_value(step.clone())
                .context(|| format!("{}: step {}: {step}", path.display(), number + 1))?;
            story.steps.push(step);
        }
        Ok(Some(story))
    }

    /// The breaks that its steps name.
    pub(crate) fn breaks(&self) -> Vec<Break> {
        let kinds = each(&self.steps).into_iter().filter_map(|step| match step {
            Step::Break(broken) => Some(broken.kind),
            _ => None,
        });
        kinds.collect::<BTreeSet<Break>>().into_iter().collect()
    }

    pub(crate) fn has_short_form(&self) -> bool {
        let is_of_a_form = |step: &&Step| matches!(step, Step::Long(_) | Step::Short(_));
        each(&self.steps).iter().any(is_of_a_form)
    }

    /// Takes every step of a form, or those of a broken run; what is to be repeated, so many times if `runs` is given.
    pub(crate) fn told(
        &self,
        lab: &mut Lab,
        (form, sabotage): (Form, Option<Break>),
        runs: Option<u32>,
    ) -> Result<Checks, Failure> {
        let mut teller = Teller {
            lab,
            form,
            sabotage,
            checks: Checks::default(),
            memory: Memory::new(),
            watching: Vec::new(),
            absences: Vec::new(),
            runs,
            record: Record::default(),
            counts: false,
        };
        teller.take_all(&self.steps)?;
        let Teller {
            lab, mut checks, ..
        } = teller;
        let fallen = lab.fallen();
        checks.record(
            "no program ended by itself",
            Instant::now(),
            match fallen.is_empty() {
                true => Ok("all run".to_owned()),
                false => Err(fallen.join("\n")),
            },
        );
        Ok(checks)
    }
}

/// Every step, also those inside others.
fn each(steps: &[Step]) -> Vec<&Step> {
    let mut all = Vec::new();
    for step in steps {
        all.push(step);
        all.extend(
            step.inner()
                .flat_map(|step| each(std::slice::from_ref(step))),
        );
    }
    all
}

struct Teller<'a> {
    lab: &'a mut Lab,
    form: Form,
    sabotage: Option<Break>,
    checks: Checks,
    memory: Memory,
    watching: Vec<Daemon>,
    absences: Vec<Absence>,
    runs: Option<u32>,
    record: Record,
    /// How often checks hold is counted, so that each has its time.
    counts: bool,
}

impl Teller<'_> {
    fn take_all(&mut self, steps: &[Step]) -> Result<(), Failure> {
        for step in steps {
            self.take(step)?;
            clock::go_on()?;
            if !self.lab.fallen().is_empty() {
                break; // what is left would only wait for what is gone
            }
        }
        Ok(())
    }

    fn repeat(&mut self, repeat: &Repeat) -> Result<(), Failure> {
        let times = self.runs.unwrap_or(repeat.times);
        self.record = Record::default();
        self.counts = times > 1;
        for run in 1..=times {
            println!("  run {run} of {times}");
            self.take_all(&repeat.steps)?;
        }
        print!("{}", self.record);
        self.counts = false;
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), Failure> {
        if !self.fits(step) {
            return Ok(());
        }
        match step {
            Step::Ask(ask) => {
                let nodes = self.with(&ask.speakers, &ask.node)?;
                let begin = Instant::now();
                let mut nodes = nodes.iter();
                nodes.try_for_each(|node| self.ask(ask, node, begin))
            }
            Step::Run(run) => self.run(run),
            Step::Watch(watch) => self.watch(watch),
            Step::Stop(stop) => self.stop(stop),
            Step::End(of) => {
                println!("  end   {of} with {}", of.signal());
                match of.signal {
                    How::Hup => self.lab.signal(&of.node, of.program(), of.signal()),
                    How::Term | How::Kill => {
                        self.lab.end_program(&of.node, of.program(), of.signal())
                    }
                }
            }
            Step::Start(of) => {
                println!("  start {of}");
                self.lab.start(&of.node)
            }
            Step::Freeze(of) => {
                println!("  stop  {of}");
                self.lab.signal(&of.node, of.program(), Signal::SIGSTOP)
            }
            Step::Thaw(of) => {
                println!("  go on {of}");
                self.lab.signal(&of.node, of.program(), Signal::SIGCONT)
            }
            Step::Pause(secs) => clock::pause(Duration::from_secs_f64(*secs)),
            Step::Repeat(repeat) => self.repeat(repeat),
            Step::Table(table) => self.table(table),
            Step::Long(steps) if self.form == Form::Long => self.take_all(steps),
            Step::Short(steps) if self.form == Form::Short => self.take_all(steps),
            Step::Long(_) | Step::Short(_) => Ok(()),
            Step::Break(broken) if self.sabotage == Some(broken.kind) => {
                println!("  break {:?}", broken.kind);
                self.take_all(&broken.instead)
            }
            Step::Break(broken) => self.take_all(&broken.steps),
        }
    }

    /// The nodes of a step whose speakers are of one of these suites; of any, if none is named.
    fn with(&self, suites: &[Suite], nodes: &Nodes) -> Result<Vec<String>, Failure> {
        let mut fitting = Vec::new();
        for node in nodes.each() {
            if suites.is_empty() || suites.contains(&self.lab.suite(node)?) {
                fitting.push(node.clone());
            }
        }
        Ok(fitting)
    }

    /// Whether a step is for the reflector of this run.
    fn fits(&self, step: &Step) -> bool {
        let (only, asks_weft) = match step {
            Step::Ask(ask) => (ask.only, ask.run.starts_with("weft ")),
            Step::Run(run) => {
                let lines = run.run.each();
                (run.only, lines.iter().any(|line| line.starts_with("weft ")))
            }
            Step::Watch(watch) => (watch.only, false),
            Step::Stop(stop) => (stop.only, false),
            Step::End(of) | Step::Start(of) | Step::Freeze(of) | Step::Thaw(of) => (of.only, false),
            Step::Pause(_) | Step::Repeat(_) | Step::Long(_) | Step::Short(_) | Step::Break(_) => {
                (Only::Any, false)
            }
            Step::Table(_) => (Only::Weft, true),
        };
        self.lab.programs.is_some() || (only == Only::Any && !asks_weft)
    }

    /// Asks one of the step's nodes; the step began at `begin`.
    fn ask(&mut self, ask: &Ask, node: &str, begin: Instant) -> Result<(), Failure> {
        let start = Instant::now();
        let deadline = self.deadline(ask.within);
        let line = fill(&ask.run, &self.memory);
        let answer = loop {
            match self.look(ask, node, &line)? {
                Ok(answer) => {
                    let note = match answer.lines().next() {
                        Some(first) if ask.shows => format!("{node}: {first}"),
                        Some(_) | None => node.to_owned(),
                    };
                    let stays = self.stays(ask, node, &line)?;
                    break stays.map(|()| note);
                }
                Err(difference) if self.too_late(deadline) => break Err(difference),
                Err(_) => clock::pause(BETWEEN)?,
            }
        };
        let answer = match answer {
            Ok(note) => Ok(note),
            Err(difference) => Err(format!(
                "{difference}\ncommand:  {}",
                self.lab.spelled(node, &line)?
            )),
        };
        let name = match ask.node {
            Nodes::One(_) => ask.name.clone(),
            Nodes::Several(_) => format!("{}: {node}", ask.name),
        };
        let held = self.checks.record(&name, start, answer);
        self.record.add(&name, held, begin.elapsed());
        Ok(())
    }

    fn deadline(&self, within_secs: f64) -> Instant {
        clock::deadline(Duration::from_secs_f64(match self.checks.failed {
            0 => within_secs,
            _ if self.counts => within_secs,
            _ => within_secs.min(AFTER_A_FAILURE_SECS),
        }))
    }

    /// Whether there is nothing to wait for any more.
    fn too_late(&mut self, deadline: Instant) -> bool {
        Instant::now() > deadline || !self.lab.fallen().is_empty()
    }

    /// Asks on for as long as the answer must stay.
    fn stays(&mut self, ask: &Ask, node: &str, line: &str) -> Result<Result<(), String>, Failure> {
        let start = Instant::now();
        while start.elapsed().as_secs_f64() < ask.stays {
            clock::pause(BETWEEN)?;
            if let Err(difference) = self.look(ask, node, line)? {
                let held = clock::since(start);
                return Ok(Err(format!(
                    "right for {held} only, expected {} s\n{difference}",
                    ask.stays
                )));
            }
        }
        Ok(Ok(()))
    }

    /// One question. Ok(Err): the difference.
    fn look(
        &mut self,
        ask: &Ask,
        node: &str,
        line: &str,
    ) -> Result<Result<String, String>, Failure> {
        let answer = match (self.lab.ask(node, line), ask.fails) {
            (Err(Failure::Interrupted), _) => return Err(Failure::Interrupted),
            (Ok(answer), false) => answer,
            (Err(Failure::Said(reason)), true) => reason,
            (Ok(answer), true) => {
                return Ok(Err(format!(
                    "expected: it fails\nactual:   {}",
                    answer.trim_end()
                )));
            }
            (Err(Failure::Said(reason)), false) => return Ok(Err(format!("no answer: {reason}"))),
        };
        let memory = &mut self.memory;
        let mut expectations = ask.expect.iter();
        let checked = expectations.try_for_each(|expectation| expectation.check(&answer, memory));
        Ok(checked.map(|()| answer))
    }

    /// What does not succeed in time is a failed check.
    fn run(&mut self, run: &Run) -> Result<(), Failure> {
        for node in &self.with(&run.speakers, &run.node)? {
            for line in run.run.each() {
                let line = fill(line, &self.memory);
                let start = Instant::now();
                let deadline = self.deadline(run.within);
                loop {
                    match self.lab.ask(node, &line) {
                        Ok(_) => {
                            println!("  run   {node}: {line}");
                            break;
                        }
                        Err(Failure::Said(reason)) if self.too_late(deadline) => {
                            self.checks
                                .record(&format!("{node} does {line}"), start, Err(reason));
                            break;
                        }
                        Err(Failure::Said(_)) => clock::pause(BETWEEN)?,
                        Err(Failure::Interrupted) => return Err(Failure::Interrupted),
                    }
                }
            }
        }
        Ok(())
    }

    fn watch(&mut self, watch: &Watch) -> Result<(), Failure> {
        println!("  watch {}: {}", watch.node, watch.run);
        if let Some(text) = &watch.absent {
            let line = fill(&watch.run, &self.memory);
            let question = self.lab.question(&watch.node, &line)?;
            let text = fill(text, &self.memory);
            self.absences
                .push(Absence::watch(&watch.name, text, question));
            return Ok(());
        }
        let line = fill(&watch.run, &self.memory);
        let mut daemon = self.lab.program(&watch.node, &watch.name, &line)?;
        daemon.start()?;
        self.watching.push(daemon);
        Ok(())
    }

    fn table(&mut self, table: &Table) -> Result<(), Failure> {
        let start = Instant::now();
        let answer = match table.ask(self.lab) {
            Ok(lines) => {
                lines.iter().for_each(|line| println!("{line}"));
                Ok(format!("{} of them", table.speakers.len()))
            }
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(Failure::Said(reason)) => Err(reason),
        };
        self.checks.record(&table.name, start, answer);
        Ok(())
    }

    fn stop(&mut self, stop: &Stop) -> Result<(), Failure> {
        let start = Instant::now();
        let mut absences = self.absences.iter();
        if let Some(at) = absences.position(|absence| absence.name == stop.name) {
            let absent = self.absences.remove(at).stop()?;
            let said = format!("absent for {:.1} s", absent.as_secs_f64());
            let most = stop.absent_at_most.unwrap_or(f64::INFINITY);
            let answer = match absent.as_secs_f64() <= most {
                true => Ok(said),
                false => Err(format!("expected: at most {most} s\nactual:   {said}")),
            };
            let held = self.checks.record(&stop.name, start, answer);
            self.record.add(&stop.name, held, absent);
            return Ok(());
        }
        let Some(at) = self
            .watching
            .iter()
            .position(|daemon| daemon.name == stop.name)
        else {
            return Err(Failure::new(format!("nobody watches {}", stop.name)));
        };
        let mut daemon = self.watching.remove(at);
        let until = start + ENDS_WITHIN;
        while stop.ends && daemon.running() && Instant::now() < until {
            clock::pause(BETWEEN)?;
        }
        let ended = !daemon.running();
        if !ended {
            daemon.end(Signal::SIGINT)?;
        }
        let output = daemon.output();
        let mut note = format!("{} lines", output.lines().count());
        let mut answer = stop
            .expect
            .iter()
            .try_for_each(|one| one.check(&output, &mut self.memory));
        if let (Some(most), Ok(())) = (stop.lost_at_most, &answer) {
            (note, answer) = match traffic::losses(&output) {
                Some((sent, lost)) if lost <= most => {
                    (format!("{lost} of {sent} pings lost"), Ok(()))
                }
                Some((sent, lost)) => {
                    let said =
                        format!("expected: at most {most} pings lost\nactual:   {lost} of {sent}");
                    (note, Err(said))
                }
                None => (note, Err(format!("expected: pings\nactual:   {output}"))),
            };
        }
        match (ended, stop.ends) {
            // What it did not see, it does not lack.
            (true, false) => {
                answer = Err(format!("expected: it runs\nactual:   it ended: {output}"))
            }
            (false, true) => {
                answer = Err(format!("expected: it ends\nactual:   it runs: {output}"))
            }
            (true, true) | (false, false) => {}
        }
        self.checks.record(&stop.name, start, answer.map(|()| note));
        Ok(())
    }
}

/// Often enough to measure tenths of a second; seldom enough to leave the CPU to the lab.
const BETWEEN: Duration = Duration::from_millis(100);

/// A program that has said its last word may still have to close what it opened.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Once something is broken, waiting does not mend it.
const AFTER_A_FAILURE_SECS: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::table::Speaker;
    use super::*;

    #[test]
    fn every_story_in_the_tree_parses_and_names_nodes_of_its_topology() {
        for lab in crate::scenario::names().unwrap() {
            let folder = crate::scenario::folder(&lab);
            if !folder.join("expect.yaml").is_file() {
                continue;
            }
            let topology =
                crate::topology::Topology::read(&crate::scenario::topology_file(&lab)).unwrap();
            let Some(story) = Story::read(&folder).unwrap() else {
                continue;
            };
            for step in each(&story.steps) {
                let nodes = match step {
                    Step::Ask(ask) => ask.node.each(),
                    Step::Run(run) => run.node.each(),
                    Step::Watch(watch) => std::slice::from_ref(&watch.node),
                    Step::End(of) | Step::Start(of) | Step::Freeze(of) | Step::Thaw(of) => {
                        std::slice::from_ref(&of.node)
                    }
                    Step::Stop(_)
                    | Step::Pause(_)
                    | Step::Repeat(_)
                    | Step::Long(_)
                    | Step::Short(_)
                    | Step::Break(_) => &[],
                    Step::Table(table) => std::slice::from_ref(&table.node),
                };
                for node in nodes {
                    assert!(topology.nodes.contains_key(node), "{lab}: {step:?}");
                }
            }
        }
    }

    /// What labs declare of their speakers stands in this room's README too, in the same order.
    #[test]
    fn the_table_of_speakers_is_in_the_readme() {
        let readme = crate::programs::root().join("interop/README.md");
        let readme = fs::read_to_string(readme).unwrap();
        let behind = readme.split_once(table::HEADER).unwrap().1;
        let mut rows = behind
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with("| "));
        let labs = crate::scenario::names().unwrap();
        for lab in &labs {
            let folder = crate::scenario::folder(lab);
            let story = match folder.join("expect.yaml").is_file() {
                true => Story::read(&folder).unwrap(),
                false => None,
            };
            let steps = story.iter().flat_map(|story| each(&story.steps));
            let tables = steps.filter_map(|step| match step {
                Step::Table(table) => Some(table),
                _ => None,
            });
            for (speaker, wrong, shown_by) in
                tables.flat_map(|it| &it.speakers).map(Speaker::declared)
            {
                let row = rows.next().unwrap();
                let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
                assert!(cells[0].starts_with(&format!("{speaker} ")), "{row}");
                assert_eq!(cells[5], wrong, "{row}");
                for lab in shown_by {
                    assert!(
                        labs.contains(lab) && cells[6].contains(&format!("[{lab}]")),
                        "{row}"
                    );
                }
            }
        }
        assert_eq!(rows.next(), None);
    }

    #[test]
    fn paths_into_answers_of_weft_lead_to_fields_of_its_messages() {
        let mut followed = 0;
        for lab in crate::scenario::names().unwrap() {
            let folder = crate::scenario::folder(&lab);
            if !folder.join("expect.yaml").is_file() {
                continue;
            }
            let story = Story::read(&folder).unwrap();
            for step in story.iter().flat_map(|story| each(&story.steps)) {
                let Step::Ask(ask) = step else { continue };
                if ask.run.starts_with("weft ") {
                    let held = answers::check(&ask.run, &ask.expect);
                    followed += held.unwrap_or_else(|why| panic!("{lab}: {}: {why}", ask.name));
                }
            }
        }
        assert!(followed > 100, "only {followed} paths were followed");
    }
}
