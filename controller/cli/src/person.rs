//! The person at the terminal, who confirms changes that delete something. Knows no command.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::Failure;
use crate::output::printable_lines;

/// Person who is asked.
pub(crate) struct Person<'a> {
    /// True if somebody types at standard input.
    is_present: bool,
    /// Source of the answer.
    input: &'a mut dyn BufRead,
    /// Place of the question.
    screen: &'a mut dyn Write,
}

impl<'a> Person<'a> {
    /// Describes a person who is present or not.
    pub(crate) fn new(
        is_present: bool,
        input: &'a mut dyn BufRead,
        screen: &'a mut dyn Write,
    ) -> Self {
        Self {
            is_present,
            input,
            screen,
        }
    }

    /// Asks whether to go on with `changes`, unless `yes` is set. Fails if the answer is not yes, and where nobody can be asked.
    pub(crate) fn confirm(
        &mut self,
        yes: bool,
        changes: &str,
        question: &str,
    ) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.is_present {
            let reason = format!(
                "{changes}\nnothing was changed: standard input is no terminal, so that nobody can be asked; repeat with --yes"
            );
            return Err(Failure::Refused(reason));
        }
        let asked = self.ask(&format!("{changes}\n{question} [y/N] "));
        let answer = asked.map_err(|error| Failure::Refused(format!("the terminal: {error}")))?;
        if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
            return Ok(());
        }
        Err(Failure::Refused("nothing was changed".to_owned()))
    }

    /// Reads standard input to its end: a file of the name `-`.
    pub(crate) fn read(&mut self) -> io::Result<String> {
        let mut text = String::new();
        self.input.read_to_string(&mut text)?;
        Ok(text)
    }

    fn ask(&mut self, text: &str) -> io::Result<String> {
        self.screen.write_all(printable_lines(text).as_bytes())?;
        self.screen.flush()?;
        let mut answer = String::new();
        self.input.read_line(&mut answer)?;
        Ok(answer)
    }
}

/// Returns true if somebody types at standard input.
pub(crate) fn is_present() -> bool {
    io::stdin().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(is_present: bool, yes: bool, answer: &str) -> (String, Result<(), Failure>) {
        let (mut input, mut screen) = (answer.as_bytes(), Vec::new());
        let mut person = Person::new(is_present, &mut input, &mut screen);
        let result = person.confirm(yes, "deletes leaf1", "Go on?");
        (String::from_utf8(screen).unwrap(), result)
    }

    #[test]
    fn only_yes_is_yes() {
        let asked = "deletes leaf1\nGo on? [y/N] ";
        for answer in ["y\n", "yes\n", "Y", " YES \n"] {
            let (screen, result) = answered(true, false, answer);
            assert!(result.is_ok(), "{answer}");
            assert_eq!(screen, asked);
        }
        for answer in ["", "\n", "n\n", "yy\n", "no\n"] {
            let failure = answered(true, false, answer).1.unwrap_err();
            assert_eq!(failure.to_string(), "nothing was changed");
        }
    }

    #[test]
    fn nobody_is_asked_with_yes_and_without_a_terminal() {
        for is_present in [true, false] {
            let (screen, result) = answered(is_present, true, "");
            assert!(screen.is_empty() && result.is_ok());
        }
        let (screen, result) = answered(false, false, "y\n");
        let failure = result.unwrap_err();
        assert_eq!((screen.as_str(), failure.exit_code()), ("", 1));
        let said = failure.to_string();
        assert!(
            said.contains("deletes leaf1") && said.contains("--yes"),
            "{said}"
        );
    }
}
