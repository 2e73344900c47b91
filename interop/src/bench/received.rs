//! What one speaker got: every route ticked off in a bitmap, everything that is not as announced
//! remembered as a fault. Knows no socket and no clock.

use super::{
    load::Load,
    walk::{self, MacIp},
};

/// One speaker's account.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    speaker: u32,
    /// One bit per index.
    present: Vec<u64>,
    /// Routes of others that are present, extras aside.
    pub(crate) foreign: u32,
    /// Announcements of a route that was present already.
    pub(crate) duplicates: u64,
    /// Announcements of the speaker's own routes.
    pub(crate) own: u64,
    pub(crate) octets: u64,
    pub(crate) updates: u64,
    /// The first thing that was wrong.
    pub(crate) fault: Option<String>,
}

impl Received {
    pub(crate) fn new(load: &Load, speaker: u32) -> Self {
        let words = load.indexes().div_ceil(u64::BITS);
        Self {
            speaker,
            present: vec![0; usize::try_from(words).expect("u32 fits usize")],
            foreign: 0,
            duplicates: 0,
            own: 0,
            octets: 0,
            updates: 0,
            fault: None,
        }
    }

    /// Whether all routes of the others are present.
    pub(crate) fn complete(&self, load: &Load) -> bool {
        self.foreign == load.foreign(self.speaker)
    }

    pub(crate) fn has(&self, index: u32) -> bool {
        let (word, bit) = place(index);
        self.present[word] & bit != 0
    }

    /// Takes the body of an UPDATE.
    pub(crate) fn update(&mut self, load: &Load, body: &[u8]) {
        self.updates += 1;
        let Some(routes) = walk::routes(body) else {
            self.fail(|| "an UPDATE that is malformed or of another family".to_owned());
            return;
        };
        let mut rest = routes.announced;
        while let Some((route, after)) = walk::mac_ip(rest) {
            match known(load, route, Some(routes.next_hop)) {
                Some(index) => self.announced(load, index),
                None => self.fail(|| strange("an announcement", route, routes.next_hop)),
            }
            rest = after;
        }
        let mut left = routes.withdrawn;
        while let Some((route, after)) = walk::mac_ip(left) {
            match known(load, route, None) {
                Some(index) => self.withdrawn(load, index),
                None => self.fail(|| strange("a withdrawal", route, &[])),
            }
            left = after;
        }
        if !rest.is_empty() || !left.is_empty() {
            self.fail(|| "a route of a form that nobody announced".to_owned());
        }
    }

    fn announced(&mut self, load: &Load, index: u32) {
        let (word, bit) = place(index);
        if load.owner(index) == self.speaker {
            self.own += 1;
            return;
        }
        if self.present[word] & bit != 0 {
            self.duplicates += 1;
            return;
        }
        self.present[word] |= bit;
        if index < load.routes {
            self.foreign += 1;
        }
    }

    fn withdrawn(&mut self, load: &Load, index: u32) {
        let (word, bit) = place(index);
        if self.present[word] & bit == 0 {
            return;
        }
        self.present[word] &= !bit;
        if index < load.routes {
            self.foreign -= 1;
        }
    }

    pub(crate) fn fail(&mut self, fault: impl FnOnce() -> String) {
        self.fault.get_or_insert_with(fault);
    }
}

/// The index of a route, if all of it is as its owner announced it. Of a withdrawal only the key counts:
/// speakers put what they like into ESI and label.
fn known(load: &Load, route: &MacIp, next_hop: Option<&[u8]>) -> Option<u32> {
    let [0x02, 0, a, b, c, d] = route[23..29] else {
        return None;
    };
    let index = u32::from_be_bytes([a, b, c, d]);
    if index >= load.indexes() {
        return None;
    }
    let expected = load.expected(index);
    let key = route[..8] == expected.rd
        && route[18..23] == [0, 0, 0, 0, 48]
        && route[29] == 32
        && route[30..34] == expected.ip;
    let payload = next_hop.is_none_or(|next_hop| {
        next_hop == expected.next_hop && route[8..18] == [0; 10] && route[34..] == expected.label
    });
    (key && payload).then_some(index)
}

fn place(index: u32) -> (usize, u64) {
    let word = usize::try_from(index / u64::BITS).expect("u32 fits usize");
    (word, 1 << (index % u64::BITS))
}

fn strange(what: &str, route: &MacIp, next_hop: &[u8]) -> String {
    format!("{what} that nobody made: {route:02x?} with next hop {next_hop:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_LEN: usize = 19;

    fn load() -> Load {
        Load::new(4, 240, 3).unwrap()
    }

    #[test]
    fn all_routes_of_the_others_make_it_complete() {
        let load = load();
        let mut received = Received::new(&load, 1);
        for from in (0..240).step_by(20) {
            assert!(!received.complete(&load));
            received.update(&load, &load.announcement(from, 20)[HEADER_LEN..]);
        }
        assert!(received.complete(&load));
        assert_eq!((received.own, received.duplicates), (60, 0));
        assert_eq!(received.fault, None);
        received.update(&load, &load.announcement(0, 1)[HEADER_LEN..]);
        assert_eq!(received.duplicates, 1);
    }

    #[test]
    fn a_withdrawn_route_is_missing() {
        let load = load();
        let mut received = Received::new(&load, 4);
        received.update(&load, &load.announcement(0, 2)[HEADER_LEN..]);
        received.update(&load, &load.withdrawal(1)[HEADER_LEN..]);
        assert_eq!(received.foreign, 1);
        assert!(received.has(0) && !received.has(1));
        assert_eq!(received.fault, None);
    }

    #[test]
    fn another_next_hop_or_a_changed_octet_is_a_fault() {
        let load = load();
        let octets = load.announcement(0, 1);
        let route_at = octets.len() - octets_behind(&octets);
        for at in [
            route_at - 2 - 1 - 4,
            route_at,
            route_at + 8,
            route_at + 33,
            route_at + 36,
        ] {
            let mut body = octets[HEADER_LEN..].to_vec();
            body[at - HEADER_LEN] ^= 1;
            let mut received = Received::new(&load, 1);
            received.update(&load, &body);
            assert!(received.fault.is_some(), "octet {at}");
            assert_eq!(received.foreign, 0);
        }
    }

    /// From the first octet of the RD to the end of the message.
    fn octets_behind(octets: &[u8]) -> usize {
        let at = octets.windows(2).position(|pair| pair == [2, 37]).unwrap();
        octets.len() - at - 2
    }
}
