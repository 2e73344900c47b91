//! Laws of reconciliation, over random tables, orders of answers, operations that are held and operations that fail.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use proptest::prelude::*;

use super::*;
use crate::southbound::intent::{
    Content, Flow, InterfaceName, Members, NextHop, PolicyKey, Source, Target, classes,
};

fn next_hop(last: u8) -> NextHop {
    NextHop {
        // Every fourth is known by its interface alone.
        address: (last % 4 != 3).then(|| IpAddr::from([192, 0, 2, last])),
        interface: format!("swp{last}").into(),
    }
}

fn prefix(last: u8) -> IpNet {
    IpNet::from(IpAddr::from([198, 51, 100, last]))
}

/// Flows that packets have in common, from a row of a flow on: from anywhere, from two addresses and from an interface, to one NIC by
/// two UDP source ports, to another one, and of another VNI.
fn flow(last: u8) -> Flow {
    let address = |last: u8| Source::Address(IpAddr::from([203, 0, 113, last]));
    let interface = Source::Interface(InterfaceName::from("swp1").unwrap());
    let (vni, source, to, udp_source_port) = match last - FLOWS {
        0 => (100, Source::Any, 1, None),
        1 => (100, Source::Any, 1, Some(1)),
        2 => (100, Source::Any, 1, Some(2)),
        3 => (100, address(8), 1, None),
        4 => (100, address(8), 1, Some(1)),
        5 => (100, address(9), 1, None),
        6 => (100, address(9), 1, Some(2)),
        7 => (100, interface, 1, None),
        8 => (100, interface, 1, Some(1)),
        9 => (100, interface, 0, None),
        10 => (100, Source::Any, 2, None),
        11 => (100, address(8), 2, None),
        12 => (100, interface, 2, None),
        13 => (101, Source::Any, 1, None),
        14 => (101, address(8), 1, Some(1)),
        _ => (101, interface, 0, None),
    };
    Flow {
        vni,
        source,
        destination: (to > 0).then(|| IpAddr::from([203, 0, 113, to])),
        udp_source_port,
    }
}

/// Prefixes and their members, by the last octets of the addresses; flows from [`FLOWS`] on.
type Rows = Vec<(u8, Vec<(u8, u32)>)>;

/// From here on a row is a flow.
const FLOWS: u8 = 100;

/// No row is one from here on.
const FLOWS_END: u8 = 116;

/// From here on a member is one of the backup, which flows do not have.
const BACKUP: u8 = 50;

/// What a target has: next hops and weights by value, and those of the backup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Has {
    members: BTreeMap<NextHop, u64>,
    /// None: there is none, or it is not in the forwarding plane.
    backup: Option<BTreeMap<NextHop, u64>>,
}

impl Has {
    /// As it is wanted.
    fn of(content: Content<'_>) -> Self {
        let members = |members: &Members| {
            let members = members.iter();
            members
                .map(|(next_hop, weight)| (next_hop.clone(), u64::from(*weight)))
                .collect()
        };
        Self {
            members: members(content.members),
            backup: content.backup.map(members),
        }
    }
}

fn members(row: &[(u8, u32)]) -> Arc<Members> {
    let members = row.iter().filter(|(hop, _)| *hop < BACKUP);
    Arc::new(
        members
            .map(|(hop, weight)| (next_hop(*hop), *weight))
            .collect(),
    )
}

fn backup(row: &[(u8, u32)]) -> Arc<Members> {
    let backup = row.iter().filter(|(hop, _)| *hop >= BACKUP);
    let backup: Vec<_> = backup
        .map(|(hop, weight)| (hop - BACKUP, *weight))
        .collect();
    members(&backup)
}

fn routes(rows: &[(u8, Vec<(u8, u32)>)]) -> Routes {
    let prefixes = || rows.iter().filter(|(last, _)| *last < FLOWS);
    Routes {
        prefixes: prefixes()
            .map(|(last, of)| (prefix(*last), members(of)))
            .collect(),
        backups: prefixes()
            .map(|(last, of)| (prefix(*last), backup(of)))
            .collect(),
    }
}

