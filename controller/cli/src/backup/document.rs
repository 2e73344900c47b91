//! The file of a backup: YAML with the messages of the API by the names of their fields, and counts at its end, by which a file that is
//! cut short is recognised. Knows no replica.
//!
//! ```yaml
//! weft_backup: 1
//! display_name: pod-1
//! generation: 42
//! default_balance_mode: BALANCE_MODE_SHADOW
//! leaf_balances: [...]
//! switches: [...]
//! hosts: [...]
//! links: [...]
//! host_ports: [...]
//! jobs: [...]
//! end:
//!   leaf_balances: 1
//!   ...
//! ```

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use weft_proto::json::{self, Brief};
use weft_proto::v1 as proto;

use super::Backup;
use crate::fault::Fault;
use crate::job::declared;
use crate::output::{self, Format};

impl Backup {
    /// Writes the file.
    pub(super) fn text(&self) -> std::io::Result<Vec<u8>> {
        let fabric = &self.fabric;
        let document = Document {
            weft_backup: FORMAT,
            display_name: &fabric.display_name,
            generation: self.generation,
            default_balance_mode: self.default_mode.as_str_name(),
            leaf_balances: briefs("weft.v1.LeafBalance", &self.leaf_balances),
            switches: briefs("weft.v1.Switch", &fabric.switches),
            hosts: briefs("weft.v1.Host", &fabric.hosts),
            links: briefs("weft.v1.Link", &fabric.links),
            host_ports: briefs("weft.v1.HostPort", &fabric.host_ports),
            jobs: briefs("weft.v1.Job", &self.jobs),
            end: self.counts(),
        };
        let mut text = b"# Restore with `weft backup restore FILE`.\n".to_vec();
        output::object(&mut text, Format::Yaml, &document)?;
        Ok(text)
    }

    /// Reads a file, of which nothing may be missing.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        check_format(text)?;
        let end = end(text).ok_or_else(|| Fault::whole(CUT_SHORT))?;
        // Of two fields of one name, a message would have the last.
        serde_yaml_ng::from_str::<serde_yaml_ng::Value>(text)?;
        let document = serde_yaml_ng::Deserializer::from_str(text);
        let backup = document.deserialize_map(Reader);
        let mut backup = backup.map_err(|error| Fault::from(error).in_words(in_words))?;
        if backup.fabric.display_name.is_empty() && !backup.names_no_resource() {
            return Err(Fault::missing("display_name"));
        }
        let (stated, found) = (end.rows(), backup.counts().rows());
        let mut rows = stated.iter().zip(found);
        if let Some(((name, stated), (_, found))) =
            rows.find(|((_, stated), (_, found))| stated != found)
        {
            let reason = format!(
                "`end` states {stated} {name}, and the file has {found}: {CUT_SHORT}, or edited without its `end`"
            );
            return Err(Fault::whole(reason));
        }
        if let Some(leaf) = backup.lost_leaf() {
            let reason = format!("`leaf_balances` names {leaf:?}, which is no leaf of the file");
            return Err(Fault::whole(reason));
        }
        backup.normalize();
        Ok(backup)
    }

    fn counts(&self) -> Counts {
        let fabric = &self.fabric;
        Counts {
            leaf_balances: self.leaf_balances.len(),
            switches: fabric.switches.len(),
            hosts: fabric.hosts.len(),
            links: fabric.links.len(),
            host_ports: fabric.host_ports.len(),
            jobs: self.jobs.len(),
        }
    }
}

/// The file, in the order of its fields.
#[derive(Serialize)]
struct Document<'a> {
    weft_backup: u32,
    display_name: &'a str,
    generation: u64,
    default_balance_mode: &'a str,
    leaf_balances: Vec<Brief>,
    switches: Vec<Brief>,
    hosts: Vec<Brief>,
    links: Vec<Brief>,
    host_ports: Vec<Brief>,
    jobs: Vec<Brief>,
    end: Counts,
}

/// How many messages of each kind a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    leaf_balances: usize,
    switches: usize,
    hosts: usize,
    links: usize,
    host_ports: usize,
    jobs: usize,
}

