//! A job as a file declares it, in YAML or JSON: the API's message Job, by the names of its fields. Whether the job makes sense is
//! for the replicas to say.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeSeed;
use serde_yaml_ng::{Deserializer, Value};
use weft_proto::v1 as proto;

use crate::failure::Failure;
use crate::fault::Fault;

/// What the file is called, and the job that it declares. `input` stands behind the name `-`.
pub(crate) fn read(file: &Path, input: &mut dyn Read) -> Result<(String, proto::Job), Failure> {
    let is_input = file == Path::new("-");
    let name = match is_input {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    };
    let mut text = String::new();
    let read = match is_input {
        true => input.read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|error| Failure::Refused(format!("{name}: {error}")))?;
    match parse(&text) {
        Ok(job) => Ok((name, job)),
        Err(fault) => Err(Failure::Refused(format!("{name}{fault}"))),
    }
}

/// Reads YAML, of which JSON is a part.
fn parse(text: &str) -> Result<proto::Job, Fault> {
    // Of two fields of one name, the message would have the last.
    serde_yaml_ng::from_str::<Value>(text)?;
    let kind = weft_proto::json::descriptor(JOB);
    let kind = kind.expect("the descriptors have every message");
    let message = kind.deserialize(Deserializer::from_str(text));
    let words = |reason: &str| in_words(reason, JOB);
    let message = message.map_err(|error| Fault::from(error).in_words(words))?;
    let job = message.transcode_to::<proto::Job>();
    let job = job.expect("the descriptor is that of the message");
    match job.name.is_empty() {
        true => Err(Fault::missing("name")),
        false => Ok(job),
    }
}

/// A reason of the reader of messages in words for people, with all that could stand there; None: it is in such words. Paths begin in
/// the message `root`.
pub(crate) fn in_words(reason: &str, root: &str) -> Option<String> {
    for (said, what) in [
        ("unrecognized field name '", "field"),
        ("unrecognized enum value '", "value"),
    ] {
        if let Some((path, rest)) = reason.split_once(said) {
            let found = rest.strip_suffix('\'').unwrap_or(rest);
            let known = known(path.trim_end_matches(": "), root)?.join("`, `");
            return Some(format!(
                "{path}unknown {what} `{found}`, expected one of `{known}`"
            ));
        }
    }
    let mut words = WORDS.iter();
    words.find_map(|(said, words)| Some(format!("{}{words}", reason.strip_suffix(*said)?)))
}

/// Names of the fields of the message at a path, as in `groups[0]`, or of the values of the enum there.
fn known(path: &str, root: &str) -> Option<Vec<String>> {
    let mut message = weft_proto::json::descriptor(root)?;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let name = step.split('[').next()?;
        let field = message.get_field_by_name(name);
        let kind = field
            .or_else(|| message.get_field_by_json_name(name))?
            .kind();
        if let Some(values) = kind.as_enum() {
            let names = values.values().map(|it| it.name().to_owned());
            return Some(names.filter(|it| !it.ends_with("_UNSPECIFIED")).collect());
        }
        message = kind.as_message()?.clone();
    }
    let fields = message.fields().map(|it| it.name().to_owned());
    Some(fields.collect())
}

/// The message of a file.
const JOB: &str = "weft.v1.Job";
const NO_NUMBER: &str = "a whole number from 0 on is needed, without a unit, as in 1073741824";
const NO_SUCH_NUMBER: &str = "the number is below 0, or too large";
/// What is said of a value that is none, and the same in words for people.
const WORDS: &[(&str, &str)] = &[
    ("invalid digit found in string", NO_NUMBER),
    ("cannot parse integer from empty string", NO_NUMBER),
    ("expected integer value", NO_NUMBER),
    (
        "out of range integral type conversion attempted",
        NO_SUCH_NUMBER,
    ),
    ("number too large to fit in target type", NO_SUCH_NUMBER),
    ("float value out of range", NO_SUCH_NUMBER),
    (
        "failed to parse duration",
        "a number of seconds with an s is needed, as in 3600s",
    ),
];

#[cfg(test)]
mod tests {
    use prost_types::Duration;
    use weft_proto::v1::Collective;

    use super::*;

    const JOB: &str = "
name: train1
ttl: 3600s
ranks:
- {host_port_name: 'leaf1:eth3'}
- {address: 2001:db8::2, vni: 100}
layout: [{name: dp, degree: 2}]
groups:
- name: gradients
  collective: COLLECTIVE_ALL_REDUCE
  dimension: dp
  octets: 1073741824
labels: {team: vision}
";

