//! How traffic is spread over paths: a problem, shares by live capacity, small integer weights, reasons, a checker.
//!
//! Pure and deterministic: equal problems give equal solutions, whatever the order of their parts. It refuses to know
//! where its numbers come from (telemetry, an operator) and where its answers go (gRIBI, a kernel).
//!
//! ```
//! use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
//! use weft_weights::quantize::Limits;
//! use weft_weights::{check, spread};
//!
//! // Two leaves, two spines; the link from spine 11 to leaf 2 runs at half speed.
//! let switch = |id, tier| Switch { id: SwitchId(id), tier };
//! let link = |id, a, b, gbps: u64| Link {
//!     id: LinkId(id),
//!     ends: (SwitchId(a), SwitchId(b)),
//!     capacity_bps: gbps * 1_000_000_000,
//!     alive: true,
//! };
//! let problem = Problem::new(
//!     vec![switch(1, 0), switch(2, 0), switch(10, 1), switch(11, 1)],
//!     vec![link(0, 1, 10, 100), link(1, 1, 11, 100), link(2, 2, 10, 100), link(3, 2, 11, 50)],
//! )
//! .unwrap();
//! let solution = spread::solve(&problem, Limits::default());
//! let group = solution.group(SwitchId(1), SwitchId(2)).unwrap();
//! let weights: Vec<u32> = group.members.iter().map(|member| member.weight).collect();
//! assert_eq!(weights, [2, 1]);
//! assert_eq!(
//!     group.members[1].reason.to_string(),
//!     "1 of 3 parts: 50 Gb/s end to end, the least of 100 Gb/s up and 50 Gb/s down"
//! );
//! check::check(&problem, Limits::default(), &solution).unwrap();
//! ```
//!
//! A large fabric is indexed once, solved and checked leaf by leaf, and explained when somebody asks:
//!
//! ```
//! # use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
//! use weft_weights::check::Checker;
//! use weft_weights::fabric::Fabric;
//! use weft_weights::quantize::Limits;
//! # let switch = |id, tier| Switch { id: SwitchId(id), tier };
//! # let link = |id, a| Link {
//! #     id: LinkId(id),
//! #     ends: (SwitchId(a), SwitchId(10)),
//! #     capacity_bps: 100_000_000_000,
//! #     alive: true,
//! # };
//! # let problem = Problem::new(vec![switch(1, 0), switch(2, 0), switch(10, 1)], vec![link(0, 1), link(1, 2)]).unwrap();
//!
//! let fabric = Fabric::new(&problem);
//! let checker = Checker::new(&problem);
//! for source in fabric.leaves() {
//!     let leaf = fabric.leaf(source, Limits::default()).unwrap();
//!     checker.check_leaf(Limits::default(), &leaf).unwrap();
//!     for (_destination, group) in leaf.destinations() {
//!         let weights = leaf.weights(group);
//!         assert_eq!((weights.weights, weights.parts), (&[1][..], 1));
//!         assert_eq!(fabric.explain(&leaf, group).members[0].via, SwitchId(10));
//!     }
//! }
//! ```

//!
//! Where flows are known, each is pinned to a spine, so that no link carries more than it must:
//!
//! ```
//! # use weft_weights::problem::{Link, LinkId, Problem, Switch, SwitchId};
//! use weft_weights::pin::{Flow, Flows, Plane, place, recount};
//! # let switch = |id, tier| Switch { id: SwitchId(id), tier };
//! # let link = |id, a, b| Link {
//! #     id: LinkId(id),
//! #     ends: (SwitchId(a), SwitchId(b)),
//! #     capacity_bps: 100_000_000_000,
//! #     alive: true,
//! # };
//! # let problem = Problem::new(
//! #     vec![switch(1, 0), switch(2, 0), switch(10, 1), switch(11, 1)],
//! #     vec![link(0, 1, 10), link(1, 1, 11), link(2, 2, 10), link(3, 2, 11)],
//! # )
//! # .unwrap();
//!
//! // Two NICs of the first leaf send at the rate of a link each, in up to 16 sub-flows.
//! let flows = Flows::new(vec![Flow { from: 0, to: 1, subflows: 16 }; 2]);
//! let placement = place(&Plane::new(&problem), &flows).unwrap();
//! let counted = recount(&problem, &flows, &placement.parts).unwrap();
//! assert_eq!(counted.load(100e9 / 16.0), 1.0);
//! assert_eq!(placement.level, placement.bound.level);
//! ```

pub mod check;
pub mod demand;
pub mod explain;
pub mod fabric;
mod fluid;
pub mod hashing;
mod joined;
pub mod leaf;
pub mod pin;
pub mod problem;
pub mod quantize;
pub mod simulate;
pub mod spread;
pub mod together;
pub mod traffic;
