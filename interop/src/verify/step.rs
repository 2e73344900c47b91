//! The steps of `cargo verify`, in order, and when each is taken. It does not know how one is answered.

use super::{Arguments, Verification, clients, fuzz, labs, tree};
use crate::failure::Failure;

/// One question about the tree.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) asks: &'static str,
    pub(super) scope: Scope,
    needs_root: bool,
    pub(super) run: fn(&mut Verification) -> Result<(), Failure>,
}

/// When a step is taken that nobody named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// By `cargo verify`, and by `cargo verify --all`.
    Verify,
    /// By `cargo verify --all` only.
    All,
}

impl Scope {
    /// The command that takes the step.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::All => "--all",
        }
    }
}

impl Step {
    const fn verify(
        name: &'static str,
        asks: &'static str,
        run: fn(&mut Verification) -> Result<(), Failure>,
    ) -> Self {
        Self {
            name,
            asks,
            scope: Scope::Verify,
            needs_root: false,
            run,
        }
    }

    const fn all(
        name: &'static str,
        asks: &'static str,
        run: fn(&mut Verification) -> Result<(), Failure>,
    ) -> Self {
        Self {
            scope: Scope::All,
            ..Self::verify(name, asks, run)
        }
    }

    const fn needing_root(self) -> Self {
        Self {
            needs_root: true,
            ..self
        }
    }

    /// Returns true if a run with these arguments takes the step. A step that is named is taken in either scope.
    pub(super) fn is_taken(&self, arguments: &Arguments) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == self.name);
        let chosen = match arguments.only.as_slice() {
            [] => arguments.all || self.scope == Scope::Verify,
            only => named(only),
        };
        chosen && !named(&arguments.skip) && !(self.needs_root && arguments.without_root)
    }

    /// Returns true if the step runs labs.
    pub(super) fn runs_labs(&self) -> bool {
        ["labs", "long-labs", "trixie", "testing"].contains(&self.name)
    }
}

pub(super) const STEPS: [Step; 25] = [
    Step::verify("format", "cargo fmt --check", tree::format),
    Step::verify(
        "build",
        "programs, tests and what measures, all that later steps run",
        tree::build,
    ),
    Step::verify("clippy", "cargo clippy, warnings are errors", tree::clippy),
    Step::verify("test", "cargo test --workspace", tree::test),
    Step::verify("doc", "cargo doc, warnings are errors", tree::doc),
    Step::verify(
        "tidy",
        "dependency rules and the shape of files",
        tree::tidy,
    ),
    Step::verify(
        "contract",
        "buf: the form and the comments of weft.v1, and that it breaks no client of the last release",
        tree::contract,
    ),
    Step::verify(
        "licences",
        "cargo deny: licences, banned crates, sources",
        tree::licences,
    ),
    Step::verify("sim", "the simulator, 50 fixed seeds", tree::sim),
    Step::verify(
        "fuzz",
        "every fuzz target for a few seconds",
        fuzz::few_seconds,
    ),
    Step::verify(
        "watch",
        "a client follows every change while three leaders are killed",
        tree::watch,
    ),
    Step::verify(
        "last-path",
        "of the last two spines set down at once one goes down, while twenty leaders are killed",
        tree::last_path,
    ),
    Step::verify(
        "doors",
        "three attacks on the API, from one address",
        tree::doors,
    )
    .needing_root(),
    Step::verify(
        "openapi",
        "every path of /openapi.json, with what fits it and what does not",
        clients::openapi,
    ),
    Step::verify(
        "clients",
        "the Python client and its story, Go stubs that compile, and pygnmi at weft-agent",
        clients::clients,
    ),
    Step::verify(
        "gribi",
        "gRIBI's compliance cases and ours, said to weft-agent by Python's grpcio",
        clients::gribi,
    )
    .needing_root(),
    Step::verify(
        "metrics",
        "promtool: names, units and help of /metrics",
        clients::metrics,
    ),
    Step::verify("manual", "mandoc: every man page of weft", clients::manual),
    Step::verify(
        "labs",
        "every lab with the speakers of this machine, long ones in their short form",
        labs::short,
    )
    .needing_root(),
    Step::all(
        "long-sim",
        "the simulator, 1,000 further seeds",
        tree::long_sim,
    ),
    Step::all(
        "long-fuzz",
        "every fuzz target for two minutes",
        fuzz::two_minutes,
    ),
    Step::all(
        "long-doors",
        "every attack on every door, from one address, one /64 and 250 addresses",
        tree::long_doors,
    )
    .needing_root(),
    Step::all(
        "long-labs",
        "the long form of every lab that has a short one",
        labs::long,
    )
    .needing_root(),
    Step::all(
        "trixie",
        "every lab, in its long form, with the speakers of Debian 13",
        labs::trixie,
    )
    .needing_root(),
    Step::all(
        "testing",
        "every lab, in its long form, with the speakers of Debian testing",
        labs::testing,
    )
    .needing_root(),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(arguments: &Arguments) -> Vec<&'static str> {
        let steps = STEPS.iter().filter(|step| step.is_taken(arguments));
        steps.map(|step| step.name).collect()
    }

    fn named(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn verify_takes_its_steps_and_all_takes_every_one() {
        let verify = taken(&Arguments::default());
        let of_verify = STEPS.iter().filter(|step| step.scope == Scope::Verify);
        assert_eq!(verify.len(), of_verify.count());
        assert!(verify.contains(&"labs") && !verify.contains(&"long-labs"));
        let all = taken(&Arguments {
            all: true,
            ..Arguments::default()
        });
        assert_eq!(all, STEPS.map(|step| step.name));
    }

    #[test]
    fn a_step_that_is_named_is_taken_or_left_out() {
        let only = Arguments {
            only: named(&["fuzz", "long-fuzz"]),
            ..Arguments::default()
        };
        assert_eq!(taken(&only), ["fuzz", "long-fuzz"]);
        let skip = Arguments {
            all: true,
            skip: named(&["trixie"]),
            ..Arguments::default()
        };
        assert_eq!(taken(&skip).len(), STEPS.len() - 1);
    }

    #[test]
    fn without_root_nothing_makes_a_namespace() {
        let arguments = Arguments {
            all: true,
            without_root: true,
            ..Arguments::default()
        };
        let taken = taken(&arguments);
        assert!(STEPS.iter().filter(|step| step.runs_labs()).count() == 4);
        let others = ["doors", "gribi", "long-doors"];
        let making = |step: &&Step| step.runs_labs() || others.contains(&step.name);
        for step in STEPS.iter().filter(making) {
            assert!(!taken.contains(&step.name));
        }
        assert_eq!(taken.len(), STEPS.len() - 7);
    }
}
