//! What a collective sends over the fabric: from which NIC to which, how many octets.
//!
//! NCCL's algorithms as they are by default: rings enter and leave a node over one NIC per channel, double binary trees are between
//! nodes, and what ranks send to each other in pairs goes rail by rail (PXN): first over NVLink to the NIC on the rail of the rank that
//! takes it. What stays within a node is not sent. Times are those that nccl-tests calls ideal: octets times a factor, by the
//! bandwidth of a node's NICs. It refuses to know links.

use std::collections::BTreeMap;
use std::fmt;

/// A NIC, by a number that the caller chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nic(pub u32);

/// The ranks of a communicator: nodes in order, each with the NICs of its ranks, as many on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    nodes: Vec<Vec<Nic>>,
    ranks_per_node: usize,
    /// Where each rank is.
    places: Vec<Place>,
}

/// Where a rank is: its node, and its NIC among those of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    node: usize,
    rail: usize,
}

impl Communicator {
    /// By rank: the node, by any number, and the NIC. Ranks of a node that share a NIC are one rail.
    ///
    /// # Errors
    /// There is no rank; nodes differ in their ranks or NICs; a NIC is in two nodes.
    pub fn new(ranks: &[(u32, Nic)]) -> Result<Self, CommunicatorError> {
        let mut nodes: Vec<(u32, Vec<Nic>)> = Vec::new();
        let mut numbers = BTreeMap::new();
        let mut owners = BTreeMap::new();
        for (rank, (node, nic)) in ranks.iter().enumerate() {
            let owner = *owners.entry(*nic).or_insert(*node);
            if owner != *node {
                return Err(CommunicatorError::SharedNic { nic: *nic, rank });
            }
            let number = *numbers.entry(*node).or_insert(nodes.len());
            match nodes.get_mut(number) {
                Some((_, nics)) => nics.push(*nic),
                None => nodes.push((*node, vec![*nic])),
            }
        }
        let ranks_per_node = nodes.first().ok_or(CommunicatorError::Empty)?.1.len();
        let mut all = Vec::new();
        for (node, mut nics) in nodes {
            let ranks = nics.len();
            let mut counts: BTreeMap<Nic, usize> = BTreeMap::new();
            nics.iter()
                .for_each(|nic| *counts.entry(*nic).or_default() += 1);
            let mut seen = Vec::new();
            nics.retain(|nic| !seen.contains(nic) && (seen.push(*nic), true).1);
            let like: Option<&Vec<Nic>> = all.first();
            let is_even = counts.values().all(|count| count * nics.len() == ranks);
            let is_like = like.is_none_or(|like| like.len() == nics.len());
            if ranks != ranks_per_node || !is_like || !is_even {
                return Err(CommunicatorError::Uneven { node });
            }
            all.push(nics);
        }
        // No NIC is in two nodes.
        let rails = all.iter().flat_map(|nics| nics.iter().copied().zip(0..));
        let rails: BTreeMap<Nic, usize> = rails.collect();
        let place = |(node, nic): &(u32, Nic)| Place {
            node: numbers[node],
            rail: rails[nic],
        };
        Ok(Self {
            places: ranks.iter().map(place).collect(),
            nodes: all,
            ranks_per_node,
        })
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.nodes.len() * self.ranks_per_node
    }

    /// How many NICs each node has.
    pub fn rails(&self) -> usize {
        self.nodes.first().map_or(0, Vec::len)
    }
}

/// Why ranks are no communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommunicatorError {
    /// There is no rank.
    Empty,
    /// A node has more or fewer ranks or NICs than the first one, or a NIC has more ranks than another.
    Uneven {
        /// The node.
        node: u32,
    },
    /// A NIC belongs to another node already.
    SharedNic {
        /// The NIC.
        nic: Nic,
        /// The rank that names it once more.
        rank: usize,
    },
}

impl fmt::Display for CommunicatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there is no rank"),
            Self::Uneven { node } => {
                write!(
                    f,
                    "node {node} has other ranks or NICs than the first one, or NICs with more ranks than others"
                )
            }
            Self::SharedNic {
                nic: Nic(nic),
                rank,
            } => {
                write!(f, "rank {rank}: NIC {nic} is in two nodes")
            }
        }
    }
}

impl std::error::Error for CommunicatorError {}