fn flows(rows: &[(u8, Vec<(u8, u32)>)]) -> Flows {
    let flows = rows.iter().filter(|(last, _)| *last >= FLOWS);
    flows.map(|(last, of)| (flow(*last), members(of))).collect()
}

/// What is wanted of each target that has members.
fn wanted(rows: &[(u8, Vec<(u8, u32)>)]) -> BTreeMap<Target, Has> {
    let (routes, flows) = (routes(rows), flows(rows));
    let classes = classes(routes.targets(&flows)).into_iter();
    classes
        .flat_map(|(content, targets)| targets.into_iter().map(move |it| (it, Has::of(content))))
        .collect()
}

fn operations(rows: &[(u8, Vec<(u8, u32)>)], installed: &Installed) -> Vec<Operation> {
    let (routes, flows) = (routes(rows), flows(rows));
    let made = reconcile(&routes, &flows, installed);
    // The operations are the same if everything is looked at one by one.
    let keys = installed.tables.keys().chain(installed.going());
    let mut keys: Vec<Key> = keys
        .filter(|key| matches!(key, Key::Prefix(_) | Key::Policy(_)))
        .collect();
    keys.sort_unstable();
    let targets = routes.targets(&flows);
    let mut all = Rest::of(&routes, &flows, installed);
    all.wanted = targets.filter(|(_, it)| !it.members.is_empty()).collect();
    (all.installed, all.kept) = (keys, BTreeSet::new());
    assert_eq!(made, super::operations(&all, installed));
    made
}

fn installed(tables: Tables) -> Installed {
    Installed {
        tables,
        ..Installed::default()
    }
}

/// What a switch has that was empty and got everything.
fn after_a_push(rows: &[(u8, Vec<(u8, u32)>)]) -> Installed {
    let mut installed = Installed::default();
    for operation in operations(rows, &Installed::default()) {
        installed.program(&operation.change);
    }
    installed
}

fn texts(rows: &[(u8, Vec<(u8, u32)>)], installed: &Installed) -> Vec<String> {
    let operations = operations(rows, installed);
    operations
        .iter()
        .map(|operation| operation.change.to_string())
        .collect()
}

#[test]
fn a_change_of_weights_is_one_operation() {
    let before = after_a_push(&[(1, vec![(1, 1), (2, 1)]), (2, vec![(1, 1), (2, 1)])]);
    let after = [(1, vec![(1, 2), (2, 1)]), (2, vec![(1, 2), (2, 1)])];
    assert_eq!(texts(&after, &before), ["replace next-hop group 1 of 2"]);
}

#[test]
fn a_group_that_somebody_else_keeps_is_not_changed() {
    let before = after_a_push(&[(1, vec![(1, 1), (2, 1)]), (2, vec![(1, 1), (2, 1)])]);
    let after = [(1, vec![(1, 1)]), (2, vec![(1, 1), (2, 1)])];
    let expected = [
        "add next-hop group 2 of 1",
        "replace 198.51.100.1/32 by group 2",
    ];
    assert_eq!(texts(&after, &before), expected);
}

#[test]
fn two_links_that_change_in_one_plan_give_no_prefix_a_third_group() {
    // Prefixes 1 and 2 change places between two groups that both change.
    let before = after_a_push(&[
        (1, vec![(1, 1), (2, 1)]),
        (2, vec![(3, 1), (4, 1)]),
        (3, vec![(1, 1), (2, 1)]),
        (4, vec![(3, 1), (4, 1)]),
    ]);
    let after = [
        (1, vec![(3, 1)]),
        (2, vec![(1, 1)]),
        (3, vec![(1, 1)]),
        (4, vec![(3, 1)]),
    ];
    let mut device = Device::of(before.tables.clone());
    let start = device.clone();
    let wanted = wanted(&after);
    for operation in operations(&after, &before) {
        device
            .execute(&operation.change, Outcome::Programmed)
            .unwrap();
        device.has_old_or_new(&start, &wanted).unwrap();
    }
}

