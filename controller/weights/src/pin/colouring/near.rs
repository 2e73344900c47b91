//! Slots for edges that lost theirs, with as few others moved as can be found: edges that lost theirs change places among themselves,
//! then one of the others makes room for each, and what has none even so is inserted along chains. It refuses to know why slots were
//! lost.

use super::{Colouring, DOWN, UP};

/// What a search knows.
struct Near {
    /// By edge: whether it lost its slot, so that it costs nothing to move it.
    lost: Vec<bool>,
    /// By edge: the search in which it was seen last.
    seen: Vec<u32>,
    /// Counts searches.
    number: u32,
    /// How many more edges may be looked at.
    looks: u32,
}

/// An edge that gives its slot to another one.
#[derive(Clone, Copy)]
struct Step {
    edge: u32,
    /// The place of the step whose edge gets the slot.
    before: usize,
    /// How many more edges may move that had not lost their slot.
    others: u32,
}

impl Colouring<'_> {
    /// Finds slots for edges without one, and moves as few others as it finds. False: one has no slot.
    pub(in crate::pin) fn insert_near(&mut self, edges: &[u32]) -> bool {
        let mut waiting = edges.to_vec();
        if self.onward.is_none() {
            let mut near = Near {
                lost: vec![false; self.edges.len()],
                seen: vec![0; self.edges.len()],
                number: 0,
                looks: 0,
            };
            for edge in edges {
                near.lost[*edge as usize] = true;
            }
            for others in 0..=OTHERS_MAX {
                near.looks = LOOKS_MAX;
                waiting.retain(|edge| !self.make_room(&mut near, *edge, others));
            }
        }
        waiting.into_iter().all(|edge| self.insert(edge))
    }

    /// Finds a slot for an edge along the shortest way on which each edge takes the slot of the next one, and at most so many move that
    /// had not lost theirs. False: nothing changed, but for the order of edges in cells.
    fn make_room(&mut self, near: &mut Near, edge: u32, others: u32) -> bool {
        if let Some(spine) = self.free_at_both(edge) {
            self.place(edge, spine);
            return true;
        }
        near.number += 1;
        near.seen[edge as usize] = near.number;
        let mut steps = vec![Step {
            edge,
            before: 0,
            others,
        }];
        let mut at = 0;
        while let Some(Step { edge, others, .. }) = steps.get(at).copied() {
            let ends = self.edges[edge as usize].ends;
            for (side, spine) in self.half_free(ends) {
                for other in self.there(side, self.cell(ends[side], spine)) {
                    if near.looks == 0 {
                        return false;
                    }
                    near.looks -= 1;
                    let costs = u32::from(!near.lost[*other as usize]);
                    let seen = &mut near.seen[*other as usize];
                    // An edge between the same leaves finds what this one does.
                    let is_alike = self.edges[*other as usize].ends == ends;
                    if *seen == near.number || costs > others || is_alike {
                        continue;
                    }
                    *seen = near.number;
                    steps.push(Step {
                        edge: *other,
                        before: at,
                        others: others - costs,
                    });
                    if let Some(spine) = self.free_at_both(*other) {
                        return self.turn(&steps, spine);
                    }
                }
            }
            at += 1;
        }
        false
    }

    /// Spines that have a slot at one of two leaves, each with the side of the other one.
    fn half_free(&self, ends: [u32; 2]) -> Vec<(usize, u32)> {
        let spines = 0..self.spines as u32;
        let half = spines.filter_map(|spine| {
            let free = [UP, DOWN].map(|side| self.is_free(side, ends[side], spine));
            match free {
                [true, false] => Some((DOWN, spine)),
                [false, true] => Some((UP, spine)),
                _ => None,
            }
        });
        half.collect()
    }

    /// Gives the edge of the last step a spine, and each edge before it the spine of the next one. False: a slot was counted twice, and
    /// nothing changed, but for the order of edges in cells.
    fn turn(&mut self, steps: &[Step], spine: u32) -> bool {
        let mut at = steps.len() - 1;
        let mut way = vec![(steps[at].edge, spine)];
        while at > 0 {
            let spine = self.edges[steps[at].edge as usize].colour;
            at = steps[at].before;
            way.push((steps[at].edge, spine));
        }
        let before: Vec<u32> = way
            .iter()
            .map(|(edge, _)| self.edges[*edge as usize].colour)
            .collect();
        // The first edge of the way, which is the last one here, has no slot.
        let moved = way.len() - 1;
        for (edge, _) in &way[..moved] {
            self.lift(*edge);
        }
        let put = way
            .iter()
            .take_while(|(edge, spine)| self.put(*edge, *spine));
        let put = put.count();
        if put == way.len() {
            return true;
        }
        for (edge, _) in &way[..put] {
            self.lift(*edge);
        }
        for ((edge, _), spine) in way[..moved].iter().zip(before) {
            self.place(*edge, spine);
        }
        false
    }
}