/// What a communicator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective<'a> {
    /// Around a ring of nodes, twice.
    AllReduceRing,
    /// Up and down two binary trees of nodes, half of the octets in each.
    AllReduceDoubleTree,
    /// Within each node first: what is left is a ring for each rail.
    AllReduceHierarchical,
    /// Around a ring. `octets` are what a rank has afterwards.
    AllGather,
    /// Around a ring. `octets` are what a rank has before.
    ReduceScatter,
    /// From each rank to each, rail by rail.
    AllToAll,
    /// From each rank to each, rail by rail, as many octets as are here: row by row, an entry for each rank that takes. With another
    /// number of entries than ranks by ranks nothing is sent, and no rank sends to itself. The `octets` of a call are not looked at.
    AllToAllV(&'a [u64]),
    /// From each rank to the next one, by the rail of that one; the last one sends nothing. `octets` are what a rank sends.
    SendReceive,
    /// Along a ring, from the first rank on.
    Broadcast,
    /// Along a ring, from the second rank on to the first one.
    Reduce,
    /// From every rank to the first one. `octets` are what that one has afterwards.
    Gather,
    /// From the first rank to every other. `octets` are what that one has before.
    Scatter,
}

impl Collective<'_> {
    /// What nccl-tests divides octets by time with, for a bandwidth that does not depend on the number of ranks: that of a node's NICs
    /// for rings and trees, and that of a rank for the others, where what stays within a node counts too. It has no all-to-all-v: of
    /// that, octets are the most that a rank sends to others, or takes of them.
    pub fn factor(self, ranks: usize) -> f64 {
        let ranks = ranks as f64;
        match self {
            Self::AllReduceRing | Self::AllReduceDoubleTree | Self::AllReduceHierarchical => {
                2.0 * (ranks - 1.0) / ranks
            }
            Self::AllGather
            | Self::ReduceScatter
            | Self::AllToAll
            | Self::Gather
            | Self::Scatter => (ranks - 1.0) / ranks,
            Self::Broadcast | Self::Reduce | Self::AllToAllV(_) | Self::SendReceive => 1.0,
        }
    }

    /// The ideal time in seconds of so many octets over so many bits per second.
    pub fn ideal_seconds(self, ranks: usize, octets: u64, bps: f64) -> f64 {
        octets as f64 * 8.0 * self.factor(ranks) / bps
    }
}

/// What one NIC sends to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand {
    /// Sends.
    pub from: Nic,
    /// Takes.
    pub to: Nic,
    /// How much, rounded up.
    pub octets: u64,
}

/// How many pairs of NICs a collective has demands between, at most.
pub fn pairs(communicator: &Communicator, collective: Collective, channels: u32) -> usize {
    let (nodes, rails) = (communicator.nodes.len(), communicator.rails());
    let used = rails.min(channels.max(1) as usize);
    match collective {
        _ if nodes < 2 => 0,
        Collective::AllReduceRing
        | Collective::AllGather
        | Collective::ReduceScatter
        | Collective::Broadcast
        | Collective::Reduce => nodes * used,
        // Two trees, up and down.
        Collective::AllReduceDoubleTree => 4 * nodes * used,
        Collective::AllReduceHierarchical | Collective::Gather | Collective::Scatter => {
            nodes * rails
        }
        Collective::AllToAll => all_pairs(nodes, rails),
        Collective::AllToAllV(octets) => {
            let sent = octets.iter().filter(|octets| **octets > 0).count();
            sent.min(all_pairs(nodes, rails))
        }
        Collective::SendReceive => communicator.ranks() - 1,
    }
}

/// Pairs of NICs of different nodes on one rail.
fn all_pairs(nodes: usize, rails: usize) -> usize {
    nodes.saturating_mul(nodes - 1).saturating_mul(rails)
}

/// Octets that each NIC sends, and takes, in an all-to-all of a buffer of `octets`, rounded up: known without a look at each pair.
pub fn all_to_all_of_nic(communicator: &Communicator, octets: u64) -> u64 {
    let (ranks, per_node) = (communicator.ranks() as u128, communicator.ranks_per_node);
    let elsewhere = ranks - per_node as u128;
    // Ranks of a NIC, each of which sends to all that are elsewhere.
    let of_nic = (per_node / communicator.rails().max(1)) as u128;
    let octets = (u128::from(octets) * elsewhere * of_nic).div_ceil(ranks);
    u64::try_from(octets).unwrap_or(u64::MAX)
}

