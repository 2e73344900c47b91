//! A problem made ready for solving leaf by leaf: dense tables instead of maps, made once and shared by all leaves.
//!
//! What each switch can carry to each leaf is swept once per destination, upwards from it. Every distinct pair of
//! capacities has a number, so that a destination is a row of small numbers, and destinations with equal rows over the
//! next switches of a source share one group there. It refuses to know weights.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use crate::problem::{Link, LinkId, Problem, SwitchId};
use crate::quantize::gcd;

/// The indexed fabric: uplinks of every leaf, and what every next switch can carry to every leaf.
///
/// Memory: 4 octets per leaf and per switch that has a leaf below it, 8 per leaf and distinct set of next switches.
#[derive(Debug)]
pub struct Fabric {
    /// The greatest common divisor of all capacities; everything else here counts in it.
    pub(crate) unit_bps: u64,
    /// In order of their numbers. Leaves are named by their place here.
    pub(crate) leaves: Arc<[SwitchId]>,
    /// Of each leaf.
    pub(crate) sources: Vec<Source>,
    /// Distinct sets of next switches, each with the destinations told apart by what those carry.
    pub(crate) pods: Vec<Pod>,
    /// Distinct capacities of a next switch to a leaf.
    pub(crate) onward: Vec<Onward>,
    /// What of `onward` is alive, as far as one link can carry it.
    pub(crate) onward_narrow: Vec<u64>,
    /// Of each leaf, as a destination: which of `onward` each next switch has. Rows of `columns`.
    rows: Vec<u32>,
    columns: usize,
}

/// An uplink of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// The link out of the leaf.
    pub link: LinkId,
    /// The switch at its other end.
    pub via: SwitchId,
}

/// A leaf as a source.
#[derive(Debug)]
pub(crate) struct Source {
    /// In order of the links.
    pub(crate) uplinks: Arc<[Uplink]>,
    /// Of each uplink.
    pub(crate) ports: Vec<Port>,
    /// In order of their first link: where no two links are parallel, the places of uplinks and ways are equal.
    pub(crate) ways: Vec<Way>,
    /// Place of the set of its next switches.
    pub(crate) pod: usize,
}

/// What an uplink can carry, and to which way it belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) way: usize,
    pub(crate) capacity: u64,
    pub(crate) alive: bool,
}

/// A next switch of a source, with the links to it counted together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) column: usize,
    /// Capacity of the live links.
    pub(crate) up: u128,
    /// How many links are alive.
    pub(crate) up_links: usize,
}

/// The destinations of all leaves with one set of next switches, told apart by what those can carry to them.
#[derive(Debug)]
pub(crate) struct Pod {
    /// The class of each leaf.
    pub(crate) class_of: Arc<[u32]>,
    /// Of each class its first two members: the second stands in where the first is the source itself.
    pub(crate) members: Vec<(usize, Option<usize>)>,
}

impl Pod {
    /// A destination of the class other than the source; None if the source is alone in it.
    pub(crate) fn example(&self, class: usize, source: usize) -> Option<usize> {
        let (first, second) = self.members[class];
        if first == source { second } else { Some(first) }
    }
}

/// What a switch can carry to a leaf: alive, and if every declared link were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Onward {
    pub(crate) alive: u128,
    pub(crate) declared: u128,
}

impl Fabric {
    /// Indexes a problem: near linear in links, plus for each leaf one sweep over the links above it.
    pub fn new(problem: &Problem) -> Self {
        let unit_bps = problem
            .links()
            .fold(0, |unit, link| gcd(unit, link.capacity_bps))
            .max(1);
        let graph = Graph::new(problem, unit_bps);
        let leaves: Vec<usize> = graph.of_tier(|tier| tier == 0).collect();
        let uplinks = uplinks(problem, &graph);
        let (columns, column_of) = columns(&graph);
        let mut indexed = Self {
            unit_bps,
            leaves: leaves.iter().map(|place| graph.ids[*place]).collect(),
            sources: Vec::with_capacity(leaves.len()),
            pods: Vec::new(),
            onward: Vec::new(),
            onward_narrow: Vec::new(),
            rows: Vec::with_capacity(leaves.len() * columns.len()),
            columns: columns.len(),
        };
        indexed.sweep_all(&graph, &leaves, &columns);
        let mut pods: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for leaf in leaves {
            let (source, columns) = source(&graph, &uplinks[leaf], &column_of, unit_bps);
            let new = pods.len();
            let pod = *pods.entry(columns).or_insert(new);
            indexed.sources.push(Source { pod, ..source });
        }
        let mut in_order: Vec<(Vec<usize>, usize)> = pods.into_iter().collect();
        in_order.sort_unstable_by_key(|(_, place)| *place);
        for (columns, _) in in_order {
            let pod = indexed.pod(&columns);
            indexed.pods.push(pod);
        }
        indexed
    }

