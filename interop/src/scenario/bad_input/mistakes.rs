//! `mistakes.yaml`: files and questions that are wrong, and what their author is told.

use std::{fs, time::Instant};

use serde::Deserialize;

use super::REPLICAS;
use crate::{
    check::Checks,
    clock, command,
    failure::{Context, Failure},
    lab::Lab,
    weft::Client,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistakes {
    configurations: Vec<Mistake>,
    fabrics: Vec<Mistake>,
    /// What is declared while `jobs` are tried.
    job: String,
    jobs: Vec<Mistake>,
    questions: Vec<Question>,
}

/// A file that is wrong.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    name: String,
    file: String,
    says: Vec<String>,
}

/// A question that is wrong.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    name: String,
    ask: String,
    says: Vec<String>,
}

/// Makes every mistake of the file.
pub(super) fn made(lab: &Lab, checks: &mut Checks) -> Result<(), Failure> {
    let path = lab.files.join("mistakes.yaml");
    let text = fs::read_to_string(&path).context(|| path.display().to_string())?;
    let mistakes: Mistakes =
        serde_yaml_ng::from_str(&text).context(|| path.display().to_string())?;
    let (node, address) = REPLICAS[1];
    let client = Client::of(lab, node, &address.to_string())?;
    let weftd = match &lab.programs {
        Some(programs) => programs.path("weftd")?,
        None => return Ok(()),
    };
    for mistake in &mistakes.configurations {
        let file = written(lab, "mistake.toml", &mistake.file)?;
        let told = lab.run(node, &[&weftd, "--check", &file]);
        mistake.judge(
            &format!("weftd --check: {}", mistake.name),
            &file,
            told,
            checks,
        )?;
    }
    let declare = Declare {
        lab,
        client: &client,
        verb: &["fabric", "apply"],
    };
    let fabric = client.text(FABRIC)?;
    declare.judge(&mistakes.fabrics, checks)?;
    let file = written(lab, "job.yaml", &mistakes.job)?;
    client.text(&["job", "apply", &file])?;
    let declare = Declare {
        verb: &["job", "apply"],
        ..declare
    };
    let jobs = client.text(JOBS)?;
    declare.judge(&mistakes.jobs, checks)?;
    for question in &mistakes.questions {
        let words = command::words(&question.ask)?;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let start = Instant::now();
        let told = refusal(&question.says, client.text(&words))?;
        let name = format!("weft {}: {}", question.ask, question.name);
        checks.record(&name, start, told);
    }
    for (words, before) in [(FABRIC, fabric), (JOBS, jobs)] {
        let start = Instant::now();
        let after = client.text(words)?;
        let unchanged = match before == after {
            true => Ok(format!("{} octets", after.len())),
            false => Err(format!("expected: {before}\nactual:   {after}")),
        };
        let name = format!("weft {} is as it was", words.join(" "));
        checks.record(&name, start, unchanged);
    }
    client.text(&["job", "delete", "first"])?;
    Ok(())
}

/// What no mistake may change.
const FABRIC: &[&str] = &["fabric", "show", "-o", "yaml"];
const JOBS: &[&str] = &["job", "list", "-o", "yaml"];

/// Files that declare something with `weft VERB FILE`.
struct Declare<'a> {
    lab: &'a Lab,
    client: &'a Client<'a>,
    verb: &'a [&'a str],
}

impl Declare<'_> {
    /// Each file is refused.
    fn judge(&self, mistakes: &[Mistake], checks: &mut Checks) -> Result<(), Failure> {
        for mistake in mistakes {
            let file = written(self.lab, "mistake.yaml", &mistake.file)?;
            let told = self.client.text(&[self.verb, &[file.as_str()]].concat());
            let name = format!("weft {}: {}", self.verb.join(" "), mistake.name);
            mistake.judge(&name, &file, told, checks)?;
        }
        Ok(())
    }
}

impl Mistake {
    fn judge(
        &self,
        name: &str,
        file: &str,
        told: Result<String, Failure>,
        checks: &mut Checks,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        let says: Vec<String> = self
            .says
            .iter()
            .map(|part| part.replace("FILE", file))
            .collect();
        checks.record(name, start, refusal(&says, told)?);
        Ok(())
    }
}

/// A refusal with exit code 1 that has all the parts. Ok: what was said.
pub(super) fn refusal(
    says: &[String],
    told: Result<String, Failure>,
) -> Result<Result<String, String>, Failure> {
    clock::go_on()?;
    let said = match told {
        Ok(said) => return Ok(Err(format!("expected: a refusal\nactual:   {said}"))),
        Err(Failure::Interrupted) => return Err(Failure::Interrupted),
        Err(Failure::Said(said)) => said,
    };
    let code = "ended with exit status: 1: ";
    let Some((_, message)) = said.split_once(code) else {
        return Ok(Err(format!("expected: exit code 1\nactual:   {said}")));
    };
    let missing: Vec<&String> = says
        .iter()
        .filter(|part| !message.contains(*part))
        .collect();
    Ok(match missing.is_empty() {
        true => Ok(message.split_whitespace().collect::<Vec<_>>().join(" ")),
        false => Err(format!(
            "expected: a message with {missing:?}\nactual:   {message}"
        )),
    })
}

fn written(lab: &Lab, name: &str, text: &str) -> Result<String, Failure> {
    let path = lab.folder().join(name);
    fs::write(&path, text).context(|| path.display().to_string())?;
    Ok(path.display().to_string())
}
