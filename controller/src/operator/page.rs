//! Pages of lists: how long they are, and the tokens that name what comes after them. Knows no list.

use std::fmt::Display;

use crate::fabric::fact::InvalidFabric;
use prost::Message;

pub(super) mod kept;
pub(super) mod list;

/// How many rows a page has that is asked for with `page_size`, which may be wrong.
pub(super) fn size(wanted: i32, faults: &mut InvalidFabric) -> usize {
    match usize::try_from(wanted) {
        Ok(0) => SIZE_DEFAULT,
        Ok(size) => size.min(SIZE_MAX),
        Err(_) => {
            faults.fault("page_size", "below 0");
            SIZE_DEFAULT
        }
    }
}

/// The token of the page after `last`; it names the list.
pub(super) fn token(list: &str, last: impl Display) -> String {
    format!("{list}/{last}")
}

/// What the last row of the page before was called; None for the first page. The token may be of another list.
pub(super) fn after<'a>(list: &str, token: &'a str, faults: &mut InvalidFabric) -> Option<&'a str> {
    if token.is_empty() {
        return None;
    }
    let rest = token.strip_prefix(list);
    let last = rest.and_then(|rest| rest.strip_prefix('/'));
    if last.is_none() {
        foreign(faults);
    }
    last
}

/// Reads what the last row of the page before was called; None for the first page. The token may be of another list, or of none.
pub(super) fn after_read<T>(
    list: &str,
    token: &str,
    read: impl Fn(&str) -> Option<T>,
    faults: &mut InvalidFabric,
) -> Option<T> {
    let last = after(list, token, faults)?;
    let read = read(last);
    if read.is_none() {
        foreign(faults);
    }
    read
}

/// What a token says of a place in a list that is complete up to `revision`: no page behind it is of an earlier one.
pub(super) fn place(place: impl Display, revision: u64) -> String {
    format!("{place}@{revision}")
}

/// The place and the revision, read.
pub(super) fn place_read<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<(T, u64)> {
    let (place, revision) = text.rsplit_once('@')?;
    Some((read(place)?, revision.parse().ok()?))
}

/// No answer of this list gave the token.
pub(super) fn foreign(faults: &mut InvalidFabric) {
    faults.fault("page_token", "not from an answer of this list");
}

/// Rows that are put on a page until it is full.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// What is on it.
    pub(super) rows: Vec<T>,
    /// There is more.
    pub(super) more: bool,
    size: usize,
    octets: usize,
}

impl<T: Message> Page<T> {
    /// An empty one.
    pub(super) fn new(size: usize) -> Self {
        Self {
            rows: Vec::new(),
            more: false,
            size,
            octets: 0,
        }
    }

    /// As many as fit.
    pub(super) fn of(size: usize, rows: impl IntoIterator<Item = T>) -> Self {
        let mut page = Self::new(size);
        for row in rows {
            if !page.put(row) {
                break;
            }
        }
        page
    }

    /// Puts a row on it, the first one whatever its length. False: it is full, and there is more.
    pub(super) fn put(&mut self, row: T) -> bool {
        self.octets += row.encoded_len() + FRAME_OCTETS;
        let is_full =
            self.rows.len() >= self.size || (self.octets > OCTETS_MAX && !self.rows.is_empty());
        match is_full {
            true => self.more = true,
            false => self.rows.push(row),
        }
        !is_full
    }

    /// The token of the page after this one, from the last row; empty if there is none.
    pub(super) fn next(&self, list: &str, name: impl Fn(&T) -> String) -> String {
        let last = self.rows.last().filter(|_| self.more);
        last.map_or_else(String::new, |last| token(list, name(last)))
    }
}

const SIZE_DEFAULT: usize = 1000;
/// A page is held, and answered in one message.
const SIZE_MAX: usize = 10_000;
/// Clients take messages of 4 MiB unless told otherwise.
pub(super) const OCTETS_MAX: usize = 2 << 20;
/// Tag and length of a row.
const FRAME_OCTETS: usize = 4;

#[cfg(test)]
mod tests {
    use weft_proto::v1::Vni;

    use super::*;

    fn vni(vni: u32) -> Vni {
        Vni {
            vni,
            ..Vni::default()
        }
    }

    #[test]
    fn a_page_ends_when_it_is_full_and_names_what_was_last() {
        let page = Page::of(2, (1..4).map(vni));
        assert_eq!(page.rows.len(), 2);
        let token = page.next("vnis", |row| row.vni.to_string());
        assert_eq!(token, "vnis/2");
        let mut faults = InvalidFabric::default();
        assert_eq!(after("vnis", &token, &mut faults), Some("2"));
        assert!(faults.is_empty());
        let page = Page::of(2, (1..3).map(vni));
        assert_eq!(page.next("vnis", |row| row.vni.to_string()), "");
    }

    #[test]
    fn a_token_of_another_list_is_refused() {
        let faults = |token| {
            let mut faults = InvalidFabric::default();
            let read = |text: &str| text.parse::<u32>().ok();
            let after = after_read("vnis", token, read, &mut faults);
            assert_eq!(after, None, "{token}");
            faults.faults.len()
        };
        assert_eq!(faults(""), 0);
        for token in ["vteps/2", "vnis", "vnisx/2", "2", "/", "vnis/x"] {
            assert_eq!(faults(token), 1, "{token}");
        }
    }

    #[test]
    fn a_place_is_of_a_revision() {
        let read = |text: &str| place_read(text, |it| it.parse::<u32>().ok());
        assert_eq!(read(&place(7, 5)), Some((7, 5)));
        for text in ["7", "7@", "@5", "x@5", "7@x", "7@-1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_page_has_a_bound_in_octets_and_at_least_one_row() {
        let large = |number| Vni {
            vni: number,
            vteps: vec![
                weft_proto::v1::VniVtep {
                    address: "x".repeat(OCTETS_MAX),
                    ..Default::default()
                };
                1
            ],
        };
        let page = Page::of(10, [large(1), large(2)]);
        assert_eq!((page.rows.len(), page.more), (1, true));
    }

    #[test]
    fn sizes_have_a_default_and_a_bound() {
        let mut faults = InvalidFabric::default();
        let sizes = [0, 7, i32::MAX].map(|it| size(it, &mut faults));
        assert_eq!(sizes, [1000, 7, 10_000]);
        assert!(faults.is_empty());
        size(-1, &mut faults);
        assert_eq!(faults.faults[0].field, "page_size");
    }
}