#[test]
fn the_next_leader_finds_what_is_there_by_its_content() {
    let rows = [(1, vec![(1, 1), (2, 1)]), (2, vec![(2, 3)])];
    let mut before = after_a_push(&rows);
    // Another client chose other numbers.
    let tables = &mut before.tables;
    tables.next_hops = [(40, next_hop(1)), (7, next_hop(2))].into();
    let even = BTreeMap::from([(40, 1), (7, 1)]);
    tables.groups = [(9, even.into()), (3, BTreeMap::from([(7, 3)]).into())].into();
    tables.prefixes = [(prefix(1), 9), (prefix(2), 3)].into();
    assert!(texts(&rows, &before).is_empty());
}

#[test]
fn a_flow_shares_the_group_of_a_prefix_and_leaves_it_alone() {
    let rows = [(1, vec![(1, 1)]), (100, vec![(1, 1)]), (113, vec![(2, 1)])];
    let before = after_a_push(&rows);
    assert_eq!(before.tables.groups.len(), 2);
    assert!(texts(&rows, &before).is_empty());
    let moved = [(1, vec![(1, 1)]), (100, vec![(2, 1)]), (113, vec![(2, 1)])];
    let expected = ["replace flow to 203.0.113.1 in VNI 100 by group 2"];
    assert_eq!(texts(&moved, &before), expected);
    let expected = [
        "delete policy forwarding entry 1 of VNI 100",
        "delete policy forwarding entry 2 of VNI 101",
        "delete next-hop group 2",
        "delete next hop 2",
    ];
    assert_eq!(texts(&rows[..1], &before), expected);
}

#[test]
fn what_is_held_is_written_again_and_waits_for_nothing() {
    let rows = [(1, vec![(1, 1)])];
    let mut before = after_a_push(&rows);
    let keys = [Key::NextHop(1), Key::Group(1), Key::Prefix(prefix(1))];
    before.held = keys.into_iter().map(|key| (key, BTreeSet::new())).collect();
    let operations = operations(&rows, &before);
    assert_eq!(operations.len(), 3);
    for operation in &operations {
        assert!(matches!(operation.change, Change::Replace(_)) && operation.after.is_empty());
    }
}

#[test]
fn a_prefix_moves_to_a_held_group_only_when_it_forwards() {
    let mut before = after_a_push(&[(1, vec![(1, 1)]), (2, vec![(2, 1)])]);
    before.held.insert(Key::Group(2), BTreeSet::new());
    let operations = operations(&[(1, vec![(2, 1)]), (2, vec![(2, 1)])], &before);
    let expected = [
        "replace next-hop group 2 of 1",
        "replace 198.51.100.1/32 by group 2",
    ];
    let texts: Vec<_> = operations
        .iter()
        .map(|operation| operation.change.to_string())
        .collect();
    assert_eq!(texts[..2], expected);
    let until = Until::Programmed;
    assert_eq!(
        operations[1].after,
        [After {
            operation: 0,
            until
        }]
    );
}

#[test]
fn a_backup_is_there_before_the_group_that_falls_back_to_it_and_goes_after_it() {
    let before = after_a_push(&[(1, vec![(1, 1), (2, 1)])]);
    let after = [(1, vec![(2, 1), (51, 1)])];
    let expected = [
        "add next-hop group 2 of 1",
        "replace next-hop group 1 of 1 with backup 2",
    ];
    assert_eq!(texts(&after, &before), expected);
    let drained = after_a_push(&after);
    let expected = ["replace next-hop group 2 of 2", "delete next-hop group 1"];
    let back = [(1, vec![(1, 1), (2, 1)])];
    assert_eq!(texts(&back, &drained), expected);
    let deletion = operations(&back, &drained).pop().unwrap();
    let until = Until::Programmed;
    assert_eq!(
        deletion.after,
        [After {
            operation: 0,
            until
        }]
    );
}

