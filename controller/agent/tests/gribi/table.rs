//! The tables of gRIBI cases, as files that another language runs too. Knows their form, and not what a line means.

/// A short name, and what is said and answered.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) lines: Vec<&'static str>,
}

/// The cases of gRIBI's own compliance suite.
pub(crate) fn compliance() -> Vec<Case> {
    read(include_str!("compliance.txt"))
}

/// The cases of both tables.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = compliance();
    cases.extend(read(include_str!("cases.txt")));
    cases
}

fn read(text: &'static str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').expect("a name in brackets");
            let lines = Vec::new();
            cases.push(Case { name, lines });
        } else if !line.is_empty() {
            let case = cases.last_mut().expect("a name before the first line");
            case.lines.push(line);
        }
    }
    cases
}
