//! A switch of two interfaces and two prefixes, and what is read of it: known answers, an independent recount of what a path
//! selects, and paths of any form. Knows no kernel and no stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use tonic::Code;
use weft_proto::gnmi::typed_value::Value as Typed;
use weft_proto::gnmi::{
    Encoding, Notification, Path, PathElem, Subscription, SubscriptionList, SubscriptionMode,
};

use super::plan::{Cursor, INTERVAL_MAX, INTERVAL_MIN, SUBSCRIPTIONS_MAX};
use super::schema::templates;
use super::tree::{Beside, Neighbor, Place};
use super::{Pattern, Plan, Snapshot, Tree, Writer};
use crate::fib::Ids;
use crate::forwarding::{Counters, Interface, Member, OperStatus, Path as Hop, PauseFrames};

const BASE: u32 = 0x5700_0000;
const GROUPS: u32 = BASE + 0x0080_0000;

fn interface(index: u32, name: &str) -> Interface {
    Interface {
        index,
        name: name.into(),
        admin_up: true,
        up: true,
        oper: OperStatus::Up,
        mtu: 9000,
        counters: Counters {
            in_octets: u64::MAX,
            out_octets: 1 << 53,
            ..Counters::default()
        },
        pause: PauseFrames::default(),
    }
}

fn snapshot() -> Snapshot {
    let hop = |last: u8, interface| Hop {
        gateway: Some([192, 0, 2, last].into()),
        interface,
    };
    let member = |next_hop, weight| Member { next_hop, weight };
    let route = |text: &str| (text.parse().expect("a prefix"), GROUPS + 7);
    Snapshot {
        unix_ns: 1_700_000_000_000_000_001,
        network_instance: "DEFAULT".into(),
        interfaces: vec![interface(1, "up1"), interface(2, "up2")],
        last_changes: BTreeMap::new(),
        ids: Ids::new(BASE).expect("a range"),
        next_hops: BTreeMap::from([(BASE + 1, hop(1, 1)), (BASE + 2, hop(2, 2))]),
        groups: BTreeMap::from([(GROUPS + 7, vec![member(BASE + 1, 3), member(BASE + 2, 1)])]),
        routes: BTreeMap::from([route("203.0.113.1/32"), route("2001:db8::1/128")]),
    }
}

fn beside() -> Beside {
    Beside {
        speeds: BTreeMap::from([(1, 100_000), (2, 12_345)]),
        neighbors: vec![Neighbor {
            interface: "up1".into(),
            id: "1".into(),
            system_name: Some("spine1".into()),
            chassis_id: None,
            port_id: Some("00:00:5e:00:53:01".into()),
            port_description: Some("swp1".into()),
        }],
    }
}

fn tree() -> Tree {
    Tree::new(&snapshot(), &beside())
}

/// `/interfaces/interface[name=up1]` as elements.
fn elems(text: &str) -> Vec<PathElem> {
    let parts = text.split('/').filter(|part| !part.is_empty());
    // A prefix has a slash: `~` stands for it here.
    let elem = |part: &str| match part.split_once('[') {
        None => PathElem {
            name: part.into(),
            ..PathElem::default()
        },
        Some((name, keys)) => {
            let keys = keys.split('[').map(|key| {
                let (key, value) = key.split_once('=').expect("a key");
                let value = value.strip_suffix(']').expect("closed").replace('~', "/");
                (key.to_owned(), value)
            });
            PathElem {
                name: name.into(),
                key: keys.collect(),
            }
        }
    };
    parts.map(elem).collect()
}

fn path(text: &str) -> Path {
    Path {
        elem: elems(text),
        ..Path::default()
    }
}

fn pattern(text: &str) -> Pattern {
    Pattern::read(None, Some(&path(text))).expect(text)
}

/// A place as people write it.
fn written(place: &Place) -> String {
    let mut keys = place.keys.iter();
    let steps = place.leaf.template().steps.iter();
    let step = |step: &super::schema::Step| match step.key {
        Some(key) => format!(
            "/{}[{key}={}]",
            step.name,
            keys.next().expect("a key for each list")
        ),
        None => format!("/{}", step.name),
    };
    steps.map(step).collect()
}

