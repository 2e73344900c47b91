//! Running a program to its end. Long-running programs live in `daemon.rs`.

use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::failure::{Context, Failure};

/// Runs a program that answers at once, and returns what it printed. A program that hangs (because
/// what it asks was stopped) is ended after `LIMIT_SECS` and counts as failed.
pub(crate) fn answer(argv: &[&str]) -> Result<String, Failure> {
    answer_in(None, argv)
}

/// The same, in a folder.
pub(crate) fn answer_in(folder: Option<&Path>, argv: &[&str]) -> Result<String, Failure> {
    let output = output(folder, argv)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() {
        said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    }
    Err(Failure::new(format!(
        "`{}` ended with {}: {said}",
        argv.join(" "),
        output.status
    )))
}

/// Runs a program that answers at once, and returns all that it printed, errors last.
pub(crate) fn all_said_in(folder: &Path, argv: &[&str]) -> Result<String, Failure> {
    let output = output(Some(folder), argv)?;
    let [said, errors] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    Ok(said + &errors)
}

fn output(folder: Option<&Path>, argv: &[&str]) -> Result<Output, Failure> {
    let mut command = Command::new("timeout");
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    command
        .args(["-k", "1", LIMIT_SECS])
        .args(argv)
        .stdin(Stdio::null())
        .output()
        .context(|| argv.join(" "))
}

/// Runs a program whose output belongs on our own terminal. Ok(false): it said no.
pub(crate) fn show(command: &mut Command) -> Result<bool, Failure> {
    let line = format!("{command:?}");
    command
        .stdin(Stdio::null())
        .status()
        .map(|status| status.success())
        .context(|| line)
}

/// Whether a program of this name is in the PATH or in the places where Debian keeps root's programs.
pub(crate) fn exists(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin", "/usr/bin"])
        .any(|folder| Path::new(folder).join(program).is_file())
}

/// Splits a line into words as a shell does, with single and double quotes; nothing is expanded.
pub(crate) fn words(line: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Failure::new(format!("quote without an end in `{line}`")));
    }
    words.extend(word);
    Ok(words)
}

const LIMIT_SECS: &str = "20";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_a_shell_splits_it() {
        assert_eq!(
            words("ip  link 'a b' c\"d e\"f ''").unwrap(),
            ["ip", "link", "a b", "cd ef", ""]
        );
    }

    #[test]
    fn an_open_quote_is_named() {
        assert_eq!(
            words("a 'b"),
            Err(Failure::new("quote without an end in `a 'b`"))
        );
    }
}
