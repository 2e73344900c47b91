//! The words of a story: what a step may be, as its file writes it. It does not know how one is taken.

use nix::sys::signal::Signal;
use serde::Deserialize;

use super::{expectation::Expectation, table::Table};
use crate::{sabotage::Break, speakers::Suite};

/// One step; as YAML a map with this one key.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// A check: a question, and what the answer must be within a time.
    Ask(Ask),
    /// Commands that must succeed, in order; those that do not are tried again for a while.
    Run(Run),
    /// Starts a program that goes on until `stop`.
    Watch(Watch),
    /// A check: ends a watching program, and looks at all that it said.
    Stop(Stop),
    /// Ends programs of a node with a signal.
    End(Programs),
    /// Starts the programs of a node that do not run.
    Start(Programs),
    /// Stops programs of a node where they stand.
    Freeze(Programs),
    /// Lets them go on.
    Thaw(Programs),
    /// Waits.
    Pause(f64),
    /// A check: the table of speakers is complete; it is printed.
    Table(Table),
    /// Takes steps several times, and prints of each check how often it held and how long it took.
    Repeat(Repeat),
    /// Steps of the long form.
    Long(Vec<Self>),
    /// Steps of the short form.
    Short(Vec<Self>),
    /// Steps that a broken run does not take, or takes others for.
    Break(Broken),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Broken {
    pub(super) kind: Break,
    /// Taken unless `--break` names the kind.
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    /// Taken if it does.
    #[serde(default)]
    pub(super) instead: Vec<Step>,
}

impl Step {
    /// The steps inside a step.
    pub(super) fn inner(&self) -> impl Iterator<Item = &Self> {
        let [first, second]: [&[Self]; 2] = match self {
            Self::Repeat(repeat) => [&repeat.steps, &[]],
            Self::Long(steps) | Self::Short(steps) => [steps, &[]],
            Self::Break(broken) => [&broken.steps, &broken.instead],
            Self::Ask(_)
            | Self::Run(_)
            | Self::Watch(_)
            | Self::Stop(_)
            | Self::End(_)
            | Self::Start(_)
            | Self::Freeze(_)
            | Self::Thaw(_)
            | Self::Pause(_)
            | Self::Table(_) => [&[], &[]],
        };
        first.iter().chain(second)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Repeat {
    /// How often, unless `--runs` says otherwise.
    #[serde(default = "once")]
    pub(super) times: u32,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Ask {
    pub(super) name: String,
    pub(super) node: Nodes,
    pub(super) run: String,
    #[serde(default)]
    pub(super) expect: Vec<Expectation>,
    /// Seconds until the answer must be the right one.
    #[serde(default = "half_a_minute")]
    pub(super) within: f64,
    /// Seconds for which it must stay so from then on.
    #[serde(default, rename = "for")]
    pub(super) stays: f64,
    /// The command must fail; what it says is the answer.
    #[serde(default)]
    pub(super) fails: bool,
    /// The answer's first line is printed with the check.
    #[serde(default)]
    pub(super) shows: bool,
    /// Nodes with speakers of other suites are not asked.
    #[serde(default)]
    pub(super) speakers: Vec<Suite>,
    #[serde(default)]
    pub(super) only: Only,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Run {
    pub(super) node: Nodes,
    pub(super) run: Nodes,
    #[serde(default = "half_a_minute")]
    pub(super) within: f64,
    /// Nodes with speakers of other suites run nothing.
    #[serde(default)]
    pub(super) speakers: Vec<Suite>,
    #[serde(default)]
    pub(super) only: Only,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Watch {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) run: String,
    /// A text: the program is one that answers, is asked ten times a second, and `stop` says for how long the answer
    /// did not have this.
    pub(super) absent: Option<String>,
    #[serde(default)]
    pub(super) only: Only,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Stop {
    pub(super) name: String,
    /// The program ends by itself, before that or in the next seconds.
    #[serde(default)]
    pub(super) ends: bool,
    /// It was `ping`, and so many may be lost.
    pub(super) lost_at_most: Option<u32>,
    /// For so many seconds the text may have been absent.
    pub(super) absent_at_most: Option<f64>,
    #[serde(default)]
    pub(super) expect: Vec<Expectation>,
    #[serde(default)]
    pub(super) only: Only,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Programs {
    pub(super) node: String,
    /// One of them, by name; absent: all.
    pub(super) program: Option<String>,
    /// For `end`.
    #[serde(default)]
    pub(super) signal: How,
    #[serde(default)]
    pub(super) only: Only,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) enum How {
    #[default]
    #[serde(rename = "TERM")]
    Term,
    #[serde(rename = "KILL")]
    Kill,
    #[serde(rename = "HUP")]
    Hup,
}

/// With which reflector a step is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Only {
    #[default]
    Any,
    Weft,
}

/// One name, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Nodes {
    One(String),
    Several(Vec<String>),
}

impl Nodes {
    pub(super) fn each(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

fn once() -> u32 {
    1
}

fn half_a_minute() -> f64 {
    30.0
}

impl Programs {
    pub(super) fn program(&self) -> Option<&str> {
        self.program.as_deref()
    }

    pub(super) fn signal(&self) -> Signal {
        match self.signal {
            How::Term => Signal::SIGTERM,
            How::Kill => Signal::SIGKILL,
            How::Hup => Signal::SIGHUP,
        }
    }
}

impl std::fmt::Display for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.program {
            Some(program) => write!(f, "{program} of {}", self.node),
            None => f.write_str(&self.node),
        }
    }
}
