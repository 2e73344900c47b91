//! weft as an operator meets it: the command line, asked from inside the lab.

use serde_json::Value;

use crate::{
    expect::Expect,
    failure::{Context, Failure},
    lab::Lab,
};

/// The `weft` command, run at one replica against that replica.
pub(crate) struct Client<'a> {
    lab: &'a Lab,
    node: &'a str,
    program: String,
    address: String,
}

impl<'a> Client<'a> {
    /// None where FRR stands in for weft.
    pub(crate) fn at(
        lab: &'a Lab,
        expect: &Expect,
        node: &'a str,
    ) -> Result<Option<Self>, Failure> {
        if lab.programs.is_none() {
            return Ok(None);
        }
        let host = expect
            .reflectors
            .get(node)
            .ok_or_else(|| Failure::new(format!("no replica {node}")))?;
        Self::of(lab, node, &host.to_string()).map(Some)
    }

    /// The command at a node, asking the replica that is there under `host`.
    pub(crate) fn of(lab: &'a Lab, node: &'a str, host: &str) -> Result<Self, Failure> {
        let Some(programs) = &lab.programs else {
            return Err(Failure::new("no weft in a lab with another reflector"));
        };
        Ok(Self {
            lab,
            node,
            program: programs.path("weft")?,
            address: format!("{host}:{API_PORT}"),
        })
    }

    /// What `weft` prints, for a person.
    pub(crate) fn text(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut argv = vec![self.program.as_str(), "--address", &self.address];
        argv.extend(arguments);
        self.lab.run(self.node, &argv)
    }

    /// What `weft ... -o json` prints: messages of the API.
    pub(crate) fn answer(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let mut with_json = arguments.to_vec();
        with_json.extend(["-o", "json"]);
        let text = self.text(&with_json)?;
        serde_json::from_str(&text).context(|| arguments.join(" "))
    }

    /// The same of a command that lists.
    pub(crate) fn list(&self, arguments: &[&str]) -> Result<Vec<Value>, Failure> {
        match self.answer(arguments)? {
            Value::Array(messages) => Ok(messages),
            other => {
                let line = arguments.join(" ");
                Err(Failure::new(format!("`weft {line}` printed {other}")))
            }
        }
    }

    /// The line with which a person asks the same from outside of the lab.
    pub(crate) fn spelled(&self, arguments: &str) -> Result<String, Failure> {
        let namespace = &self.lab.namespace(self.node)?.0;
        Ok(format!(
            "ip netns exec {namespace} {} --address {} {arguments}",
            self.program, self.address
        ))
    }
}

/// A field as text, whether it was printed as text or as a number.
pub(crate) fn field(row: &Value, name: &str) -> String {
    match &row[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A field that counts something.
pub(crate) fn count(row: &Value, name: &str) -> Option<u64> {
    field(row, name).parse().ok()
}

const API_PORT: u16 = 7401;
