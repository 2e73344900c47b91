//! Edges between leaves get a spine each, so that no cell (a leaf and a spine, up or down) has more than its slots. An edge that
//! finds no spine with a slot at both ends makes room along a Kempe chain: edges of two spines change places in turn.
//!
//! An edge between leaves of two pods takes a slot in a cell of each pod, too: see [`between`].

use self::between::Search;
use super::onward::Onward;

mod between;
mod near;

/// Which end of an edge: the leaf that sends, or the one that takes.
type Side = usize;
const UP: Side = 0;
const DOWN: Side = 1;

/// A bipartite multigraph whose edges are coloured with spines as far as the slots allow.
#[derive(Debug)]
pub(super) struct Colouring<'a> {
    spines: usize,
    /// Words of a row of `free`.
    words: usize,
    sides: [Cells; 2],
    edges: Vec<Edge>,
    /// Changes of the chain that is tried.
    turned: Vec<Turn>,
    /// Where a search among spines begins: another order, another colouring.
    seed: u32,
    /// Turns of a chain.
    chain_max: usize,
    /// Which edges go from pod to pod; rows of pods come after those of leaves.
    onward: Option<&'a Onward>,
    /// Edges that a cell can have above its slots, while others make room.
    spare: u32,
    search: Search,
}

/// The cells of one side.
#[derive(Debug)]
struct Cells {
    /// Where the slots of a cell begin, by leaf, then by spine.
    first: Vec<u32>,
    used: Vec<u32>,
    /// Edges.
    slots: Vec<u32>,
    /// Spines with a free slot, by leaf.
    free: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    ends: [u32; 2],
    colour: u32,
}

/// An edge that went from one spine to another, in whose slot at one end another one came.
#[derive(Clone, Copy, Debug)]
struct Turn {
    side: Side,
    leaf: u32,
    edge: u32,
    incoming: u32,
    from: u32,
    to: u32,
}

impl<'a> Colouring<'a> {
    /// No edge is there. Slots by leaf, then by spine, of what leaves send and of what they take; after them those of pods.
    pub(super) fn new(
        spines: usize,
        [up, down]: [&[u32]; 2],
        seed: u32,
        onward: Option<&'a Onward>,
    ) -> Self {
        let spare = u32::from(onward.is_some());
        let words = spines.div_ceil(64);
        let leaves = up.len() / spines.max(1);
        let cells = |slots: &[u32]| {
            let mut first = Vec::with_capacity(slots.len() + 1);
            let mut total = 0;
            first.push(total);
            for count in slots {
                total += count + spare;
                first.push(total);
            }
            let mut free = vec![0_u64; leaves * words];
            for (cell, _) in slots.iter().enumerate().filter(|(_, count)| **count > 0) {
                let (leaf, spine) = (cell / spines, cell % spines);
                free[leaf * words + spine / 64] |= 1 << (spine % 64);
            }
            Cells {
                first,
                used: vec![0; slots.len()],
                slots: vec![0; total as usize],
                free,
            }
        };
        Self {
            spines,
            words,
            sides: [cells(up), cells(down)],
            edges: Vec::new(),
            turned: Vec::new(),
            seed,
            // Where each cell has one slot, a chain comes to no leaf twice.
            chain_max: 2 * leaves + 16,
            onward,
            spare,
            search: Search::default(),
        }
    }

    /// The spine of each edge, in the order in which they came; None: it has none.
    pub(super) fn colours(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        let colours = self.edges.iter().map(|edge| edge.colour);
        colours.map(|colour| (colour != NONE).then_some(colour))
    }

    /// An edge without a spine, by its number.
    pub(super) fn add(&mut self, from: u32, to: u32) -> u32 {
        let edge = u32::try_from(self.edges.len()).expect("fewer edges than 2^32");
        self.edges.push(Edge {
            ends: [from, to],
            colour: NONE,
        });
        edge
    }

    /// Puts an edge where it was before. False: there is no slot.
    pub(super) fn put(&mut self, edge: u32, spine: u32) -> bool {
        let ends = self.edges[edge as usize].ends;
        let is_free = |side: Side| self.is_free(side, ends[side], spine);
        if !is_free(UP) || !is_free(DOWN) {
            return false;
        }
        if let Some([up, down]) = self.pods(ends)
            && !(self.is_free(UP, up, spine) && self.is_free(DOWN, down, spine))
        {
            return false;
        }
        self.place(edge, spine);
        true
    }

    /// Finds a slot at both ends for an edge, or for another one whose slot it takes. False: one edge more has no spine.
    pub(super) fn insert_or_eject(&mut self, edge: u32) -> bool {
        if self.onward.is_some() {
            return self.insert_between(edge);
        }
        let mut waiting = edge;
        for round in 0..EJECTIONS {
            if self.insert(waiting) {
                return true;
            }
            // In turns: the slot is free where the edge sends, and taken where it ends, and the other way round.
            let Some(next) = self.eject(waiting, round % 2, round / 2) else {
                return false;
            };
            waiting = next;
        }
        self.insert(waiting)
    }