/// What a collective of a buffer of `octets` sends between nodes, with so many channels, by NIC and NIC; each pair once.
///
/// Channels take the NICs of a node in turn. Fewer channels than NICs leave some without work, as in NCCL.
pub fn demands(
    communicator: &Communicator,
    collective: Collective,
    octets: u64,
    channels: u32,
) -> Vec<Demand> {
    let (nodes, rails) = (communicator.nodes.len(), communicator.rails());
    let channels = channels.max(1) as usize;
    let mut sums = Sums {
        communicator,
        octets,
        all: BTreeMap::new(),
    };
    let ranks = communicator.ranks() as u64;
    let per_channel = ranks * channels as u64;
    let rail = |channel: usize| channel % rails.max(1);
    match collective {
        _ if nodes < 2 => {}
        Collective::AllReduceRing => {
            (0..channels).for_each(|it| sums.ring(rail(it), 2 * (ranks - 1), per_channel));
        }
        Collective::AllGather | Collective::ReduceScatter => {
            (0..channels).for_each(|it| sums.ring(rail(it), ranks - 1, per_channel));
        }
        Collective::AllReduceHierarchical => {
            let nodes = nodes as u64;
            (0..rails).for_each(|it| sums.ring(it, 2 * (nodes - 1), nodes * rails as u64));
        }
        Collective::AllReduceDoubleTree => {
            for channel in 0..channels {
                for (child, parent) in double_tree(nodes) {
                    sums.add(child, parent, rail(channel), 1, 2 * channels as u64);
                    sums.add(parent, child, rail(channel), 1, 2 * channels as u64);
                }
            }
        }
        Collective::Broadcast => {
            for channel in 0..channels {
                (1..nodes).for_each(|to| sums.add(to - 1, to, rail(channel), 1, channels as u64));
            }
        }
        Collective::Reduce => {
            for channel in 0..channels {
                (1..nodes).for_each(|from| {
                    sums.add(from, (from + 1) % nodes, rail(channel), 1, channels as u64);
                });
            }
        }
        Collective::AllToAll => {
            // What all ranks of a node send to a rank elsewhere leaves over the NIC on that rank's rail.
            let per_node = communicator.ranks_per_node as u64;
            for from in 0..nodes {
                for to in (0..nodes).filter(|to| *to != from) {
                    (0..rails).for_each(|it| {
                        sums.add(from, to, it, per_node * per_node, ranks * rails as u64)
                    });
                }
            }
        }
        Collective::AllToAllV(octets) => return between_ranks(communicator, octets),
        Collective::SendReceive => sums.line(),
        Collective::Gather => {
            // To one rank: by its rail.
            let per_node = communicator.ranks_per_node as u64;
            (1..nodes).for_each(|node| sums.add(node, 0, 0, per_node, ranks));
        }
        Collective::Scatter => {
            let per_node = communicator.ranks_per_node as u64;
            for node in 1..nodes {
                (0..rails).for_each(|it| sums.add(0, node, it, per_node, ranks * rails as u64));
            }
        }
    }
    sums.demands()
}

/// What a matrix of octets has from rank to rank, by NIC and NIC: what a node sends to a rank leaves over the NIC on that rank's rail.
fn between_ranks(communicator: &Communicator, octets: &[u64]) -> Vec<Demand> {
    let (nodes, rails) = (communicator.nodes.len(), communicator.rails());
    let ranks = &communicator.places;
    if octets.len() != ranks.len() * ranks.len() {
        return Vec::new();
    }
    // By nodes and rail: no more than there are octets.
    let mut sums = vec![0_u64; nodes * nodes * rails];
    for (from, row) in ranks.iter().zip(octets.chunks(ranks.len())) {
        for (to, octets) in ranks.iter().zip(row) {
            if from.node != to.node {
                let sum = &mut sums[(from.node * nodes + to.node) * rails + to.rail];
                *sum = sum.saturating_add(*octets);
            }
        }
    }
    let sums = sums.into_iter().enumerate();
    let sent = sums.filter(|(_, octets)| *octets > 0);
    let nic = |node: usize, rail: usize| communicator.nodes[node][rail];
    let demand = |(at, octets): (usize, u64)| Demand {
        from: nic(at / rails / nodes, at % rails),
        to: nic(at / rails % nodes, at % rails),
        octets,
    };
    sent.map(demand).collect()
}