#[test]
fn a_flow_goes_by_the_group_that_others_fall_back_to() {
    let rows = [(1, vec![(2, 1), (51, 1)]), (100, vec![(1, 1)])];
    let before = after_a_push(&rows);
    assert_eq!(before.tables.groups.len(), 2);
    assert!(texts(&rows, &before).is_empty());
    // What others fall back to is not changed with the flow.
    let moved = [(1, vec![(2, 1), (51, 1)]), (100, vec![(3, 1)])];
    let expected = [
        "add next hop 3 (swp3)",
        "add next-hop group 3 of 1",
        "replace flow to 203.0.113.1 in VNI 100 by group 3",
    ];
    assert_eq!(texts(&moved, &before), expected);
}

/// A switch that refuses what gRIBI says it must, and whose forwarding plane may lag behind what it accepted.
#[derive(Clone, Debug)]
struct Device {
    rib: Tables,
    fib: Tables,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Programmed,
    Held,
    Refused,
}

impl Outcome {
    fn meets(self, until: Until) -> bool {
        match until {
            Until::Accepted => self != Self::Refused,
            Until::Programmed => self == Self::Programmed,
            Until::Decided => self != Self::Held,
        }
    }
}

impl Device {
    fn of(tables: Tables) -> Self {
        let (rib, fib) = (tables.clone(), tables);
        Self { rib, fib }
    }

    fn execute(&mut self, change: &Change, outcome: Outcome) -> Result<(), String> {
        if outcome == Outcome::Refused {
            return Ok(());
        }
        let key = change.key();
        match change {
            Change::Add(_) if self.rib.contains(key) => return Err(format!("{change}: it exists")),
            Change::Replace(_) if !self.rib.contains(key) => {
                return Err(format!("{change}: it is not there"));
            }
            Change::Add(entry) | Change::Replace(entry) => self.rib.put(entry.clone()),
            Change::Delete(key) => self.rib.remove(*key),
        }
        if outcome == Outcome::Programmed {
            self.catch_up(key);
        }
        backed(&self.rib).map_err(|what| format!("{change}: accepted: {what}"))?;
        dangling(&self.rib).map_err(|what| format!("{change}: accepted: {what}"))?;
        self.dangles()
            .map_err(|what| format!("{change}: forwarded by: {what}"))
    }

    /// Whether what is forwarded by refers to what is not there: not in the forwarding plane, but for next hops and backups, nor
    /// accepted.
    fn dangles(&self) -> Result<(), String> {
        let mut known = self.fib.clone();
        known.next_hops.extend(self.rib.next_hops.clone());
        for group in known.groups.values_mut() {
            // Until the backup forwards there is none.
            group.backup = group.backup.filter(|it| !self.rib.groups.contains_key(it));
        }
        dangling(&known)
    }

    fn catch_up(&mut self, key: Key) {
        match self.rib.entry(key) {
            Some(entry) => self.fib.put(entry),
            None => self.fib.remove(key),
        }
    }

    /// Programs what was held, if nothing dangles then.
    fn catch_up_if_possible(&mut self, key: Key) {
        let before = self.fib.clone();
        self.catch_up(key);
        if self.dangles().is_err() {
            self.fib = before;
        }
    }

    fn get(&self) -> Installed {
        let held = self
            .rib
            .keys()
            .filter(|key| self.rib.entry(*key) != self.fib.entry(*key));
        Installed {
            held: held.map(|key| (key, BTreeSet::new())).collect(),
            tables: self.rib.clone(),
            ..Installed::default()
        }
    }

    /// What a target is forwarded by.
    fn forwarded(&self, target: Target) -> Option<Has> {
        self.content(group_of(&self.fib, target)?, &self.fib)
    }