fn selected(text: &str) -> BTreeSet<String> {
    let (pattern, tree) = (pattern(text), tree());
    let selected = pattern.select(&tree);
    selected.map(|(place, _)| written(place)).collect()
}

/// A path of an answer as people write it.
fn shown(path: &Path) -> String {
    let elem = |elem: &PathElem| {
        let keys = elem
            .key
            .iter()
            .map(|(key, value)| format!("[{key}={value}]"));
        format!("/{}{}", elem.name, keys.collect::<String>())
    };
    path.elem.iter().map(elem).collect()
}

/// Path and value of each update.
fn got(text: &str, encoding: Encoding) -> Result<Vec<(String, Json)>, (Code, String)> {
    let refused = |refusal: crate::refusal::Refusal| (refusal.code, refusal.text);
    let writer = Writer::new(encoding.into(), None).expect("supported");
    let pattern = Pattern::read(None, Some(&path(text))).map_err(refused)?;
    Ok(updates(&writer.node(&tree(), &pattern).map_err(refused)?))
}

fn updates(notification: &Notification) -> Vec<(String, Json)> {
    let updates = notification.update.iter().map(|update| {
        let value = update.val.clone().and_then(|typed| typed.value);
        let json = match value.expect("a value") {
            Typed::JsonVal(text) | Typed::JsonIetfVal(text) => {
                serde_json::from_slice(&text).expect("JSON")
            }
            Typed::StringVal(text) => json!(text),
            Typed::UintVal(number) => json!(number),
            other => panic!("{other:?}"),
        };
        (shown(update.path.as_ref().expect("a path")), json)
    });
    updates.collect()
}

#[test]
fn a_leaf_is_answered_by_its_value() {
    let leaf = "/interfaces/interface[name=up1]/state/oper-status";
    for encoding in [Encoding::Json, Encoding::JsonIetf, Encoding::Proto] {
        assert_eq!(got(leaf, encoding), Ok(vec![(leaf.into(), json!("UP"))]));
    }
}

#[test]
fn numbers_of_64_bits_are_strings_in_json_ietf_only() {
    let octets = "/interfaces/interface[name=up1]/state/counters/in-octets";
    let value = |encoding| got(octets, encoding).expect("there")[0].1.clone();
    assert_eq!(value(Encoding::Json), json!(u64::MAX));
    assert_eq!(value(Encoding::JsonIetf), json!("18446744073709551615"));
    assert_eq!(value(Encoding::Proto), json!(u64::MAX));
    let index = "/interfaces/interface[name=up1]/state/ifindex";
    let index = got(index, Encoding::JsonIetf).expect("there");
    assert_eq!(index[0].1, json!(1));
}