/// Parts of the octets that NICs send, over their common denominator where it is the same.
struct Sums<'a> {
    communicator: &'a Communicator,
    octets: u64,
    /// Numerators by NICs and denominator.
    all: BTreeMap<(Nic, Nic, u64), u64>,
}

impl Sums<'_> {
    /// Adds so many parts of the octets, from one node to another, on one rail.
    fn add(&mut self, from: usize, to: usize, rail: usize, parts: u64, of: u64) {
        let nic = |node: usize| self.communicator.nodes[node][rail];
        let key = (nic(from), nic(to), of);
        *self.all.entry(key).or_default() += parts;
    }

    /// Adds so many parts of the octets from each node to the next one, on one rail.
    fn ring(&mut self, rail: usize, parts: u64, of: u64) {
        let nodes = self.communicator.nodes.len();
        (0..nodes).for_each(|node| self.add(node, (node + 1) % nodes, rail, parts, of));
    }

    /// Adds the octets from each rank to the next one, by the rail of that one.
    fn line(&mut self) {
        let communicator = self.communicator;
        for ends in communicator.places.windows(2) {
            let (from, to) = (ends[0], ends[1]);
            if from.node != to.node {
                self.add(from.node, to.node, to.rail, 1, 1);
            }
        }
    }

    fn demands(self) -> Vec<Demand> {
        let octets = |parts: u64, of: u64| {
            let octets = (u128::from(self.octets) * u128::from(parts)).div_ceil(u128::from(of));
            u64::try_from(octets).unwrap_or(u64::MAX)
        };
        let demand = |((from, to, of), parts): (&(Nic, Nic, u64), &u64)| Demand {
            from: *from,
            to: *to,
            octets: octets(*parts, *of),
        };
        self.all.iter().map(demand).collect()
    }
}

/// Edges of two binary trees of so many nodes, from child to parent: a node has children in at most one of them.
///
/// The first tree is in order of the numbers of its nodes, with their lowest set bit as height; the other one is its mirror, or with
/// an odd number of nodes moved by one.
fn double_tree(nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    let first = (1..nodes).map(move |node| (node, parent(node, nodes)));
    let other = move |node: usize| match nodes % 2 {
        0 => nodes - 1 - node,
        _ => (node + 1) % nodes,
    };
    let second = first
        .clone()
        .map(move |(child, parent)| (other(child), other(parent)));
    first.chain(second)
}

fn parent(node: usize, nodes: usize) -> usize {
    let height = node & node.wrapping_neg();
    let above = (node ^ height) | (height << 1);
    match above < nodes {
        true => above,
        false => node ^ height,
    }
}

/// The groups of ranks along one dimension of a layout: those that differ in it alone. Dimensions are named with the one first in
/// which neighbours differ: "tp-cp-ep-dp-pp".
///
/// # Errors
/// The degrees do not multiply to the number of ranks, or there is no such dimension.
pub fn groups(
    layout: &[(&str, usize)],
    dimension: &str,
    ranks: usize,
) -> Result<Vec<Vec<usize>>, LayoutError> {
    let product = layout
        .iter()
        .try_fold(1_usize, |all, (_, degree)| all.checked_mul(*degree));
    if product != Some(ranks) || ranks == 0 {
        return Err(LayoutError::Degrees { product, ranks });
    }
    let mut stride = 1;
    for (name, degree) in layout {
        if *name == dimension {
            let begins = (0..ranks).filter(|rank| rank / stride % degree == 0);
            let group = |begin: usize| (0..*degree).map(|at| begin + at * stride).collect();
            return Ok(begins.map(group).collect());
        }
        stride *= degree;
    }
    Err(LayoutError::Unknown)
}