impl Counts {
    fn rows(self) -> [(&'static str, usize); 6] {
        [
            ("leaf_balances", self.leaf_balances),
            ("switches", self.switches),
            ("hosts", self.hosts),
            ("links", self.links),
            ("host_ports", self.host_ports),
            ("jobs", self.jobs),
        ]
    }
}

fn briefs<M: prost::Message>(name: &str, messages: &[M]) -> Vec<Brief> {
    let briefs = messages.iter().map(|message| json::brief(name, message));
    let briefs = briefs.map(|it| it.expect("the descriptors have every message of a backup"));
    briefs.collect()
}

/// Checks that a text is a backup of a format that this program reads.
fn check_format(text: &str) -> Result<(), Fault> {
    let mut lines = text.lines().map(str::trim_end);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#') && *line != "---");
    let format = first.and_then(|line| line.strip_prefix("weft_backup:"));
    let format = format.and_then(|it| it.trim().parse::<u64>().ok());
    match format {
        Some(format) if format == u64::from(FORMAT) => Ok(()),
        Some(format) if format > u64::from(FORMAT) => Err(Fault::whole(format!(
            "is of backup format {format}, of a later release; this program reads format {FORMAT}: use the `weft` of that release"
        ))),
        Some(_) | None => Err(Fault::whole(
            "is no backup: it does not begin with `weft_backup: 1`, as `weft backup save` writes it",
        )),
    }
}

/// Reads the counts at the end of a text. None: the text is cut short.
fn end(text: &str) -> Option<Counts> {
    let (_, end) = text.rsplit_once("\nend:\n")?;
    serde_yaml_ng::from_str(end).ok()
}

/// A reason of the reader of messages in words for people.
fn in_words(reason: &str) -> Option<String> {
    let root = match reason.split(['[', ':']).next() {
        Some("jobs") => "weft.v1.ListJobsResponse",
        Some("leaf_balances") => "weft.v1.ListLeafBalancesResponse",
        Some(_) | None => "weft.v1.Fabric",
    };
    declared::in_words(reason, root)
}

/// Reads the fields of a file.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Backup;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the fields of a backup")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Backup, A::Error> {
        let mut backup = Backup::default();
        let mut found = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let fabric = &mut backup.fabric;
            match key.as_str() {
                "weft_backup" => drop(map.next_value::<u32>()?),
                "display_name" => fabric.display_name = map.next_value()?,
                "generation" => backup.generation = map.next_value()?,
                "default_balance_mode" => {
                    let mode = map.next_value::<String>()?;
                    backup.default_mode = proto::BalanceMode::from_str_name(&mode)
                        .filter(|mode| *mode != proto::BalanceMode::Unspecified)
                        .ok_or_else(|| A::Error::unknown_variant(&mode, MODES))?;
                }
                "leaf_balances" => {
                    let seed = Messages::new("weft.v1.LeafBalance");
                    backup.leaf_balances = map.next_value_seed(seed)?;
                }
                "switches" => {
                    fabric.switches = map.next_value_seed(Messages::new("weft.v1.Switch"))?;
                }
                "hosts" => fabric.hosts = map.next_value_seed(Messages::new("weft.v1.Host"))?,
                "links" => fabric.links = map.next_value_seed(Messages::new("weft.v1.Link"))?,
                "host_ports" => {
                    fabric.host_ports = map.next_value_seed(Messages::new("weft.v1.HostPort"))?;
                }
                "jobs" => backup.jobs = map.next_value_seed(Messages::new("weft.v1.Job"))?,
                "end" => drop(map.next_value::<Counts>()?),
                other => return Err(Error::unknown_field(other, FIELDS)),
            }
            found.push(key);
        }
        let missing = FIELDS
            .iter()
            .find(|it| !found.iter().any(|key| key == **it));
        match missing {
            Some(field) => Err(Error::missing_field(field)),
            None => Ok(backup),
        }
    }
}

/// Reads a list of messages of one type.
struct Messages<M> {
    name: &'static str,
    kind: PhantomData<M>,
}

impl<M> Messages<M> {
    fn new(name: &'static str) -> Self {
        let kind = PhantomData;
        Self { name, kind }
    }
}

impl<'de, M: prost::Message + Default> DeserializeSeed<'de> for Messages<M> {
    type Value = Vec<M>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<M>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, M: prost::Message + Default> Visitor<'de> for Messages<M> {
    type Value = Vec<M>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.name)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<M>, A::Error> {
        let kind = json::descriptor(self.name);
        let kind = kind.expect("the descriptors have every message of a backup");
        let mut messages = Vec::new();
        while let Some(message) = list.next_element_seed(kind.clone())? {
            let message = message.transcode_to::<M>();
            messages.push(message.map_err(A::Error::custom)?);
        }
        Ok(messages)
    }
}