    /// Gives an edge a slot that is free at one of its ends; who had it at the other one has none now.
    fn eject(&mut self, edge: u32, side: Side, round: usize) -> Option<u32> {
        let ends = self.edges[edge as usize].ends;
        let far = 1 - side;
        let start = (ends[UP] as usize + 31 * ends[DOWN] as usize + 7 * round) % self.spines;
        let row = self.row(side, ends[side]);
        let spine = first_from(self.words, start, |word| row[word])?;
        let mut there = self.there(far, self.cell(ends[far], spine)).iter();
        let victim = *there.find(|edge| self.edges[**edge as usize].ends != ends)?;
        self.lift(victim);
        self.place(edge, spine);
        Some(victim)
    }

    /// Finds a slot at both ends for an edge. False: nothing changed.
    pub(super) fn insert(&mut self, edge: u32) -> bool {
        if self.onward.is_some() {
            return self.insert_between(edge);
        }
        if let Some(spine) = self.free_at_both(edge) {
            self.place(edge, spine);
            return true;
        }
        let (ends, start) = (self.edges[edge as usize].ends, self.start(edge));
        let free = |side: Side| {
            let row = self.row(side, ends[side]);
            let mut found = [0; TRIED];
            let mut count = 0;
            let mut at = start;
            // A few of each: one after the other around the circle of spines.
            while count < TRIED {
                let Some(spine) = first_from(self.words, at, |word| row[word]) else {
                    break;
                };
                if found[..count].contains(&spine) {
                    break;
                }
                found[count] = spine;
                count += 1;
                at = (spine as usize + 1) % self.spines;
            }
            (found, count)
        };
        let ((up, ups), (down, downs)) = (free(UP), free(DOWN));
        for round in 0..ups.max(downs) {
            for other in 0..=round {
                for (i, j) in [(round, other), (other, round)] {
                    if i < ups && j < downs {
                        let (up, down) = (up[i], down[j]);
                        if self.chain(edge, DOWN, up, down) || self.chain(edge, UP, down, up) {
                            return true;
                        }
                    }
                }
            }
        }
        false
    }

    /// A spine with a slot at both leaves of an edge.
    fn free_at_both(&self, edge: u32) -> Option<u32> {
        let [from, to] = self.edges[edge as usize].ends;
        let both = |word: usize| self.row(UP, from)[word] & self.row(DOWN, to)[word];
        first_from(self.words, self.start(edge), both)
    }

    /// The spine that is tried first: the same for all edges between two leaves.
    fn start(&self, edge: u32) -> usize {
        let [from, to] = self.edges[edge as usize].ends;
        (from + to).wrapping_add(self.seed) as usize % self.spines.max(1)
    }

    fn place(&mut self, edge: u32, colour: u32) {
        let ends = self.edges[edge as usize].ends;
        self.edges[edge as usize].colour = colour;
        self.push(UP, ends[UP], colour, edge);
        self.push(DOWN, ends[DOWN], colour, edge);
        if let Some([up, down]) = self.pods(ends) {
            self.push(UP, up, colour, edge);
            self.push(DOWN, down, colour, edge);
        }
    }

    /// Takes an edge out of its cells.
    fn lift(&mut self, edge: u32) {
        let Edge { ends, colour } = self.edges[edge as usize];
        for [up, down] in [Some(ends), self.pods(ends)].into_iter().flatten() {
            self.remove(UP, up, colour, edge);
            self.remove(DOWN, down, colour, edge);
        }
        self.edges[edge as usize].colour = NONE;
    }

    /// The rows of the pods of an edge, up and down; None: it stays in its pod.
    fn pods(&self, [from, to]: [u32; 2]) -> Option<[u32; 2]> {
        self.onward?.rows(from, to)
    }

    /// Gives a new edge the spine `full`, which has a slot at its other end, and none at this one; `other` has one here.
    fn chain(&mut self, new: u32, begin: Side, full: u32, other: u32) -> bool {
        let ends = self.edges[new as usize].ends;
        self.edges[new as usize].colour = full;
        self.push(1 - begin, ends[1 - begin], full, new);
        self.turned.clear();
        let (mut side, mut leaf, mut incoming) = (begin, ends[begin], new);
        let (mut full, mut other) = (full, other);
        while self.turned.len() < self.chain_max {
            let Some(edge) = self.chosen(side, leaf, (full, other), incoming, ends) else {
                break;
            };
            self.replace(side, leaf, full, edge, incoming);
            self.push(side, leaf, other, edge);
            self.edges[edge as usize].colour = other;
            self.turned.push(Turn {
                side,
                leaf,
                edge,
                incoming,
                from: full,
                to: other,
            });
            side = 1 - side;
            leaf = self.edges[edge as usize].ends[side];
            self.remove(side, leaf, full, edge);
            if self.is_free(side, leaf, other) {
                self.push(side, leaf, other, edge);
                return true;
            }
            incoming = edge;
            (full, other) = (other, full);
        }
        self.undo(new, begin);
        false
    }

