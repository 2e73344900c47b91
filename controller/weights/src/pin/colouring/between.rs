//! Edges that take slots of pods beside those of leaves. One that finds no spine with a slot in all of its cells is put where few are
//! full, and each cell that has one too many then gives one to another spine, until none has: a Kempe chain that can branch. It
//! refuses to know how many slots there are.

use super::{Colouring, DOWN, Side, UP, first_from};

/// What one insertion changed.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Counts insertions.
    number: u32,
    /// The insertion in which an edge was put or moved last.
    seen: Vec<u32>,
    /// Edges that went to another spine, each with the one that it came from.
    moved: Vec<(u32, u32)>,
    /// Edges for which nothing was found.
    failed: u32,
}

/// A row of cells: that of a leaf, or of a pod.
#[derive(Clone, Copy, Debug)]
struct Row {
    side: Side,
    row: u32,
}

/// A cell that has one edge too many, and the spine that one of its edges goes to.
#[derive(Clone, Copy, Debug)]
struct Over {
    row: Row,
    spine: u32,
    other: u32,
}

impl Colouring<'_> {
    /// Finds slots in all cells of an edge. False: nothing changed, but for the order of edges in cells.
    pub(super) fn insert_between(&mut self, edge: u32) -> bool {
        let start = self.start(edge);
        let rows: Vec<Row> = self.rows(edge).collect();
        let all = |word: usize| {
            let free = rows.iter().map(|it| self.row(it.side, it.row)[word]);
            free.fold(u64::MAX, |all, row| all & row)
        };
        if let Some(spine) = first_from(self.words, start, all) {
            self.place(edge, spine);
            return true;
        }
        if self.search.failed >= FAILED_MAX {
            return false;
        }
        let around = || (start..self.spines).chain(0..start).map(|it| it as u32);
        let free_in = |it: &Row| -> Vec<u32> {
            let free = around().filter(|spine| self.is_free(it.side, it.row, *spine));
            free.take(TRIED).collect()
        };
        let others: Vec<Vec<u32>> = rows.iter().map(free_in).collect();
        if others.iter().any(Vec::is_empty) {
            return false;
        }
        self.search.failed += 1;
        let full = around().filter_map(|spine| Some((self.full(&rows, spine)?, spine)));
        let mut full: Vec<(usize, u32)> = full.collect();
        // Of equal ones the first around the circle.
        full.sort_by_key(|(count, _)| *count);
        self.search.seen.resize(self.edges.len(), 0);
        let rounds = others.iter().map(Vec::len).max().unwrap_or_default();
        for (_, spine) in full.into_iter().take(TRIED) {
            for round in 0..rounds {
                if self.settle(edge, spine, (&rows, &others), round) {
                    self.search.failed -= 1;
                    return true;
                }
            }
        }
        false
    }

    /// The rows of an edge: those of its leaves, and of its pods if it goes from one to another.
    fn rows(&self, edge: u32) -> impl Iterator<Item = Row> + use<> {
        let ends = self.edges[edge as usize].ends;
        let all = [Some(ends), self.pods(ends)].into_iter().flatten();
        all.flat_map(|rows| {
            [UP, DOWN].map(|side| Row {
                side,
                row: rows[side],
            })
        })
    }

    /// Edges in a cell, and its slots.
    fn held(&self, Row { side, row }: Row, spine: u32) -> (u32, u32) {
        let (cells, cell) = (&self.sides[side], self.cell(row, spine));
        let slots = cells.first[cell + 1] - cells.first[cell] - self.spare;
        (cells.used[cell], slots)
    }

    fn is_over(&self, row: Row, spine: u32) -> bool {
        let (used, slots) = self.held(row, spine);
        used > slots
    }

    /// In how many of these rows a spine has no free slot; None: in one of them it has none at all.
    fn full(&self, rows: &[Row], spine: u32) -> Option<usize> {
        let mut count = 0;
        for row in rows {
            let (used, slots) = self.held(*row, spine);
            if slots == 0 {
                return None;
            }
            count += usize::from(used >= slots);
        }
        Some(count)
    }

    /// Gives an edge a spine, and has others make room in its rows: they go to other spines, of which each row has some. False: nothing
    /// changed, but for the order of edges in cells.
    fn settle(
        &mut self,
        edge: u32,
        spine: u32,
        (rows, others): (&[Row], &[Vec<u32>]),
        round: usize,
    ) -> bool {
        self.search.number += 1;
        self.search.moved.clear();
        self.search.seen[edge as usize] = self.search.number;
        self.place(edge, spine);
        let settled = rows.iter().zip(others).all(|(row, others)| {
            let other = others[round % others.len()];
            let row = *row;
            self.relieve(Over { row, spine, other })
        });
        if !settled {
            while let Some((moved, from)) = self.search.moved.pop() {
                self.lift(moved);
                self.place(moved, from);
            }
            self.lift(edge);
        }
        settled
    }

    /// Moves edges between two spines until no cell has too many, beginning with this one. False: too many would have to move.
    fn relieve(&mut self, first: Over) -> bool {
        let mut waiting = vec![first];
        while let Some(over) = waiting.pop() {
            if !self.is_over(over.row, over.spine) {
                continue;
            }
            if self.search.moved.len() >= MOVED_MAX {
                return false;
            }
            let Some(edge) = self.cheapest(over) else {
                return false;
            };
            self.search.seen[edge as usize] = self.search.number;
            self.search.moved.push((edge, over.spine));
            self.lift(edge);
            self.place(edge, over.other);
            for row in self.rows(edge) {
                // What it left has room now.
                let (spine, other) = (over.other, over.spine);
                if self.is_over(row, spine) {
                    waiting.push(Over { row, spine, other });
                }
            }
        }
        true
    }

    /// The edge to move out of a cell that has one too many: of the first [`LOOKED`] that this insertion has not moved, the one whose
    /// move leaves fewest other cells with one too many.
    fn cheapest(&self, over: Over) -> Option<u32> {
        let there = self.there(over.row.side, self.cell(over.row.row, over.spine));
        let begin = self.search.moved.len() * 7;
        let some = (0..there.len().min(LOOKED)).map(|at| there[(begin + at) % there.len()]);
        let rested = some.filter(|edge| self.search.seen[*edge as usize] != self.search.number);
        let rated = rested.filter_map(|edge| Some((self.cost(edge, over)?, edge)));
        let cheapest = rated.min_by_key(|(cost, _)| *cost);
        cheapest.map(|(_, edge)| edge)
    }

    /// How many cells have one too many once an edge moved, less those that had before. None: a cell has no slot, or two too many then.
    fn cost(&self, edge: u32, over: Over) -> Option<i32> {
        let mut cost = 0;
        for row in self.rows(edge) {
            let (used, slots) = self.held(row, over.other);
            if slots == 0 || used > slots {
                return None;
            }
            cost += i32::from(used == slots);
            cost -= i32::from(self.is_over(row, over.spine));
        }
        Some(cost)
    }
}

/// After so many edges that found nothing no other is tried: the level is too low, and each costs milliseconds.
const FAILED_MAX: u32 = 128;
/// Spines that an edge is tried on, and those that edges of one row go to instead.
const TRIED: usize = 4;
/// Edges of a cell that are looked at.
const LOOKED: usize = 64;
/// Edges that may move to place one: more would hardly place another one.
const MOVED_MAX: usize = 128;
