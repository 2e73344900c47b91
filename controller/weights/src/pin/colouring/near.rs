//! Slots for edges that lost theirs, with as few others moved as can be found: those that lost theirs change places among themselves,
//! and where that is not enough, one of the others makes room for each. It refuses to know why slots were lost.

use super::{Colouring, DOWN, UP};

/// What a search knows.
struct Near {
    /// By edge: it lost its slot, so that it costs nothing to move it.
    lost: Vec<bool>,
    /// By edge: it was tried for the edge that is looked after now.
    seen: Vec<bool>,
    /// The edges that are seen.
    tried: Vec<u32>,
    /// Looks at edges that are left.
    looks: u32,
}

impl Colouring<'_> {
    /// Finds slots for edges without one, and moves as few others as it finds. False: one has no slot.
    pub(in crate::pin) fn insert_near(&mut self, edges: &[u32]) -> bool {
        let mut waiting = edges.to_vec();
        if self.onward.is_none() {
            let none = vec![false; self.edges.len()];
            let mut near = Near {
                lost: none.clone(),
                seen: none,
                tried: Vec::new(),
                looks: LOOKS_MAX,
            };
            for edge in edges {
                near.lost[*edge as usize] = true;
            }
            for others in 0..=OTHERS_MAX {
                waiting.retain(|edge| !self.settle_near(&mut near, *edge, others));
            }
        }
        waiting.into_iter().all(|edge| self.insert(edge))
    }

    /// Finds a slot for an edge while so many others move that lost none. False: nothing changed, but for the order of edges in cells.
    fn settle_near(&mut self, near: &mut Near, edge: u32, others: u32) -> bool {
        let found = self.make_room(near, edge, others, DEPTH_MAX);
        for edge in near.tried.drain(..) {
            near.seen[edge as usize] = false;
        }
        found
    }

    fn make_room(&mut self, near: &mut Near, edge: u32, others: u32, depth: u32) -> bool {
        if let Some(spine) = self.free_at_both(edge) {
            self.place(edge, spine);
            return true;
        }
        near.seen[edge as usize] = true;
        near.tried.push(edge);
        let mut in_the_way = self.in_the_way(edge);
        in_the_way.truncate(near.looks as usize);
        near.looks -= in_the_way.len() as u32;
        in_the_way.retain(|(other, _)| {
            let costs = !near.lost[*other as usize];
            !near.seen[*other as usize] && (others > 0 || !costs)
        });
        // Those first that can go elsewhere at once.
        for (other, spine) in &in_the_way {
            if let Some(elsewhere) = self.free_at_both(*other) {
                self.lift(*other);
                self.place(edge, *spine);
                self.place(*other, elsewhere);
                return true;
            }
        }
        for (other, spine) in in_the_way {
            if depth == 0 || near.seen[other as usize] {
                continue;
            }
            let others = others - u32::from(!near.lost[other as usize]);
            self.lift(other);
            self.place(edge, spine);
            if self.make_room(near, other, others, depth - 1) {
                return true;
            }
            self.lift(edge);
            self.place(other, spine);
        }
        false
    }

    /// Edges whose slot is all that an edge lacks on a spine, each with that spine.
    fn in_the_way(&self, edge: u32) -> Vec<(u32, u32)> {
        let ends = self.edges[edge as usize].ends;
        let mut found = Vec::new();
        for (near, far) in [(UP, DOWN), (DOWN, UP)] {
            let free = (0..self.spines as u32).filter(|it| self.is_free(near, ends[near], *it));
            for spine in free {
                let there = self.there(far, self.cell(ends[far], spine));
                found.extend(there.iter().map(|other| (*other, spine)));
            }
        }
        found
    }
}

/// Edges that move to place another one, and lost no slot.
const OTHERS_MAX: u32 = 1;
/// Edges that make room for each other in turn.
const DEPTH_MAX: u32 = 8;
/// Edges that are looked at for all that wait: some ten milliseconds.
const LOOKS_MAX: u32 = 1 << 18;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Colouring;
    use super::{DEPTH_MAX, DOWN, UP};

    /// Cells of one slot each, of so many leaves and spines.
    fn cells(leaves: usize, spines: usize) -> Vec<u32> {
        vec![1; leaves * spines]
    }

    #[test]
    fn edges_that_lost_their_slots_change_places_before_another_one_moves() {
        let slots = cells(4, 2);
        let mut colouring = Colouring::new(2, [&slots, &slots], 0, None);
        // Of leaf 2 the slot below spine 1 is taken.
        let stays = colouring.add(3, 2);
        assert!(colouring.put(stays, 1));
        let lost = [colouring.add(0, 1), colouring.add(0, 2)];
        // The first one alone would go over spine 0 or 1; the second one can go over spine 0 only.
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
            lost in prop::collection::vec(1..6_u32, 1..6),
            slots in prop::collection::vec(1..3_u32, 30),
        ) {
            prop_assert!(lost.len() <= DEPTH_MAX as usize);
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