    #[test]
    fn a_file_has_the_fields_of_the_message() {
        let job = parse(JOB).unwrap();
        let (seconds, nanos) = (3_600, 0);
        assert_eq!(job.ttl, Some(Duration { seconds, nanos }));
        assert_eq!(job.ranks[0].host_port_name, "leaf1:eth3");
        assert_eq!(job.ranks[1].address, "2001:db8::2");
        assert_eq!(job.ranks[1].vni, Some(100));
        assert_eq!(job.groups[0].collective(), Collective::AllReduce);
        assert_eq!(job.groups[0].octets, 1 << 30);
        assert_eq!(job.groups[0].queue_pairs, None);
        assert_eq!(job.labels["team"], "vision");
    }

    #[test]
    fn what_is_printed_can_be_applied() {
        let job = parse(JOB).unwrap();
        let object = crate::output::message("weft.v1.Job", &job);
        let yaml = serde_yaml_ng::to_string(&object).unwrap();
        assert_eq!(parse(&yaml).unwrap(), job);
        let json = serde_json::to_string_pretty(&object).unwrap();
        assert_eq!(parse(&json).unwrap(), job);
        assert_eq!(parse(&json.replace("  ", "\t")).unwrap(), job);
    }

    #[test]
    fn standard_input_has_a_name() {
        let (name, job) = read(Path::new("-"), &mut JOB.as_bytes()).unwrap();
        assert_eq!(
            (name.as_str(), job.name.as_str()),
            ("standard input", "train1")
        );
        let failure = read(Path::new("-"), &mut "nam: a".as_bytes()).unwrap_err();
        let expected = "standard input:1:1: unknown field `nam`, expected one of `name`, ";
        assert!(failure.to_string().starts_with(expected), "{failure}");
        let failure = read(Path::new("-"), &mut &b"\xff"[..]).unwrap_err();
        let expected = "standard input: stream did not contain valid UTF-8";
        assert_eq!(failure.to_string(), expected);
    }

    /// A text and what stands behind the file's name.
    const FAULTS: &[(&str, &str)] = &[
        ("", ": missing field `name`"),
        ("{}", ": missing field `name`"),
        ("name: ''", ": missing field `name`"),
        (
            "name: a\nname: b",
            ":1:1: duplicate entry with key \"name\"",
        ),
        (
            "name: a\ncolour: red",
            ":1:1: unknown field `colour`, expected one of `name`, `expire_time`, `ttl`, `host_names`, `ranks`, `layout`, `groups`, `flows`, `labels`, `etag`, `balance_mode`, `priority`",
        ),
        (
            "name: a\ngroups:\n- {name: g, octetts: 1}",
            ":3:3: groups[0]: unknown field `octetts`, expected one of `name`, `collective`, `algorithm`, `ranks`, `dimension`, `octets`, `channels`, `queue_pairs`, `overlap_set`, `pair_octets`",
        ),
        (
            "name: a\ngroups:\n- {name: g, octets: 1GiB}",
            ":3:21: groups[0].octets: a whole number from 0 on is needed, without a unit, as in 1073741824",
        ),
        (
            "name: a\ngroups:\n- {name: g, octets: -5}",
            ":3:21: groups[0].octets: the number is below 0, or too large",
        ),
        (
            "name: a\npriority: 4294967296",
            ":2:11: priority: the number is below 0, or too large",
        ),
        (
            "name: a\ngroups:\n- {name: g, collective: SUM}",
            ":3:25: groups[0].collective: unknown value `SUM`, expected one of `COLLECTIVE_ALL_REDUCE`, `COLLECTIVE_ALL_GATHER`, `COLLECTIVE_REDUCE_SCATTER`, `COLLECTIVE_ALL_TO_ALL`, `COLLECTIVE_BROADCAST`, `COLLECTIVE_REDUCE`, `COLLECTIVE_GATHER`, `COLLECTIVE_SCATTER`, `COLLECTIVE_ALL_TO_ALL_V`, `COLLECTIVE_SEND_RECEIVE`",
        ),
        (
            "name: a\nbalance_mode: on",
            ":2:15: balance_mode: unknown value `on`, expected one of `BALANCE_MODE_OFF`, `BALANCE_MODE_SHADOW`, `BALANCE_MODE_ON`",
        ),
        (
            "name: a\nttl: 3600",
            ":2:6: ttl: a number of seconds with an s is needed, as in 3600s",
        ),
        (
            "name: a\nttl: 1h",
            ":2:6: ttl: a number of seconds with an s is needed, as in 3600s",
        ),
        ("- name: a", ":1:1: invalid type: sequence, expected a map"),
        (
            "name: a\n---\nname: b",
            ": deserializing from YAML containing more than one document is not supported",
        ),
        (
            "{\"name\": \"a\",\n \"ranks\": [}",
            ":2:12: did not find expected node content, while parsing a flow node",
        ),
    ];

    #[test]
    fn every_fault_names_place_field_and_reason() {
        for (text, expected) in FAULTS {
            let fault = parse(text).unwrap_err();
            assert_eq!(fault.to_string(), *expected, "{text}");
        }
    }
}