/// Format that this program writes and reads.
const FORMAT: u32 = 1;
const CUT_SHORT: &str = "it was cut short";
const FIELDS: &[&str] = &[
    "weft_backup",
    "display_name",
    "generation",
    "default_balance_mode",
    "leaf_balances",
    "switches",
    "hosts",
    "links",
    "host_ports",
    "jobs",
    "end",
];
const MODES: &[&str] = &["BALANCE_MODE_OFF", "BALANCE_MODE_SHADOW", "BALANCE_MODE_ON"];

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn backup() -> Backup {
        let end = |switch: &str| proto::LinkEnd {
            switch_name: switch.to_owned(),
            interface_name: "eth1".to_owned(),
            ..proto::LinkEnd::default()
        };
        let switch = |name: &str, role: proto::SwitchRole| proto::Switch {
            name: name.to_owned(),
            role: role.into(),
            labels: [("rack".to_owned(), "10:20".to_owned())].into(),
            etag: "1".to_owned(),
            ..proto::Switch::default()
        };
        let down = proto::Switch {
            admin_state: proto::AdminState::Down.into(),
            ..switch("spine1", proto::SwitchRole::Spine)
        };
        let link = proto::Link {
            name: "leaf1:eth1--spine1:eth1".to_owned(),
            a: Some(end("leaf1")),
            b: Some(end("spine1")),
            capacity_bps: u64::MAX,
            ..proto::Link::default()
        };
        let job = proto::Job {
            name: "train1".to_owned(),
            expire_time: Some(Timestamp {
                seconds: 4_000_000_000,
                nanos: 5,
            }),
            host_names: vec!["h1".to_owned()],
            ..proto::Job::default()
        };
        let mut backup = Backup {
            fabric: proto::Fabric {
                display_name: "pod: 1".to_owned(),
                switches: vec![switch("leaf1", proto::SwitchRole::Leaf), down],
                links: vec![link],
                ..proto::Fabric::default()
            },
            generation: 42,
            default_mode: proto::BalanceMode::Shadow,
            leaf_balances: vec![proto::LeafBalance {
                leaf_name: "leaf1".to_owned(),
                mode: proto::BalanceMode::On.into(),
                has_own_mode: true,
                ..proto::LeafBalance::default()
            }],
            jobs: vec![job; 12],
        };
        backup.normalize();
        backup
    }

    fn text() -> String {
        String::from_utf8(backup().text().unwrap()).unwrap()
    }

    fn fault(text: &str) -> String {
        Backup::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_comes_back_as_it_was_written() {
        let text = text();
        assert_eq!(Backup::parse(&text).unwrap(), backup());
        assert!(text.contains("admin_state: ADMIN_STATE_UP"), "{text}");
        assert!(text.contains("admin_state: ADMIN_STATE_DOWN"), "{text}");
        assert!(
            !text.contains("etag") && !text.contains("pod: ''"),
            "{text}"
        );
        assert!(text.ends_with("\n  jobs: 12\n"), "{text}");
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_refused() {
        let text = text();
        let begin = text.find("display_name").unwrap();
        // Only the end of the last line may be missing.
        for length in begin..text.len() - 1 {
            let said = fault(&text[..length]);
            assert!(said.contains("it was cut short"), "{length}: {said}");
        }
        assert!(Backup::parse(text.trim_end()).is_ok());
        for length in 0..begin {
            Backup::parse(&text[..length]).unwrap_err();
        }
    }

    #[test]
    fn a_mode_of_what_is_no_leaf_is_refused() {
        for name in ["spine1", "leaf9"] {
            let said = fault(&text().replace("leaf_name: leaf1", &format!("leaf_name: {name}")));
            assert!(said.contains("is no leaf of the file"), "{said}");
        }
    }

    #[test]
    fn another_file_is_refused_by_what_it_is() {
        let later = text().replace("weft_backup: 1", "weft_backup: 2\nnew_field: 1");
        let said = fault(&later);
        assert!(
            said.contains("backup format 2, of a later release"),
            "{said}"
        );
        for garbage in [
            "",
            "{",
            "name: a\nswitches: []\n",
            "\u{7f}ELF",
            "weft_backup: x",
        ] {
            let said = fault(garbage);
            assert!(said.contains("is no backup"), "{said}");
        }
    }

    #[test]
    fn a_field_that_is_not_known_is_refused_with_its_place() {
        let unknown = text().replace("  name: leaf1\n", "  name: leaf1\n  colour: red\n");
        let unknown = unknown.replace("- name: leaf1\n", "- name: leaf1\n  colour: red\n");
        let said = fault(&unknown);
        assert!(
            said.contains("switches[0]: unknown field `colour`, expected one of `name`, `role`"),
            "{said}"
        );
        let place = said.split(':').nth(1).unwrap();
        assert!(place.parse::<u32>().is_ok(), "{said}");
        let said = fault(&text().replace("jobs:\n-", "job: []\njobs:\n-"));
        assert!(
            said.contains("unknown field `job`, expected one of `weft_backup`"),
            "{said}"
        );
        let said = fault(&text().replace("SWITCH_ROLE_LEAF", "LEAF"));
        assert!(
            said.contains("unknown value `LEAF`, expected one of `SWITCH_ROLE_LEAF`"),
            "{said}"
        );
        let said = fault(&text().replace("MODE_SHADOW", "MODE_SOME"));
        assert!(said.contains("BALANCE_MODE_SOME"), "{said}");
    }

    #[test]
    fn a_state_that_is_left_out_is_up() {
        let text = text().replace("  admin_state: ADMIN_STATE_UP\n", "");
        assert_eq!(Backup::parse(&text).unwrap(), backup());
    }
}