    /// Takes back what a chain turned. The edge that it ended with is nowhere at its other end.
    fn undo(&mut self, new: u32, begin: Side) {
        while let Some(turn) = self.turned.pop() {
            let far = self.edges[turn.edge as usize].ends[1 - turn.side];
            self.push(1 - turn.side, far, turn.from, turn.edge);
            self.remove(turn.side, turn.leaf, turn.to, turn.edge);
            self.replace(turn.side, turn.leaf, turn.from, turn.incoming, turn.edge);
            self.edges[turn.edge as usize].colour = turn.from;
        }
        let Edge { ends, colour } = self.edges[new as usize];
        self.remove(1 - begin, ends[1 - begin], colour, new);
        self.edges[new as usize].colour = NONE;
    }

    /// An edge of a full cell that makes room: one that ends the chain at once, or else any but the one that came last. One between
    /// the leaves of the new edge is as that one itself.
    fn chosen(
        &self,
        side: Side,
        leaf: u32,
        (full, other): (u32, u32),
        incoming: u32,
        new: [u32; 2],
    ) -> Option<u32> {
        let there = self.there(side, self.cell(leaf, full));
        let far = |edge: u32| self.edges[edge as usize].ends[1 - side];
        let ends = |edge: &u32| self.is_free(1 - side, far(*edge), other);
        let last = self.turned.last().map(|turn| turn.incoming);
        let others = || {
            let rest = there.iter().copied();
            rest.filter(|edge| {
                let is_new = self.edges[*edge as usize].ends == new;
                *edge != incoming && Some(*edge) != last && !is_new
            })
        };
        let at_once = others().find(|edge| ends(edge));
        at_once.or_else(|| {
            let count = others().count();
            let place = self.turned.len().wrapping_mul(7) % count.max(1);
            others().nth(place)
        })
    }

    /// The edges of a cell.
    fn there(&self, side: Side, cell: usize) -> &[u32] {
        let cells = &self.sides[side];
        let first = cells.first[cell] as usize;
        &cells.slots[first..first + cells.used[cell] as usize]
    }

    fn cell(&self, leaf: u32, spine: u32) -> usize {
        leaf as usize * self.spines + spine as usize
    }

    fn row(&self, side: Side, leaf: u32) -> &[u64] {
        &self.sides[side].free[leaf as usize * self.words..][..self.words]
    }

    fn is_free(&self, side: Side, leaf: u32, spine: u32) -> bool {
        self.row(side, leaf)[spine as usize / 64] >> (spine % 64) & 1 == 1
    }

    fn push(&mut self, side: Side, leaf: u32, spine: u32, edge: u32) {
        let cell = self.cell(leaf, spine);
        let bit = leaf as usize * self.words + spine as usize / 64;
        let cells = &mut self.sides[side];
        let (first, end) = (cells.first[cell], cells.first[cell + 1]);
        cells.slots[(first + cells.used[cell]) as usize] = edge;
        cells.used[cell] += 1;
        if first + cells.used[cell] + self.spare >= end {
            cells.free[bit] &= !(1 << (spine % 64));
        }
    }

    fn remove(&mut self, side: Side, leaf: u32, spine: u32, edge: u32) {
        let cell = self.cell(leaf, spine);
        let bit = leaf as usize * self.words + spine as usize / 64;
        let place = self.slot(side, cell, edge);
        let cells = &mut self.sides[side];
        cells.used[cell] -= 1;
        let last = cells.first[cell] + cells.used[cell];
        cells.slots[place] = cells.slots[last as usize];
        if last + self.spare < cells.first[cell + 1] {
            cells.free[bit] |= 1 << (spine % 64);
        }
    }

    fn replace(&mut self, side: Side, leaf: u32, spine: u32, old: u32, new: u32) {
        let place = self.slot(side, self.cell(leaf, spine), old);
        self.sides[side].slots[place] = new;
    }

    /// Where an edge is that is in a cell.
    fn slot(&self, side: Side, cell: usize, edge: u32) -> usize {
        let place = self.there(side, cell).iter().position(|it| *it == edge);
        self.sides[side].first[cell] as usize
            + place.expect("an edge is in the cells of its colour")
    }
}

/// The first set bit at or after a place, around the circle.
fn first_from(words: usize, start: usize, word: impl Fn(usize) -> u64) -> Option<u32> {
    let (begin, bit) = (start / 64, start % 64);
    let masked = |at: usize, mask: u64| {
        let bits = word(at) & mask;
        (bits != 0).then(|| at as u32 * 64 + bits.trailing_zeros())
    };
    let above = u64::MAX << bit;
    masked(begin, above)
        .or_else(|| (begin + 1..words).find_map(|at| masked(at, u64::MAX)))
        .or_else(|| (0..begin).find_map(|at| masked(at, u64::MAX)))
        .or_else(|| masked(begin, !above))
}

/// Spines of each end that are tried.
const TRIED: usize = 6;
/// Edges that lose their slot to another one before the last of them is given up.
const EJECTIONS: usize = 40;
/// No spine.
const NONE: u32 = u32::MAX;