/// Edges that move to place another one, and had not lost their slot.
const OTHERS_MAX: u32 = 1;
/// Edges that are looked at, for all that wait: some ten milliseconds.
const LOOKS_MAX: u32 = 1 << 18;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Colouring;
    use super::{DOWN, UP};

    /// Cells of one slot each, of so many leaves and spines.
    fn cells(leaves: usize, spines: usize) -> Vec<u32> {
        vec![1; leaves * spines]
    }

    #[test]
    fn edges_that_lost_their_slots_change_places_before_another_one_moves() {
        let slots = cells(4, 2);
        // The first one begins with spine 0, which is all that the second one has.
        let mut colouring = Colouring::new(2, [&slots, &slots], 1, None);
        // Of leaf 2 the slot below spine 1 is taken.
        let stays = colouring.add(3, 2);
        assert!(colouring.put(stays, 1));
        let lost = [colouring.add(0, 1), colouring.add(0, 2)];
        for order in [lost, [lost[1], lost[0]]] {
            assert!(colouring.insert_near(&order));
            let colours: Vec<_> = colouring.colours().collect();
            assert_eq!(colours, [Some(1), Some(1), Some(0)]);
            lost.iter().for_each(|edge| colouring.lift(*edge));
        }
    }

    #[test]
    fn one_other_edge_makes_room_where_no_slot_is_free_at_both_leaves() {
        let slots = cells(4, 2);
        let mut colouring = Colouring::new(2, [&slots, &slots], 0, None);
        let stay = [colouring.add(0, 3), colouring.add(2, 1)];
        assert!(colouring.put(stay[0], 0) && colouring.put(stay[1], 1));
        // Leaf 0 has spine 1 left to send, and leaf 1 has spine 0 left to take.
        let lost = colouring.add(0, 1);
        assert!(colouring.insert_near(&[lost]));
        let colours: Vec<_> = colouring.colours().flatten().collect();
        let moved = [0, 1].iter().filter(|it| colours[**it] != **it as u32);
        assert_eq!((moved.count(), colours.len()), (1, 3));
    }

    /// Whether edges from leaf 0 find slots while no other moves, by trying all.
    fn exists(colouring: &mut Colouring<'_>, lost: &[u32]) -> bool {
        let Some((edge, rest)) = lost.split_first() else {
            return true;
        };
        let to = colouring.edges[*edge as usize].ends[DOWN];
        (0..colouring.spines as u32).any(|spine| {
            let is_free = colouring.is_free(UP, 0, spine) && colouring.is_free(DOWN, to, spine);
            is_free && {
                colouring.place(*edge, spine);
                let found = exists(colouring, rest);
                colouring.lift(*edge);
                found
            }
        })
    }

    proptest! {
        /// After a link died: what it carried from its leaf.
        #[test]
        fn no_other_moves_where_those_that_lost_their_slots_have_room(
            others in prop::collection::vec((0..6_u32, 0..6_u32, 0..5_u32), 0..60),
            lost in prop::collection::vec(1..6_u32, 1..8),
            slots in prop::collection::vec(1..3_u32, 30),
        ) {
            let mut colouring = Colouring::new(5, [&slots, &slots], 0, None);
            for (from, to, spine) in others {
                let edge = colouring.add(from, to);
                // Of those without a slot nobody asks here.
                colouring.put(edge, spine);
            }
            let before: Vec<_> = colouring.colours().collect();
            let lost: Vec<_> = lost.iter().map(|to| colouring.add(0, *to)).collect();
            let has_room = exists(&mut colouring, &lost);
            let found = colouring.insert_near(&lost);
            let after: Vec<_> = colouring.colours().collect();
            if has_room {
                prop_assert!(found);
                prop_assert_eq!(&before, &after[..before.len()]);
            }
        }
    }
}