    /// The leaves, in order of their numbers.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = SwitchId> + '_ {
        self.leaves.iter().copied()
    }

    /// Which of `onward` each next switch has to a destination.
    pub(crate) fn row(&self, destination: usize) -> &[u32] {
        &self.rows[destination * self.columns..][..self.columns]
    }

    /// How many switches are next to some leaf.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    fn sweep_all(&mut self, graph: &Graph, leaves: &[usize], columns: &[usize]) {
        let mut numbers: HashMap<Onward, u32, BuildHasherDefault<DefaultHasher>> =
            HashMap::default();
        let mut alive = vec![0; graph.ids.len()];
        let mut declared = alive.clone();
        for leaf in leaves {
            graph.sweep(*leaf, |bundle| bundle.alive, &mut alive);
            graph.sweep(*leaf, |bundle| bundle.declared, &mut declared);
            let mut last = None;
            for switch in columns {
                let onward = Onward {
                    alive: alive[*switch],
                    declared: declared[*switch],
                };
                let number = match last {
                    Some((same, number)) if same == onward => number,
                    _ => *numbers.entry(onward).or_insert_with(|| {
                        self.onward.push(onward);
                        let alive = u64::try_from(onward.alive).unwrap_or(u64::MAX);
                        self.onward_narrow.push(alive);
                        narrow(self.onward.len() - 1)
                    }),
                };
                last = Some((onward, number));
                self.rows.push(number);
            }
        }
    }

    /// Tells the destinations apart by what the switches of some columns carry to them.
    fn pod(&self, columns: &[usize]) -> Pod {
        let mut classes: HashMap<Vec<u32>, usize, BuildHasherDefault<DefaultHasher>> =
            HashMap::default();
        let mut members: Vec<(usize, Option<usize>)> = Vec::new();
        let class_of = (0..self.leaves.len()).map(|destination| {
            let row = self.row(destination);
            let key: Vec<u32> = columns.iter().map(|column| row[*column]).collect();
            let class = *classes.entry(key).or_insert(members.len());
            match members.get_mut(class) {
                None => members.push((destination, None)),
                Some((_, second)) => _ = second.get_or_insert(destination),
            }
            narrow(class)
        });
        Pod {
            class_of: class_of.collect(),
            members,
        }
    }
}

/// The links between two switches, counted together.
struct Bundle {
    low: usize,
    high: usize,
    alive: u128,
    declared: u128,
}

/// Switches by their places in the problem, and the bundles between tiers.
struct Graph {
    ids: Vec<SwitchId>,
    tiers: Vec<u8>,
    /// Places of the switches above tier 0, by tier.
    uppers: Vec<usize>,
    /// In order of the lower switch, then of the higher.
    bundles: Vec<Bundle>,
    /// Where the bundles of each lower switch begin; one more at the end.
    begins: Vec<usize>,
}

impl Graph {
    fn new(problem: &Problem, unit_bps: u64) -> Self {
        let (ids, tiers): (Vec<SwitchId>, Vec<u8>) = problem.switches().unzip();
        let mut graph = Self {
            uppers: Vec::new(),
            bundles: Vec::new(),
            begins: vec![0; ids.len() + 1],
            ids,
            tiers,
        };
        graph.uppers = graph.of_tier(|tier| tier > 0).collect();
        graph.uppers.sort_by_key(|place| graph.tiers[*place]);
        let mut links: Vec<(usize, usize, &Link)> = problem
            .links()
            .filter_map(|link| {
                graph
                    .ends(problem, link)
                    .map(|(low, high)| (low, high, link))
            })
            .collect();
        links.sort_unstable_by_key(|(low, high, _)| (*low, *high));
        for (low, high, link) in links {
            let declared = u128::from(link.capacity_bps / unit_bps);
            let alive = if link.alive { declared } else { 0 };
            match graph.bundles.last_mut() {
                Some(last) if (last.low, last.high) == (low, high) => {
                    last.alive += alive;
                    last.declared += declared;
                }
                _ => {
                    graph.begins[low + 1] += 1;
                    graph.bundles.push(Bundle {
                        low,
                        high,
                        alive,
                        declared,
                    });
                }
            }
        }
        for place in 1..graph.begins.len() {
            graph.begins[place] += graph.begins[place - 1];
        }
        graph
    }