    /// What a target may be forwarded by when the forwarding plane catches up with what was accepted.
    fn pending(&self, target: Target) -> Vec<Option<Has>> {
        let groups = [group_of(&self.fib, target), group_of(&self.rib, target)];
        let tables = [&self.fib, &self.rib];
        let content = |group: Option<&u64>, tables| self.content(group?, tables);
        groups
            .iter()
            .flat_map(|group| tables.map(|tables| content(*group, tables)))
            .collect()
    }

    fn content(&self, group: &u64, tables: &Tables) -> Option<Has> {
        let value = |index: &u64| {
            let fib = self.fib.next_hops.get(index);
            fib.or_else(|| self.rib.next_hops.get(index))
                .unwrap()
                .clone()
        };
        let members = |group: &Group| {
            let members = group.next_hops.iter();
            members
                .map(|(index, weight)| (value(index), *weight))
                .collect()
        };
        let group = tables.groups.get(group)?;
        let backup = group.backup.and_then(|backup| tables.groups.get(&backup));
        Some(Has {
            members: members(group),
            backup: backup.map(members),
        })
    }

    /// Whether a target has the group that it had, and only the backup of that, which was not in the forwarding plane, is there now.
    fn got_its_backup(&self, start: &Self, target: Target) -> bool {
        let id = group_of(&self.fib, target);
        let group = |device: &Self| device.fib.groups.get(id?).cloned();
        let had = start
            .forwarded(target)
            .is_some_and(|has| has.backup.is_some());
        id == group_of(&start.fib, target) && group(self) == group(start) && !had
    }

    /// The law: every target that was there and stays has what it had, what was accepted for it, or what is wanted, and a backup of
    /// the same, or none yet if it gets another one.
    fn has_old_or_new(&self, start: &Self, wanted: &BTreeMap<Target, Has>) -> Result<(), String> {
        for (target, wanted) in wanted {
            if start.forwarded(*target).is_none() {
                continue;
            }
            let mut allowed = start.pending(*target);
            if group_of(&start.rib, *target).is_some() {
                allowed.retain(Option::is_some);
            }
            allowed.push(Some(wanted.clone()));
            let now = self.forwarded(*target);
            let backups = allowed.iter().flatten().map(|has| &has.backup);
            let is_another = backups.collect::<BTreeSet<_>>().len() > 1;
            let is_now = |allowed: &Option<Has>| match (allowed, &now) {
                (Some(allowed), Some(now)) => {
                    let is_none_yet = is_another && now.backup.is_none();
                    now.members == allowed.members && (is_none_yet || now.backup == allowed.backup)
                }
                (allowed, now) => allowed == now,
            };
            if !allowed.iter().any(is_now) && !self.got_its_backup(start, *target) {
                return Err(format!("{target:?} has {now:?}, not one of {allowed:?}"));
            }
        }
        Ok(())
    }
}

/// The group of a prefix, or of the first entry of a flow.
fn group_of(tables: &Tables, target: Target) -> Option<&u64> {
    match target {
        Target::Prefix(prefix) => tables.prefixes.get(&prefix),
        Target::Flow(_) => {
            let mut of_flow = tables.policies.iter();
            let found = of_flow.find(|(key, _)| tables.target(Key::Policy(**key)) == Some(target));
            found.map(|(_, (_, group))| group)
        }
    }
}

