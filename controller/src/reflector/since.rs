//! A table page by page, for readers that take it at their own pace: whatever changed while they read
//! comes again on a later page. Knows no reader.

use std::collections::BTreeMap;

use weft_bgp::nlri::Nlri;
use weft_bgp::table::{Path, Table};

/// What was selected next after `revision`, `size` destinations at most, by revision. The last one's
/// revision asks for the page after it. Looks at every destination, and copies a page of them.
pub fn selected<N: Nlri>(table: &Table<N>, revision: u64, size: usize) -> Vec<(u64, Path<N>)> {
    let mut first: BTreeMap<u64, &Path<N>> = BTreeMap::new();
    for (revision, path, _) in table.selected_since(revision) {
        if first.len() < size {
            first.insert(revision, path);
            continue;
        }
        let last = first.last_key_value().map(|(last, _)| *last);
        if last.is_some_and(|last| revision < last) {
            first.pop_last();
            first.insert(revision, path);
        }
    }
    let copied = first.into_iter();
    copied
        .map(|(revision, path)| (revision, path.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use weft_bgp::attribute::Attributes;
    use weft_bgp::nlri::unicast::Prefix4;
    use weft_bgp::peer::{PeerId, RouterId};
    use weft_bgp::table::{PeerKind, Source};

    use super::*;

    fn prefix(last: u8) -> Prefix4 {
        Prefix4 {
            addr: Ipv4Addr::new(203, 0, 113, last),
            len: 32,
        }
    }

    #[test]
    fn pages_are_everything_once_and_changes_come_again() {
        let peer = PeerId {
            router_id: RouterId(1),
            asn: 64_496,
        };
        let address = Ipv4Addr::new(192, 0, 2, 1).into();
        let source = Arc::new(Source::new(peer, address, PeerKind::IbgpClient));
        let attributes = Arc::new(Attributes::default());
        let mut table = Table::new();
        for last in 0..10 {
            table.learn(&source, 0, prefix(last), Arc::clone(&attributes));
        }
        table.select();
        let mut seen = Vec::new();
        let mut at = 0;
        loop {
            let page = selected(&table, at, 3);
            let Some((last, _)) = page.last() else { break };
            at = *last;
            assert!(page.len() <= 3 && page.is_sorted_by_key(|(revision, _)| *revision));
            if seen.is_empty() {
                let other = Attributes {
                    med: Some(7),
                    ..Attributes::default()
                };
                let again = page.first().map(|(_, path)| path.nlri).unwrap();
                table.learn(&source, 0, again, Arc::new(other));
                table.select();
            }
            seen.extend(page.into_iter().map(|(_, path)| path.nlri));
        }
        assert_eq!(seen.len(), 11);
        assert_eq!(seen.first(), seen.last());
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..10).map(prefix).collect::<Vec<_>>());
    }
}
