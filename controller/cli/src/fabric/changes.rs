//! Changes of declared resources in words. Knows kinds and names, and no call.

use weft_proto::v1::{ChangeType, ResourceChange, ResourceKind};

use super::noun;

/// Returns how many changes of a type there are.
pub(crate) fn count(changes: &[ResourceChange], kind: ChangeType) -> usize {
    let of_kind = changes.iter().filter(|it| it.change_type() == kind);
    of_kind.count()
}

/// Returns `N created, N updated, N deleted`.
pub(crate) fn counts(changes: &[ResourceChange]) -> String {
    format!(
        "{} created, {} updated, {} deleted",
        count(changes, ChangeType::Created),
        count(changes, ChangeType::Updated),
        count(changes, ChangeType::Deleted),
    )
}

/// Returns `3: switch leaf1, link a--b and 1 more: 1 host port`: a limited number of names, switches first. None: no changes.
pub(crate) fn listed<'a>(changes: impl IntoIterator<Item = &'a ResourceChange>) -> Option<String> {
    named(changes, NAMED_MAX)
}

/// As [`listed`], with more names, for a person who decides on them.
pub(crate) fn asked<'a>(changes: impl IntoIterator<Item = &'a ResourceChange>) -> Option<String> {
    named(changes, ASKED_MAX)
}

fn named<'a>(changes: impl IntoIterator<Item = &'a ResourceChange>, most: usize) -> Option<String> {
    let mut changes: Vec<&ResourceChange> = changes.into_iter().collect();
    // The order of the contract: switches, hosts, links, host ports.
    changes.sort_by_key(|it| it.kind);
    let count = changes.len();
    let (shown, others) = changes.split_at(count.min(most));
    let names = shown.iter();
    let names = names.map(|it| format!("{} {}", noun(it.kind()), it.name));
    let mut text = format!("{count}: {}", names.collect::<Vec<_>>().join(", "));
    let kinds = others.chunk_by(|a, b| a.kind == b.kind);
    let kinds = kinds.filter_map(|some| some.first().map(|first| (first.kind(), some.len())));
    let kinds: Vec<String> = kinds.map(|(kind, count)| counted(kind, count)).collect();
    if !kinds.is_empty() {
        text += &format!(" and {} more: {}", others.len(), kinds.join(", "));
    }
    (count > 0).then_some(text)
}

/// Returns `1 switch`, or `2 switches`.
fn counted(kind: ResourceKind, count: usize) -> String {
    let ending = match (count, kind) {
        (1, _) => "",
        (_, ResourceKind::Switch) => "es",
        _ => "s",
    };
    format!("{count} {}{ending}", noun(kind))
}

/// Returns `3: a, b and 1 more`, with a limit of names. None: there are no names.
pub(crate) fn shortened(names: Vec<String>) -> Option<String> {
    let count = names.len();
    if count == 0 {
        return None;
    }
    let (named, others) = names.split_at(count.min(NAMED_MAX));
    let mut text = format!("{count}: {}", named.join(", "));
    if !others.is_empty() {
        text += &format!(" and {} more", others.len());
    }
    Some(text)
}

/// Returns the changes of one type.
pub(crate) fn of(
    changes: &[ResourceChange],
    kind: ChangeType,
) -> impl Iterator<Item = &ResourceChange> {
    changes.iter().filter(move |it| it.change_type() == kind)
}

/// Names that fit on a line or two; `-o json` prints all of them.
const NAMED_MAX: usize = 8;
/// Names that a person reads before a question.
const ASKED_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn deleted(kind: ResourceKind, name: String) -> ResourceChange {
        ResourceChange {
            kind: kind.into(),
            name,
            change_type: ChangeType::Deleted.into(),
            ..ResourceChange::default()
        }
    }

    #[test]
    fn a_long_list_ends_with_how_many_are_left_out() {
        let change = |number| deleted(ResourceKind::HostPort, format!("leaf{number}:eth1"));
        let changes: Vec<_> = (1..=9).map(change).collect();
        assert_eq!(listed(&[]), None);
        assert_eq!(listed(&changes[..1]).unwrap(), "1: host port leaf1:eth1");
        let all = listed(&changes).unwrap();
        assert!(all.starts_with("9: host port leaf1:eth1, host port leaf2:eth1, "));
        let end = "host port leaf8:eth1 and 1 more: 1 host port";
        assert!(all.ends_with(end), "{all}");
        assert_eq!(counts(&changes), "0 created, 0 updated, 9 deleted");
    }

    #[test]
    fn switches_are_named_first_and_the_rest_is_counted_by_kind() {
        let links = (1..=30).map(|it| deleted(ResourceKind::Link, format!("link{it}")));
        let switches = (1..=21).map(|it| deleted(ResourceKind::Switch, format!("leaf{it}")));
        let mut changes: Vec<_> = links.chain(switches).collect();
        changes.push(deleted(ResourceKind::Host, "h1".to_owned()));
        let all = asked(&changes).unwrap();
        assert!(all.starts_with("52: switch leaf1, switch leaf2, "), "{all}");
        let end = "switch leaf20 and 32 more: 1 switch, 1 host, 30 links";
        assert!(all.ends_with(end), "{all}");
        let shorter = listed(&changes).unwrap();
        let end = "switch leaf8 and 44 more: 13 switches, 1 host, 30 links";
        assert!(shorter.ends_with(end), "{shorter}");
    }
}