/// A backup is there, is another group, and has none itself.
fn backed(tables: &Tables) -> Result<(), String> {
    for (id, group) in &tables.groups {
        let Some(backup) = group.backup else {
            continue;
        };
        match tables.groups.get(&backup) {
            None => return Err(format!("group {id} misses backup {backup}")),
            Some(of) if of.backup.is_some() || backup == *id => {
                return Err(format!("backup {backup} of group {id} has one"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn dangling(tables: &Tables) -> Result<(), String> {
    for (id, group) in &tables.groups {
        if let Some(index) = group
            .next_hops
            .keys()
            .find(|index| !tables.next_hops.contains_key(index))
        {
            return Err(format!("group {id} misses next hop {index}"));
        }
        if let Some(backup) = group.backup.filter(|it| !tables.groups.contains_key(it)) {
            return Err(format!("group {id} misses backup {backup}"));
        }
    }
    for (prefix, group) in &tables.prefixes {
        if !tables.groups.contains_key(group) {
            return Err(format!("{prefix} misses group {group}"));
        }
    }
    for (key, (_, group)) in &tables.policies {
        if !tables.groups.contains_key(group) {
            return Err(format!("{key:?} misses group {group}"));
        }
    }
    Ok(())
}

/// One plan on its way: what is wanted, how the switch answers, and when it is interrupted.
#[derive(Clone, Debug)]
struct Round {
    rows: Rows,
    /// Which of the operations that may be sent comes next, and what comes of it.
    answers: Vec<(u8, Outcome)>,
    /// Something that is held reaches the forwarding plane by itself after so many answers.
    catch_up: Vec<u8>,
    /// The switch is read afterwards.
    read: bool,
}

/// Sends what may be sent, in the order and with the outcomes of the round.
fn play(round: &Round, device: &mut Device, client: &mut Installed) -> Result<(), String> {
    let wanted = wanted(&round.rows);
    let start = device.clone();
    let operations = operations(&round.rows, client);
    let mut come: Vec<Option<Outcome>> = vec![None; operations.len()];
    let mut sent = vec![false; operations.len()];
    for (step, (choice, outcome)) in round.answers.iter().enumerate() {
        let met = |after: &After| come[after.operation].is_some_and(|it| it.meets(after.until));
        let may = |at: &usize| !sent[*at] && operations[*at].after.iter().all(met);
        let ready: Vec<usize> = (0..operations.len()).filter(may).collect();
        let Some(at) = ready.get(usize::from(*choice) % ready.len().max(1)) else {
            break;
        };
        let operation = &operations[*at].change;
        sent[*at] = true;
        device.execute(operation, *outcome)?;
        come[*at] = Some(*outcome);
        match outcome {
            Outcome::Programmed => client.program(operation),
            Outcome::Held => client.hold(operation),
            Outcome::Refused => {}
        }
        if round
            .catch_up
            .contains(&u8::try_from(step).unwrap_or(u8::MAX))
        {
            let held: Vec<Key> = client.held.keys().copied().collect();
            held.into_iter()
                .for_each(|key| device.catch_up_if_possible(key));
        }
        device.has_old_or_new(&start, &wanted)?;
    }
    if round.read {
        *client = device.get().seen(client);
    }
    Ok(())
}

fn tables() -> impl Strategy<Value = Tables> {
    let next_hops = prop::collection::btree_map(1_u64..6, (1_u8..8).prop_map(next_hop), 1..5);
    next_hops
        .prop_flat_map(|next_hops| {
            let indexes: Vec<u64> = next_hops.keys().copied().collect();
            let most = indexes.len();
            let members =
                prop::collection::btree_map(prop::sample::select(indexes), 1_u64..4, 1..=most);
            (
                Just(next_hops),
                prop::collection::btree_map(1_u64..6, members, 1..5),
            )
        })
        .prop_flat_map(|(next_hops, groups)| {
            let ids: Vec<u64> = groups.keys().copied().collect();
            // Groups of the lower half may have backups of the upper half.
            let backups = ids.iter().copied().filter(|id| *id > 3);
            let backups: Vec<Option<u64>> = backups.map(Some).chain([None]).collect();
            let backup = prop::sample::select(backups);
            let groups: Vec<_> = groups
                .into_iter()
                .map(|(id, next_hops)| {
                    let backup = backup.clone();
                    let group = backup.prop_map(move |backup| Group {
                        next_hops: next_hops.clone(),
                        backup: backup.filter(|_| id <= 3),
                    });
                    (Just(id), group)
                })
                .collect();
            let groups = groups.prop_map(BTreeMap::from_iter);
            let prefixes = (1_u8..9).prop_map(prefix);
            let prefixes =
                prop::collection::btree_map(prefixes, prop::sample::select(ids.clone()), 0..8);
            let flows = (FLOWS..FLOWS_END, prop::sample::select(ids));
            let flows = prop::collection::btree_map(1_u64..9, flows, 0..6);
            (Just(next_hops), groups, prefixes, flows)
        })
        .prop_map(|(next_hops, groups, prefixes, flows)| {
            let mut tables = Tables {
                next_hops,
                groups,
                prefixes,
                ..Tables::default()
            };
            // A switch has one entry of each flow.
            let mut seen = BTreeSet::new();
            for (index, (last, group)) in flows {
                if seen.insert(last) {
                    let flow = flow(last);
                    let key = PolicyKey::of(index, &flow);
                    tables.policies.insert(key, (flow, group));
                }
            }
            tables
        })
}

fn rows() -> impl Strategy<Value = Rows> {
    let members = prop::collection::btree_map(1_u8..6, 1_u32..3, 0..4);
    let backup = prop::collection::btree_map(BACKUP + 1..BACKUP + 6, 1_u32..3, 0..3);
    let members = (members, prop_oneof![Just(BTreeMap::new()), backup]);
    let members = members.prop_map(|(members, backup)| members.into_iter().chain(backup).collect());
    let last = prop_oneof![1_u8..9, FLOWS..FLOWS_END];
    prop::collection::btree_map(last, members, 0..12).prop_map(|rows| rows.into_iter().collect())
}

fn round() -> impl Strategy<Value = Round> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Programmed),
        2 => Just(Outcome::Held),
        1 => Just(Outcome::Refused),
    ];
    let answers = prop::collection::vec((any::<u8>(), outcome), 0..30);
    let catch_up = prop::collection::vec(0_u8..30, 0..3);
    let parts = (rows(), answers, catch_up, any::<bool>());
    parts.prop_map(|(rows, answers, catch_up, read)| Round {
        rows,
        answers,
        catch_up,
        read,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn at_each_step_a_target_has_its_old_or_its_new_group(
        tables in tables(),
        rounds in prop::collection::vec(round(), 1..5),
        last in rows(),
    ) {
        let mut device = Device::of(tables);
        let mut client = device.get();
        for round in &rounds {
            let played = play(round, &mut device, &mut client);
            prop_assert!(played.is_ok(), "{played:?}");
        }
        // The switch becomes well: it gets exactly what is wanted.
        client = device.get().seen(&client);
        let well = Round {
            rows: last.clone(),
            answers: vec![(0, Outcome::Programmed); 200],
            catch_up: Vec::new(),
            read: true,
        };
        let played = play(&well, &mut device, &mut client);
        prop_assert!(played.is_ok(), "{played:?}");
        prop_assert!(operations(&last, &client).is_empty());
        prop_assert!(client.held.is_empty());
        let (tables, wanted) = (&client.tables, wanted(&last));
        prop_assert_eq!(tables.prefixes.len() + tables.policies.len(), wanted.len());
        let mut contents = BTreeSet::new();
        for (target, wanted) in &wanted {
            let has = device.forwarded(*target);
            prop_assert_eq!(has.as_ref(), Some(wanted));
            contents.insert(wanted.clone());
            contents.extend(wanted.backup.clone().map(|members| Has { members, backup: None }));
        }
        prop_assert_eq!(tables.groups.len(), contents.len());
    }

    #[test]
    fn an_operation_waits_for_earlier_ones_only(tables in tables(), rows in rows()) {
        for (at, operation) in operations(&rows, &installed(tables)).iter().enumerate() {
            prop_assert!(operation.after.iter().all(|after| after.operation < at));
        }
    }

    #[test]
    fn an_empty_intent_empties_any_switch(tables in tables()) {
        let mut device = Device::of(tables.clone());
        for operation in operations(&[], &installed(tables)) {
            let executed = device.execute(&operation.change, Outcome::Programmed);
            prop_assert!(executed.is_ok(), "{executed:?}");
        }
        prop_assert!(device.rib.is_empty());
    }
}

mod packets;