    /// The places of the lower and the higher end; None within a tier.
    fn ends(&self, problem: &Problem, link: &Link) -> Option<(usize, usize)> {
        let (a, b) = (problem.place(link.ends.0)?, problem.place(link.ends.1)?);
        match self.tiers[a].cmp(&self.tiers[b]) {
            std::cmp::Ordering::Less => Some((a, b)),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some((b, a)),
        }
    }

    fn of_tier(&self, wanted: impl Fn(u8) -> bool) -> impl Iterator<Item = usize> {
        (0..self.ids.len()).filter(move |place| wanted(self.tiers[*place]))
    }

    fn above(&self, low: usize) -> &[Bundle] {
        &self.bundles[self.begins[low]..self.begins[low + 1]]
    }

    /// Fills in what every switch above the leaves can carry to the destination: straight down where a way down exists,
    /// else by way of the tier above.
    fn sweep(&self, destination: usize, capacity: impl Fn(&Bundle) -> u128, known: &mut [u128]) {
        known.fill(0);
        known[destination] = u128::MAX;
        for low in [destination].iter().chain(&self.uppers) {
            if known[*low] > 0 {
                for bundle in self.above(*low) {
                    known[bundle.high] += capacity(bundle).min(known[*low]);
                }
            }
        }
        for low in self.uppers.iter().rev() {
            if known[*low] == 0 {
                let over = self.above(*low).iter();
                known[*low] = over
                    .map(|bundle| capacity(bundle).min(known[bundle.high]))
                    .sum();
            }
        }
    }
}

/// By the place of each leaf its links to higher tiers, each with the place of the switch there, in order of the links.
fn uplinks<'a>(problem: &'a Problem, graph: &Graph) -> Vec<Vec<(&'a Link, usize)>> {
    let mut uplinks = vec![Vec::new(); graph.ids.len()];
    for link in problem.links() {
        if let Some((low, high)) = graph.ends(problem, link)
            && graph.tiers[low] == 0
        {
            uplinks[low].push((link, high));
        }
    }
    uplinks
}

/// The switches that are next to some leaf, and of each switch its column.
fn columns(graph: &Graph) -> (Vec<usize>, Vec<usize>) {
    let mut next = vec![false; graph.ids.len()];
    for bundle in &graph.bundles {
        next[bundle.high] |= graph.tiers[bundle.low] == 0;
    }
    let mut column_of = vec![0; graph.ids.len()];
    let columns: Vec<usize> = (0..next.len()).filter(|place| next[*place]).collect();
    for (column, place) in columns.iter().enumerate() {
        column_of[*place] = column;
    }
    (columns, column_of)
}

/// A leaf as a source, and the columns of its next switches in order.
fn source(
    graph: &Graph,
    links: &[(&Link, usize)],
    column_of: &[usize],
    unit_bps: u64,
) -> (Source, Vec<usize>) {
    let mut way_of: BTreeMap<usize, usize> = BTreeMap::new();
    let mut ways: Vec<Way> = Vec::new();
    let mut ports = Vec::with_capacity(links.len());
    for (link, high) in links {
        let way = *way_of.entry(column_of[*high]).or_insert_with(|| {
            ways.push(Way {
                column: column_of[*high],
                up: 0,
                up_links: 0,
            });
            ways.len() - 1
        });
        let capacity = link.capacity_bps / unit_bps;
        if link.alive {
            ways[way].up += u128::from(capacity);
            ways[way].up_links += 1;
        }
        ports.push(Port {
            way,
            capacity,
            alive: link.alive,
        });
    }
    let uplinks = links.iter().map(|(link, high)| Uplink {
        link: link.id,
        via: graph.ids[*high],
    });
    let source = Source {
        uplinks: uplinks.collect(),
        ports,
        ways,
        pod: 0,
    };
    (source, way_of.into_keys().collect())
}

/// A place as it is kept in a row: rows are what takes the memory.
fn narrow(place: usize) -> u32 {
    u32::try_from(place).expect("fewer distinct capacities and classes than 2^32")
}