/// Why a layout makes no groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The degrees multiply to something else than the number of ranks; None: to more than there can be.
    Degrees {
        /// The product.
        product: Option<usize>,
        /// The ranks.
        ranks: usize,
    },
    /// The layout has no such dimension.
    Unknown,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Degrees {
                product: Some(product),
                ranks,
            } => write!(
                f,
                "the degrees multiply to {product}, and there are {ranks} ranks"
            ),
            Self::Degrees { ranks, .. } => {
                write!(f, "the degrees are too large for {ranks} ranks")
            }
            Self::Unknown => f.write_str("the layout has no such dimension"),
        }
    }
}

impl std::error::Error for LayoutError {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Nodes with as many NICs as ranks.
    fn communicator(nodes: u32, rails: u32) -> Communicator {
        let rank = |rank: u32| (rank / rails, Nic(rank));
        let ranks: Vec<_> = (0..nodes * rails).map(rank).collect();
        Communicator::new(&ranks).unwrap()
    }

    /// The most that a NIC sends, and the most that one takes.
    fn busiest(demands: &[Demand]) -> (u64, u64) {
        let (mut sent, mut taken) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
        for demand in demands {
            *sent.entry(demand.from).or_default() += demand.octets;
            *taken.entry(demand.to).or_default() += demand.octets;
        }
        let most = |sums: BTreeMap<Nic, u64>| sums.into_values().max().unwrap_or_default();
        (most(sent), most(taken))
    }

    #[test]
    fn there_are_no_more_demands_than_pairs() {
        for (nodes, rails, channels) in [(1, 2, 1), (2, 1, 1), (5, 4, 2), (6, 2, 7), (9, 3, 3)] {
            let communicator = communicator(nodes, rails);
            let trees = [
                Collective::AllReduceDoubleTree,
                Collective::AllReduceHierarchical,
            ];
            let stars = [
                Collective::AllToAll,
                Collective::Gather,
                Collective::Scatter,
            ];
            let lines = [
                Collective::Broadcast,
                Collective::Reduce,
                Collective::SendReceive,
            ];
            let matrix = vec![1_u64; communicator.ranks() * communicator.ranks()];
            let lines = lines.into_iter().chain([Collective::AllToAllV(&matrix)]);
            for collective in RINGS.into_iter().chain(trees).chain(stars).chain(lines) {
                let demands = demands(&communicator, collective, 1 << 20, channels);
                let pairs = pairs(&communicator, collective, channels);
                let exact = collective != Collective::AllReduceDoubleTree
                    && collective != Collective::Gather
                    && collective != Collective::SendReceive;
                assert!(demands.len() <= pairs, "{collective:?}");
                assert!(!exact || 2 * demands.len() >= pairs, "{collective:?}");
            }
        }
    }

    const RINGS: [Collective<'static>; 4] = [
        Collective::AllReduceRing,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::Broadcast,
    ];