#[test]
fn a_container_is_a_subtree_with_the_names_of_rfc_7951() {
    let found = got("/interfaces/interface[name=up1]", Encoding::JsonIetf).expect("there");
    let [(at, value)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(at, "/interfaces/interface[name=up1]");
    assert_eq!(value["openconfig-interfaces:name"], "up1");
    assert_eq!(value["openconfig-interfaces:state"]["mtu"], 9000);
    let ethernet = &value["openconfig-if-ethernet:ethernet"]["state"];
    assert_eq!(ethernet["port-speed"], "openconfig-if-ethernet:SPEED_100GB");
    let plain = got("/interfaces/interface[name=up1]", Encoding::Json).expect("there");
    assert_eq!(plain[0].1["ethernet"]["state"]["port-speed"], "SPEED_100GB");
}

#[test]
fn pause_frames_are_there_where_they_are_counted_and_only_there() {
    let mut counting = snapshot();
    counting.interfaces[0].pause = PauseFrames {
        received: Some(u64::MAX),
        sent: None,
    };
    let tree = Tree::new(&counting, &Beside::default());
    let all = pattern("/interfaces/interface/ethernet");
    let found: Vec<_> = all.select(&tree).map(|(place, _)| written(place)).collect();
    let received = "/interfaces/interface[name=up1]/ethernet/state/counters/in-mac-pause-frames";
    assert_eq!(found, [received]);
    let writer = Writer::new(Encoding::JsonIetf.into(), None).expect("supported");
    let up1 = pattern("/interfaces/interface[name=up1]");
    let written = updates(&writer.node(&tree, &up1).expect("there"));
    let ethernet = &written[0].1["openconfig-if-ethernet:ethernet"]["state"];
    assert_eq!(
        ethernet,
        &json!({"counters": {"in-mac-pause-frames": u64::MAX.to_string()}})
    );
    let sent = "/interfaces/interface[name=up1]/ethernet/state/counters/out-mac-pause-frames";
    let refused = got(sent, Encoding::Json).expect_err("not counted");
    assert_eq!(refused.0, Code::NotFound);
}

#[test]
fn a_last_change_is_there_where_it_was_seen_and_is_a_number_of_64_bits() {
    let mut changed = snapshot();
    changed.last_changes = BTreeMap::from([(2, 1_700_000_000_000_000_000)]);
    let tree = Tree::new(&changed, &Beside::default());
    let all = pattern("/interfaces/interface/state/last-change");
    let places: Vec<_> = all.select(&tree).map(|(place, _)| written(place)).collect();
    let at = "/interfaces/interface[name=up2]/state/last-change";
    assert_eq!(places, [at]);
    for (encoding, value) in [
        (Encoding::JsonIetf, json!("1700000000000000000")),
        (Encoding::Proto, json!(1_700_000_000_000_000_000_u64)),
    ] {
        let writer = Writer::new(encoding.into(), None).expect("supported");
        let node = writer.node(&tree, &pattern(at)).expect("there");
        assert_eq!(updates(&node), [(at.to_owned(), value)]);
    }
}

#[test]
fn a_port_is_known_by_its_description_too() {
    let at = "/lldp/interfaces/interface[name=up1]/neighbors/neighbor[id=1]/state";
    let found = got(at, Encoding::Json).expect("there");
    assert_eq!(
        found[0].1,
        json!({"id": "1", "system-name": "spine1", "port-id": "00:00:5e:00:53:01", "port-description": "swp1"})
    );
}

#[test]
fn the_root_is_one_tree() {
    let found = got("/", Encoding::Json).expect("there");
    let [(at, value)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(at, "");
    let interfaces = value["interfaces"]["interface"].as_array();
    assert_eq!(interfaces.expect("a list").len(), 2);
    let instance = &value["network-instances"]["network-instance"][0];
    assert_eq!(instance["name"], "DEFAULT");
    let member = &instance["afts"]["next-hop-groups"]["next-hop-group"][0]["next-hops"];
    assert_eq!(member["next-hop"][0]["state"]["weight"], 3);
}

#[test]
fn a_list_without_its_key_is_answered_entry_by_entry() {
    let names = |text: &str| -> Vec<String> {
        let found = got(text, Encoding::Json).expect("there");
        found.into_iter().map(|(at, _)| at).collect()
    };
    let both = [
        "/interfaces/interface[name=up1]",
        "/interfaces/interface[name=up2]",
    ];
    assert_eq!(names("/interfaces/interface"), both);
    assert_eq!(names("/interfaces/interface[name=*]"), both);
    assert_eq!(names("/*/interface"), both);
}

#[test]
fn what_the_kernel_has_is_told_with_both_numbers() {
    let afts = "/network-instances/network-instance[name=DEFAULT]/afts";
    let value = |rest: &str| {
        let found = got(&format!("{afts}/{rest}"), Encoding::Json);
        found.expect(rest)[0].1.clone()
    };
    let prefix = "ipv4-unicast/ipv4-entry[prefix=203.0.113.1~32]/state";
    assert_eq!(
        value(prefix),
        json!({"prefix": "203.0.113.1/32", "next-hop-group": GROUPS + 7})
    );
    let group = format!("next-hop-groups/next-hop-group[id={}]", GROUPS + 7);
    assert_eq!(
        value(&format!("{group}/state")),
        json!({"id": GROUPS + 7, "programmed-id": 7})
    );
    let member = format!("{group}/next-hops/next-hop[index={}]/state", BASE + 1);
    assert_eq!(value(&member), json!({"index": BASE + 1, "weight": 3}));
    let hop = format!("next-hops/next-hop[index={}]", BASE + 2);
    assert_eq!(
        value(&hop),
        json!({
            "index": BASE + 2,
            "state": {"index": BASE + 2, "programmed-index": 2, "ip-address": "192.0.2.2"},
            "interface-ref": {"state": {"interface": "up2"}},
        })
    );
}

#[test]
fn what_the_model_has_no_room_for_is_left_out() {
    let mut odd = snapshot();
    odd.interfaces[0].mtu = 65_536;
    let tree = Tree::new(&odd, &Beside::default());
    let mtu = pattern("/interfaces/interface[name=up1]/state/mtu");
    assert_eq!(mtu.select(&tree).count(), 0);
    let speed = selected("/interfaces/interface/ethernet/state/port-speed");
    // 12,345 Mbit/s has no name.
    let only = "/interfaces/interface[name=up1]/ethernet/state/port-speed";
    assert_eq!(speed, BTreeSet::from([only.to_owned()]));
}

#[test]
fn a_path_that_is_not_of_the_schema_is_refused_by_name() {
    #[rustfmt::skip]
    let cases = [
        ("/interfaces/interfacex", Code::InvalidArgument, "/interfaces: no model that is served has \"interfacex\" here"),
        ("/interfaces/interface[name=up1]/state/oper-status/x", Code::InvalidArgument,
            "/interfaces/interface[name=up1]/state/oper-status: no model that is served has \"x\" here"),
        ("/interfaces/interface[id=up1]", Code::InvalidArgument, "/interfaces: \"interface\" has no such key: [id=up1]"),
        ("/interfaces[name=up1]", Code::InvalidArgument, "/: \"interfaces\" has no such key: [name=up1]"),
        ("/interfaces/.../oper-status", Code::Unimplemented, "/interfaces: \"...\" is not supported; \"*\" is"),
        ("/interfaces/interface[name=up9]/state", Code::NotFound, "/interfaces/interface[name=up9]/state is not there"),
    ];
    for (text, code, why) in cases {
        assert_eq!(got(text, Encoding::Json), Err((code, why.into())), "{text}");
    }
    let long = "/x".repeat(19);
    let (code, why) = got(&long, Encoding::Json).expect_err("too long");
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(why, "a path of 19 elements, at most 18");
    let wide = format!("/{}", "é".repeat(100_000));
    let (_, why) = got(&wide, Encoding::Json).expect_err("unknown");
    assert!(why.len() < 300, "{} octets", why.len());
}

#[test]
fn nothing_where_anything_would_do_is_no_error() {
    let mut empty = snapshot();
    empty.routes.clear();
    let tree = Tree::new(&empty, &beside());
    let writer = Writer::new(0, None).expect("JSON");
    let all =
        pattern("/network-instances/network-instance[name=DEFAULT]/afts/ipv4-unicast/ipv4-entry");
    assert_eq!(writer.node(&tree, &all).expect("no error").update, []);
}

#[test]
fn origins_targets_and_old_paths() {
    let read = |prefix: &Path, path: &Path| {
        let read = Pattern::read(Some(prefix), Some(path));
        read.map_err(|refusal| refusal.text)
    };
    let openconfig = Path {
        origin: "openconfig".into(),
        ..path("/interfaces")
    };
    let behind = read(&openconfig, &path("/interface/state")).expect("of the schema");
    assert_eq!(behind, pattern("/interfaces/interface/state"));
    let cli = Path {
        origin: "cli".into(),
        ..Path::default()
    };
    let why = read(&Path::default(), &cli).expect_err("no such origin");
    assert!(why.starts_with("origin \"cli\""), "{why}");
    let misplaced = Path {
        target: "leaf1".into(),
        ..Path::default()
    };
    let why = read(&Path::default(), &misplaced).expect_err("not in the prefix");
    assert!(why.contains("belongs into the prefix"), "{why}");
    let old = Path {
        element: vec!["interfaces".into()],
        ..Path::default()
    };
    assert!(read(&Path::default(), &old).is_err());
    let writer = Writer::new(0, Some(&misplaced)).expect("JSON");
    let prefix = writer.notification(1).prefix.expect("repeated");
    assert_eq!(prefix.target, "leaf1");
}

#[test]
fn other_encodings_are_not_implemented() {
    for (encoding, name) in [(1, "BYTES"), (3, "ASCII"), (9, "9")] {
        let refusal = Writer::new(encoding, None).expect_err("not supported");
        assert_eq!(refusal.code, Code::Unimplemented);
        let why = format!("encoding {name} is not supported; JSON, JSON_IETF and PROTO are");
        assert_eq!(refusal.text, why);
    }
}

fn subscription(text: &str, mode: SubscriptionMode, sample_ms: u64) -> Subscription {
    Subscription {
        path: Some(path(text)),
        mode: mode.into(),
        sample_interval: sample_ms * 1_000_000,
        ..Subscription::default()
    }
}

fn list(subscription: impl IntoIterator<Item = Subscription>) -> SubscriptionList {
    SubscriptionList {
        subscription: subscription.into_iter().collect(),
        ..SubscriptionList::default()
    }
}

fn plan(subscriptions: impl IntoIterator<Item = Subscription>) -> Plan {
    Plan::new(&list(subscriptions)).expect("of the schema")
}

/// All parts.
fn all(plan: &Plan, tree: &Tree) -> Vec<Notification> {
    let (mut from, mut all) = (Some(Cursor::default()), Vec::new());
    while let Some(cursor) = from {
        let (part, next) = plan.all(tree, cursor);
        all.extend(part);
        from = next;
    }
    all
}

/// What a stream begins with.
fn begin(plan: &mut Plan, tree: &Arc<Tree>, now: Duration) -> Vec<Notification> {
    plan.begin(tree, now);
    all(plan, tree)
}

/// What is sent: last names and values, and what is deleted.
fn sent(notifications: &[Notification]) -> Vec<String> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut sent = Vec::new();
    for notification in notifications {
        let deleted = notification.delete.iter();
        sent.extend(deleted.map(|path| format!("- {}", last(&shown(path)))));
        let updates = updates(notification).into_iter();
        sent.extend(updates.map(|(path, value)| format!("{}={value}", last(&path))));
    }
    sent
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The tree with this status and these octets of up1.
fn tree_with(oper: OperStatus, octets: u64) -> Arc<Tree> {
    let mut snapshot = snapshot();
    snapshot.interfaces[0].oper = oper;
    snapshot.interfaces[0].counters.in_octets = octets;
    Arc::new(Tree::new(&snapshot, &Beside::default()))
}

const STATE: &str = "/interfaces/interface[name=up1]/state/oper-status";
const OCTETS: &str = "/interfaces/interface[name=up1]/state/counters/in-octets";

#[test]
fn on_change_sends_everything_once_and_then_what_changes() {
    let mut plan = plan([subscription(STATE, SubscriptionMode::OnChange, 0)]);
    assert!(plan.wants_changes() && plan.next().is_none());
    let up = tree_with(OperStatus::Up, 1);
    assert_eq!(
        sent(&begin(&mut plan, &up, secs(0))),
        ["oper-status=\"UP\""]
    );
    let more = tree_with(OperStatus::Up, 2);
    assert_eq!(plan.poll(&more, secs(1)), []);
    let down = tree_with(OperStatus::LowerLayerDown, 2);
    let changed = ["oper-status=\"LOWER_LAYER_DOWN\""];
    assert_eq!(sent(&plan.poll(&down, secs(2))), changed);
    assert_eq!(plan.poll(&down, secs(3)), []);
}

#[test]
fn an_interface_that_goes_is_deleted_leaf_by_leaf() {
    let all = subscription("/interfaces/interface", SubscriptionMode::OnChange, 0);
    let mut plan = plan([all]);
    plan.begin(&tree_with(OperStatus::Up, 1), secs(0));
    let mut without = snapshot();
    without.interfaces.remove(0);
    let gone = Arc::new(Tree::new(&without, &Beside::default()));
    let sent = sent(&plan.poll(&gone, secs(1)));
    assert_eq!(
        sent.len(),
        selected("/interfaces/interface[name=up2]").len()
    );
    assert!(sent.iter().all(|it| it.starts_with("- ")), "{sent:?}");
}

#[test]
fn samples_come_by_the_clock_and_are_not_made_up_for() {
    let mut plan = plan([subscription(OCTETS, SubscriptionMode::Sample, 2_000)]);
    assert!(!plan.wants_changes());
    let tree = tree_with(OperStatus::Up, 1);
    assert_eq!(sent(&begin(&mut plan, &tree, secs(10))), ["in-octets=1"]);
    assert_eq!(plan.next(), Some(secs(12)));
    assert_eq!(plan.poll(&tree, secs(11)), []);
    assert_eq!(sent(&plan.poll(&tree, secs(12))), ["in-octets=1"]);
    assert_eq!(plan.next(), Some(secs(14)));
    // The client did not read for a while: it gets what is now, once.
    let later = tree_with(OperStatus::Up, 9);
    assert_eq!(sent(&plan.poll(&later, secs(21))), ["in-octets=9"]);
    assert_eq!(plan.next(), Some(secs(23)));
}

#[test]
fn redundant_samples_are_left_out_until_the_heartbeat() {
    let mut sampled = subscription(OCTETS, SubscriptionMode::Sample, 1_000);
    sampled.suppress_redundant = true;
    sampled.heartbeat_interval = 5_000_000_000;
    let mut plan = plan([sampled]);
    let one = tree_with(OperStatus::Up, 1);
    plan.begin(&one, secs(0));
    let counts: Vec<usize> = (1..=10)
        .map(|at| sent(&plan.poll(&one, secs(at))).len())
        .collect();
    assert_eq!(counts, [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    let two = tree_with(OperStatus::Up, 2);
    assert_eq!(sent(&plan.poll(&two, secs(11))), ["in-octets=2"]);
}

#[test]
fn a_heartbeat_repeats_what_has_not_changed() {
    let mut quiet = subscription(STATE, SubscriptionMode::OnChange, 0);
    quiet.heartbeat_interval = 3_000_000_000;
    let mut plan = plan([quiet]);
    let tree = tree_with(OperStatus::Up, 1);
    plan.begin(&tree, secs(0));
    assert_eq!(plan.next(), Some(secs(3)));
    assert_eq!(plan.poll(&tree, secs(2)), []);
    assert_eq!(sent(&plan.poll(&tree, secs(3))), ["oper-status=\"UP\""]);
    assert_eq!(plan.next(), Some(secs(6)));
}

#[test]
fn the_target_samples_counters_and_sends_state_when_it_changes() {
    let both = subscription(
        "/interfaces/interface[name=up1]/state",
        SubscriptionMode::TargetDefined,
        0,
    );
    let mut plan = plan([both]);
    plan.begin(&tree_with(OperStatus::Up, 1), secs(0));
    assert_eq!(plan.next(), Some(secs(10)));
    let down = tree_with(OperStatus::Down, 2);
    assert_eq!(sent(&plan.poll(&down, secs(1))), ["oper-status=\"DOWN\""]);
    let samples = sent(&plan.poll(&down, secs(10)));
    assert_eq!(samples.len(), 8);
    assert!(samples.contains(&"in-octets=2".to_owned()), "{samples:?}");
}

#[test]
fn updates_only_leaves_out_the_beginning() {
    let quiet = SubscriptionList {
        updates_only: true,
        ..list([subscription(STATE, SubscriptionMode::OnChange, 0)])
    };
    let mut plan = Plan::new(&quiet).expect("of the schema");
    let up = tree_with(OperStatus::Up, 1);
    assert_eq!(all(&plan, &up), []);
    assert_eq!(begin(&mut plan, &up, secs(0)), []);
    assert_eq!(
        sent(&plan.poll(&tree_with(OperStatus::Down, 1), secs(1))).len(),
        1
    );
}

#[test]
fn a_list_that_cannot_be_served_is_refused_by_the_number_of_the_subscription() {
    let why = |list: &SubscriptionList| Plan::new(list).expect_err("refused").text;
    assert_eq!(why(&list([])), "the list has no subscription");
    let good = || subscription(STATE, SubscriptionMode::Sample, 1_000);
    let many = list((0..=SUBSCRIPTIONS_MAX).map(|_| good()));
    assert_eq!(why(&many), "65 subscriptions in a list, at most 64");
    let fast = subscription(STATE, SubscriptionMode::Sample, 999);
    assert_eq!(
        why(&list([good(), fast])),
        "subscription 2: sample_interval is 999000000 ns: from 1000000000 to 86400000000000 can be done"
    );
    let heart = Subscription {
        heartbeat_interval: u64::MAX,
        ..good()
    };
    assert!(why(&list([heart])).starts_with("subscription 1: heartbeat_interval"));
    let odd = Subscription { mode: 9, ..good() };
    assert_eq!(why(&list([odd])), "subscription 1: there is no mode 9");
    assert!(INTERVAL_MIN < INTERVAL_MAX);
}

#[test]
fn many_leaves_go_in_many_notifications() {
    let mut many = snapshot();
    many.interfaces = (1..=100)
        .map(|index| interface(index, &format!("up{index}")))
        .collect();
    let tree = Tree::new(&many, &Beside::default());
    let plan = plan([subscription("/interfaces", SubscriptionMode::Sample, 0)]);
    let notifications = all(&plan, &tree);
    let counts: Vec<usize> = notifications.iter().map(|it| it.update.len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 1_500);
    assert_eq!(counts, [256, 256, 256, 256, 256, 220]);
}

#[test]
fn all_of_a_full_switch_comes_in_parts_of_bounded_size() {
    let mut full = snapshot();
    full.routes = (0..10_000_u32)
        .map(|n| {
            let prefix = format!("10.{}.{}.0/24", n >> 8, n & 0xff);
            (prefix.parse().expect("a prefix"), GROUPS + 7)
        })
        .collect();
    let tree = Tree::new(&full, &Beside::default());
    let plan = plan(
        ["/network-instances", "/interfaces"]
            .map(|text| subscription(text, SubscriptionMode::OnChange, 0)),
    );
    let (mut from, mut counts) = (Some(Cursor::default()), Vec::new());
    while let Some(cursor) = from {
        let (part, next) = plan.all(&tree, cursor);
        counts.push(part.iter().map(|it| it.update.len()).sum::<usize>());
        from = next;
    }
    // The network instance, three leaves of each prefix, 3 of the group, 3 of each member, 5 of each next hop; then 15 of each interface.
    assert_eq!(counts.iter().sum::<usize>(), 1 + 30_000 + 3 + 6 + 10 + 30);
    assert!(counts.iter().all(|count| *count <= 4096), "{counts:?}");
}

/// Whether a place is at or below a path, step by step and by its text alone.
fn is_below(place: &str, wanted: &[PathElem]) -> bool {
    let place = elems(&place.replace("1/32", "1~32").replace("1/128", "1~128"));
    let fits = |wanted: &PathElem, elem: &PathElem| {
        let named = wanted.name == "*" || wanted.name == elem.name;
        let mut keys = wanted.key.iter();
        named
            && keys.all(|(key, value)| {
                elem.key
                    .get(key)
                    .is_some_and(|it| value == "*" || it == value)
            })
    };
    place.len() >= wanted.len() && wanted.iter().zip(&place).all(|(a, b)| fits(a, b))
}

/// A path that is of the schema, with some names and keys replaced or left out.
fn of_schema() -> impl Strategy<Value = Vec<PathElem>> {
    let key = prop_oneof![
        Just("*"),
        Just("up1"),
        Just("DEFAULT"),
        Just("203.0.113.1/32"),
        Just("1"),
    ];
    let twist = (any::<bool>(), any::<bool>(), key);
    let leaf = 0..templates().count();
    let steps = proptest::collection::vec(twist, 10);
    (leaf, 0..10_usize, steps).prop_map(|(leaf, depth, twists)| {
        let template = templates().nth(leaf).expect("in range");
        let steps = template.steps.iter().zip(twists).take(depth);
        let elem =
            |(step, (any, keyed, value)): (&super::schema::Step, (bool, bool, &str))| PathElem {
                name: if any { "*".into() } else { step.name.into() },
                key: step
                    .key
                    .filter(|_| keyed)
                    .map(|key| (key.to_owned(), value.to_owned()))
                    .into_iter()
                    .collect(),
            };
        steps.map(elem).collect()
    })
}

proptest! {
    /// What a path selects is what is below it, counted by the texts of all places.
    #[test]
    fn a_path_selects_what_is_below_it(elem in of_schema()) {
        let tree = tree();
        let path = Path { elem: elem.clone(), ..Path::default() };
        let pattern = Pattern::read(None, Some(&path)).expect("of the schema");
        let found: BTreeSet<String> = pattern.select(&tree).map(|(place, _)| written(place)).collect();
        let all = selected("/");
        let below: BTreeSet<String> = all.into_iter().filter(|place| is_below(place, &elem)).collect();
        prop_assert_eq!(found, below);
    }

    /// Whatever is asked for, the answer is an answer or an error, in each encoding.
    #[test]
    fn no_path_is_too_odd(
        names in proptest::collection::vec((".{0,9}|interfaces|interface|\\*|lldp", ".{0,4}|name", ".{0,6}|\\*|up1"), 0..8),
        cut in 0..8_usize,
        encoding in -1..6_i32,
    ) {
        let elem = names.into_iter().map(|(name, key, value)| PathElem {
            name,
            key: if value.is_empty() { Default::default() } else { [(key, value)].into() },
        });
        let mut elem: Vec<PathElem> = elem.collect();
        let rest = elem.split_off(cut.min(elem.len()));
        let [prefix, path] = [elem, rest].map(|elem| Path { elem, ..Path::default() });
        if let (Ok(writer), Ok(pattern)) = (Writer::new(encoding, None), Pattern::read(Some(&prefix), Some(&path))) {
            let _answer = writer.node(&tree(), &pattern);
        }
    }

    /// What a stream was sent, put together, is what is there: whatever changed, and whenever it was looked at.
    #[test]
    fn what_was_sent_adds_up_to_what_is_there(
        steps in proptest::collection::vec((0..3_u64, 0..4_u32, 0..5_u64), 1..12),
        suppress: bool,
    ) {
        let mut sampled = subscription("/interfaces", SubscriptionMode::Sample, 1_000);
        sampled.suppress_redundant = suppress;
        let changed = subscription("/network-instances", SubscriptionMode::OnChange, 0);
        let mut plan = plan([sampled, changed]);
        let mut known = BTreeMap::new();
        let mut now = secs(0);
        let mut learn = |notifications: Vec<Notification>| {
            for notification in notifications {
                for path in &notification.delete {
                    known.remove(&shown(path));
                }
                known.extend(updates(&notification));
            }
            known.clone()
        };
        learn(begin(&mut plan, &Arc::new(tree()), now));
        for (octets, interfaces, wait) in steps {
            let mut next = snapshot();
            next.interfaces = (1..=interfaces).map(|index| interface(index, &format!("up{index}"))).collect();
            next.interfaces.iter_mut().for_each(|it| it.counters.in_octets = octets);
            if octets == 0 {
                next.routes.clear();
            }
            let tree = Arc::new(Tree::new(&next, &Beside::default()));
            now += secs(wait);
            learn(plan.poll(&tree, now));
            now += secs(1);
            let known = learn(plan.poll(&tree, now));
            let writer = Writer::new(0, None).expect("JSON");
            let both = ["/interfaces", "/network-instances"].map(pattern);
            let leaves: Vec<_> = both.iter().flat_map(|it| it.select(&tree)).collect();
            let there: BTreeMap<String, Json> = writer
                .leaves(0, &leaves, &[])
                .iter()
                .flat_map(updates)
                .collect();
            prop_assert_eq!(known, there);
        }
    }
}
