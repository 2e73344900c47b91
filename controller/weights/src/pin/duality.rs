//! A bound for pins by LP duality: what no placement can be better than, were sub-flows divided at will.
//!
//! [`super::Bound`] looks at each leaf and each pair of leaves in whole sub-flows. This looks at all flows together, so that it
//! also sees several leaves that have too few spines in common; but it does not see that sub-flows are whole. It refuses to know
//! placements.

use super::{Flows, Infeasible, Plane};
use crate::fluid::{self, Demand, Network};

/// Sub-flows on the most loaded link / its capacity that every placement has at least: to be compared with
/// `level.subflows as f64 / level.capacity as f64` of a [`super::Level`]. In the unit of the capacities; 0 without flows.
///
/// Never less than what the links of a leaf prove, but for a billionth. Takes some tens of passes over pairs of leaves x spines, a
/// few seconds at most.
///
/// # Errors
/// A flow has no way at all, or is none: as [`super::place`].
pub fn lower_bound_by_duality(plane: &Plane, flows: &Flows) -> Result<f64, Infeasible> {
    let (leaves, spines) = (plane.leaves().len(), plane.spines().len());
    flows.check(leaves)?;
    let cells = (0..leaves).flat_map(|leaf| (0..spines).map(move |spine| (leaf, spine)));
    let capacity = |(leaf, spine)| {
        let links = plane.links(leaf, spine).iter();
        links.map(|link| u128::from(*link)).sum::<u128>() as f64
    };
    let network = Network::new(leaves, spines, cells.map(capacity).collect());
    let mut demands = Vec::with_capacity(flows.demands.pairs().len());
    for ((from, to), subflows) in flows.demands.pairs() {
        if !network.reaches(*from, *to) {
            return Err(no_way(plane, *from as usize, *to as usize));
        }
        demands.push(Demand {
            from: *from,
            to: *to,
            amount: *subflows as f64,
        });
    }
    let bins = network.bins(&mut demands);
    Ok(fluid::solve(&network, &demands, &bins).bound)
}

fn no_way(plane: &Plane, from: usize, to: usize) -> Infeasible {
    let without = [from, to]
        .into_iter()
        .find(|leaf| plane.capacity(*leaf) == 0);
    match without {
        Some(leaf) => Infeasible::NoLink { leaf },
        None => Infeasible::NoWay { from, to },
    }
}

#[cfg(test)]
mod tests;