    proptest! {
        /// With a channel for each NIC a ring takes as long as nccl-tests says for the bandwidth of a node.
        #[test]
        fn ideal_times_are_those_of_nccl_tests(nodes in 2..40_u32, rails in 1..9_u32, units in 1..1000_u64) {
            let communicator = communicator(nodes, rails);
            let ranks = communicator.ranks();
            let octets = units * ranks as u64 * u64::from(rails);
            let (nic_bps, node_bps) = (8e9, 8e9 * f64::from(rails));
            let time = |octets: u64| octets as f64 * 8.0 / nic_bps;
            let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            for collective in RINGS {
                let (sent, taken) = busiest(&demands(&communicator, collective, octets, rails));
                prop_assert_eq!(sent, taken);
                let ideal = collective.ideal_seconds(ranks, octets, node_bps);
                prop_assert!(near(time(sent), ideal), "{collective:?}: {} {}", time(sent), ideal);
            }
            if rails == 1 {
                for collective in [Collective::AllToAll, Collective::AllReduceHierarchical] {
                    let (sent, taken) = busiest(&demands(&communicator, collective, octets, 1));
                    let ideal = collective.ideal_seconds(ranks, octets, nic_bps);
                    prop_assert!(sent == taken && near(time(sent), ideal), "{collective:?}");
                }
            }
            // From node to node one rank sends, over one NIC.
            let (sent, taken) = busiest(&demands(&communicator, Collective::SendReceive, octets, rails));
            let ideal = Collective::SendReceive.ideal_seconds(ranks, octets, nic_bps);
            prop_assert!(sent == taken && near(time(sent), ideal), "{sent} {taken} {octets}");
        }

        #[test]
        fn an_even_matrix_is_an_all_to_all(nodes in 1..12_u32, rails in 1..9_u32, octets in 1..1000_u64) {
            let communicator = communicator(nodes, rails);
            let ranks = communicator.ranks();
            let matrix = vec![octets; ranks * ranks];
            let whole = octets * ranks as u64;
            let even = demands(&communicator, Collective::AllToAll, whole, 1);
            let mut own = demands(&communicator, Collective::AllToAllV(&matrix), 0, 1);
            own.sort_unstable();
            prop_assert_eq!(&own, &even);
            let of_nic = all_to_all_of_nic(&communicator, whole);
            prop_assert_eq!(busiest(&own), (of_nic, of_nic));
        }

        #[test]
        fn an_all_to_all_stays_on_its_rails_and_is_even(nodes in 2..12_u32, rails in 1..9_u32) {
            let communicator = communicator(nodes, rails);
            let ranks = communicator.ranks() as u64;
            let all = demands(&communicator, Collective::AllToAll, 1000 * ranks, 1);
            prop_assert_eq!(all.len() as u32, nodes * (nodes - 1) * rails);
            for demand in &all {
                prop_assert_eq!(demand.from.0 % rails, demand.to.0 % rails);
                prop_assert_eq!(demand.octets, 1000 * u64::from(rails));
            }
        }

        #[test]
        fn two_trees_reach_every_node_and_none_is_inside_both(nodes in 2..200_usize) {
            let edges: Vec<_> = double_tree(nodes).collect();
            let (first, second) = edges.split_at(nodes - 1);
            let mut inside = Vec::new();
            for tree in [first, second] {
                let parents: BTreeMap<usize, usize> = tree.iter().copied().collect();
                prop_assert_eq!(parents.len(), nodes - 1);
                let roots: Vec<usize> = (0..nodes).filter(|it| !parents.contains_key(it)).collect();
                prop_assert_eq!(roots.len(), 1);
                for node in 0..nodes {
                    let (mut at, mut steps) = (node, 0);
                    while let Some(parent) = parents.get(&at) {
                        (at, steps) = (*parent, steps + 1);
                        prop_assert!(steps <= nodes.ilog2() + 2, "{node}");
                    }
                }
                let children = |node: usize| parents.values().filter(|it| **it == node).count();
                prop_assert!((0..nodes).all(|node| children(node) <= 2));
                let inner: BTreeSet<usize> = parents.values().copied().filter(|it| *it != roots[0]).collect();
                inside.push(inner);
            }
            if nodes % 2 == 0 {
                prop_assert!(inside[0].is_disjoint(&inside[1]));
            }
        }

        #[test]
        fn a_dimension_divides_all_ranks(tp in 1..5_usize, dp in 1..5_usize, pp in 1..5_usize) {
            let layout = [("tp", tp), ("dp", dp), ("pp", pp)];
            let ranks = tp * dp * pp;
            for (name, degree) in layout {
                let groups = groups(&layout, name, ranks).unwrap();
                prop_assert!(groups.iter().all(|group| group.len() == degree));
                let all: BTreeSet<usize> = groups.into_iter().flatten().collect();
                prop_assert_eq!(all, (0..ranks).collect::<BTreeSet<_>>());
            }
        }
    }

    #[test]
    fn neighbours_are_in_the_first_dimension() {
        let layout = [("tp", 2), ("dp", 2), ("pp", 2)];
        let of = |name| groups(&layout, name, 8).unwrap()[0].clone();
        assert_eq!(
            (of("tp"), of("dp"), of("pp")),
            (vec![0, 1], vec![0, 2], vec![0, 4])
        );
        let refused = |ranks| groups(&layout, "tp", ranks).unwrap_err().to_string();
        assert_eq!(
            refused(16),
            "the degrees multiply to 8, and there are 16 ranks"
        );
        assert_eq!(groups(&layout, "ep", 8), Err(LayoutError::Unknown));
        let large = [("tp", usize::MAX), ("dp", 2)];
        assert!(matches!(
            groups(&large, "tp", 8),
            Err(LayoutError::Degrees { product: None, .. })
        ));
    }

