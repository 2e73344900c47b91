//! What is printed of a value may be written into the file, and means the same there.

use super::super::settings;
use super::parse;
use crate::config::PeerGroup;

#[test]
fn every_default_of_a_group_is_printed_as_it_may_be_written() {
    let defaults = PeerGroup::new("a".to_owned());
    for setting in settings::of_group(&defaults) {
        let (knob, value) = (setting.knob, setting.value);
        let text = format!("[[bgp.peer_group]]\nname = \"a\"\n{knob} = {value}\n");
        let config = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(config.bgp.groups["a"], defaults, "{text}");
    }
}

#[test]
fn every_default_of_the_daemon_is_printed_as_it_may_be_written() {
    let defaults = parse("").unwrap();
    for (table, setting) in settings::of_daemon(&defaults) {
        let (knob, value) = (setting.knob, setting.value);
        let text = match table {
            "weftd" => format!("{knob} = {value}\n"),
            table => format!("[{table}]\n{knob} = {value}\n"),
        };
        let config = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(config, defaults, "{text}");
    }
}
