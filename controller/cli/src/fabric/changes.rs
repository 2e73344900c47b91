//! Changes of declared resources in words. Knows kinds and names, and no call.

use weft_proto::v1::{ChangeType, ResourceChange};

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

/// Returns `3: switch leaf1, link a--b and 1 more`, with a limit of names. None: there are no changes.
pub(crate) fn listed<'a>(changes: impl IntoIterator<Item = &'a ResourceChange>) -> Option<String> {
    let names = changes.into_iter();
    let names = names.map(|it| format!("{} {}", noun(it.kind()), it.name));
    shortened(names.collect())
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

#[cfg(test)]
mod tests {
    use weft_proto::v1::ResourceKind;

    use super::*;

    #[test]
    fn a_long_list_ends_with_how_many_are_left_out() {
        let change = |number: usize| ResourceChange {
            kind: ResourceKind::HostPort.into(),
            name: format!("leaf{number}:eth1"),
            change_type: ChangeType::Deleted.into(),
            ..ResourceChange::default()
        };
        let changes: Vec<_> = (1..=9).map(change).collect();
        assert_eq!(listed(&[]), None);
        assert_eq!(listed(&changes[..1]).unwrap(), "1: host port leaf1:eth1");
        let all = listed(&changes).unwrap();
        assert!(all.starts_with("9: host port leaf1:eth1, host port leaf2:eth1, "));
        assert!(all.ends_with("host port leaf8:eth1 and 1 more"), "{all}");
        assert_eq!(counts(&changes), "0 created, 0 updated, 9 deleted");
    }
}