    #[test]
    fn ranks_are_on_nodes_that_are_alike() {
        let refused = |ranks: &[(u32, Nic)]| Communicator::new(ranks).unwrap_err().to_string();
        assert_eq!(refused(&[]), "there is no rank");
        let uneven = [(0, Nic(0)), (0, Nic(1)), (1, Nic(2))];
        assert_eq!(
            refused(&uneven),
            "node 1 has other ranks or NICs than the first one, or NICs with more ranks than others"
        );
        let shared = [(0, Nic(0)), (1, Nic(0))];
        assert_eq!(refused(&shared), "rank 1: NIC 0 is in two nodes");
        // Two ranks of a node behind one NIC: one rail.
        let ranks = [(0, Nic(0)), (0, Nic(0)), (1, Nic(1)), (1, Nic(1))];
        let shared = Communicator::new(&ranks).unwrap();
        assert_eq!((shared.ranks(), shared.rails()), (4, 1));
        let sent = busiest(&demands(&shared, Collective::AllToAll, 400, 1)).0;
        // Two ranks send 100 octets each to each of the two on the other node.
        assert_eq!(sent, 400);
    }

    fn demand(from: u32, to: u32, octets: u64) -> Demand {
        let (from, to) = (Nic(from), Nic(to));
        Demand { from, to, octets }
    }

    #[test]
    fn a_matrix_goes_over_the_rail_of_the_rank_that_takes() {
        let communicator = communicator(2, 2);
        #[rustfmt::skip]
        let matrix = [
            9, 9, 10, 20,
            9, 9, 1, 2,
            3, 0, 9, 9,
            4, 0, 9, 9,
        ];
        let collective = Collective::AllToAllV(&matrix);
        let sent = demands(&communicator, collective, 0, 1);
        let expected = [
            demand(0, 2, 10 + 1),
            demand(1, 3, 20 + 2),
            demand(2, 0, 3 + 4),
        ];
        assert_eq!(sent, expected);
        assert_eq!(pairs(&communicator, collective, 1), 4);
        // The busiest NIC sends 22 octets at 8 bits per second.
        assert_eq!(collective.ideal_seconds(4, 22, 8.0), 22.0);
        let most = demands(&communicator, Collective::AllToAllV(&[u64::MAX; 16]), 0, 1);
        assert!(most.len() == 4 && most.iter().all(|it| it.octets == u64::MAX));
        for wrong in [&matrix[..15], &[], &[1; 17]] {
            let collective = Collective::AllToAllV(wrong);
            assert_eq!(demands(&communicator, collective, 0, 1), []);
        }
    }

    #[test]
    fn each_rank_sends_to_the_next_one_and_the_last_to_nobody() {
        // Of six ranks on three nodes two have the next one on another node, on its first rail.
        let sent = demands(&communicator(3, 2), Collective::SendReceive, 100, 1);
        assert_eq!(sent, [demand(0, 2, 100), demand(2, 4, 100)]);
        // Ranks on two nodes in turn: the third one has the second rail of the first node.
        let ranks = [(0, Nic(0)), (1, Nic(2)), (0, Nic(1)), (1, Nic(3))];
        let turns = Communicator::new(&ranks).unwrap();
        let sent = demands(&turns, Collective::SendReceive, 100, 1);
        let expected = [demand(0, 2, 100), demand(1, 3, 100), demand(3, 1, 100)];
        assert_eq!(sent, expected);
        // Ranks that share a NIC send one after the other.
        let ranks = [(0, Nic(0)), (1, Nic(1)), (0, Nic(0)), (1, Nic(1))];
        let shared = Communicator::new(&ranks).unwrap();
        let sent = demands(&shared, Collective::SendReceive, 100, 1);
        assert_eq!(sent, [demand(0, 1, 200), demand(1, 0, 100)]);
    }

    #[test]
    fn a_single_node_sends_nothing() {
        let ranks = [(0, Nic(0)), (0, Nic(1))];
        let communicator = Communicator::new(&ranks).unwrap();
        assert_eq!(
            demands(&communicator, Collective::AllReduceRing, 100, 2),
            []
        );
        for collective in [Collective::AllToAllV(&[1; 4]), Collective::SendReceive] {
            assert_eq!(demands(&communicator, collective, 100, 2), []);
            assert_eq!(pairs(&communicator, collective, 2), 0);
        }
        assert_eq!(all_to_all_of_nic(&communicator, 100), 0);
    }
}
