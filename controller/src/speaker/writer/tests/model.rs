//! Whatever is learned, turned, repeated and left behind: what a peer makes of the octets is what its last order says
//! that it is to be told. Tables, groups and feeds are real; the peer is a map, and drops at EoRR what was not repeated.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use bytes::BytesMut;
use proptest::prelude::*;
use weft_bgp::attribute::{Community, NextHop};
use weft_bgp::capability::AddPathSet;
use weft_bgp::frame;
use weft_bgp::message::{DecodeContext, Message};
use weft_bgp::nlri::unicast::Prefix4;
use weft_bgp::peer::ClusterId;
use weft_bgp::reflect::{Filter, Local};
use weft_bgp::table::{PeerKind, Source, Table};
use weft_bgp::update_group::{ExportKey, UpdateGroup};

use super::*;

const LOCAL: Local = Local {
    asn: 64_496,
    router_id: RouterId(0xc000_02fe),
    cluster_id: ClusterId(0xc000_02ff),
};
const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: AddPathSet::NONE,
};
const END_OF_RIB: &[u8] = b"end";
const BEGIN: &[u8] = b"BoRR";
const END: &[u8] = b"EoRR";

#[derive(Clone, Debug)]
enum Op {
    Announce {
        peer: u8,
        nlri: u8,
        targets: u8,
    },
    Withdraw {
        peer: u8,
        nlri: u8,
    },
    Write {
        octets: usize,
    },
    Turn {
        group: usize,
        interest: u8,
    },
    /// The writer hears of the turns that the reflector has answered.
    Hear,
    Again {
        marked: bool,
        cached: bool,
    },
}

fn any_op() -> impl Strategy<Value = Op> {
    let (peer, nlri) = (1..4_u8, 0..6_u8);
    prop_oneof![
        8 => (peer.clone(), nlri.clone(), 0..8_u8)
            .prop_map(|(peer, nlri, targets)| Op::Announce { peer, nlri, targets }),
        4 => (peer, nlri).prop_map(|(peer, nlri)| Op::Withdraw { peer, nlri }),
        6 => (1..600_usize).prop_map(|octets| Op::Write { octets }),
        3 => (0..2_usize, 0..9_u8).prop_map(|(group, interest)| Op::Turn { group, interest }),
        2 => Just(Op::Hear),
        2 => any::<(bool, bool)>().prop_map(|(marked, cached)| Op::Again { marked, cached }),
    ]
}

struct Group {
    updates: UpdateGroup<Prefix4>,
    feed: Arc<Feed>,
    cached: Option<(Arc<Segment>, Cursor)>,
}

/// By prefix, what was said of it.
type View = BTreeMap<Prefix4, Attributes>;

struct World {
    table: Table<Prefix4>,
    groups: Vec<Group>,
    told: (usize, Interest),
    gate: Arc<Gate>,
    /// Turns on their way to the writer.
    turned: VecDeque<Order>,
    writer: Writer,
    view: View,
    /// Repeated since BoRR.
    repeated: Option<BTreeSet<Prefix4>>,
    ended: bool,
    /// Sessions that began.
    sessions: usize,
    now: Instant,
}

fn source(number: u8) -> Arc<Source> {
    let peer = PeerId {
        router_id: RouterId(0xc000_0200 + u32::from(number)),
        asn: LOCAL.asn,
    };
    let address = Ipv4Addr::new(192, 0, 2, number).into();
    Arc::new(Source::new(peer, address, PeerKind::IbgpClient))
}

fn wanted(number: u8) -> Interest {
    let some = (0..3).filter(|bit| u32::from(number) & (1 << bit) != 0);
    match number {
        0 => Interest::Everything,
        8 => Interest::of_memberships([]),
        _ => Interest::of_exports(some.map(target)),
    }
}

impl World {
    fn new(feed_octets: usize) -> Self {
        let group = |graceful_shutdown| {
            let key = ExportKey {
                graceful_shutdown,
                filter: Filter(u32::MAX),
                ..ExportKey::new(PeerKind::IbgpClient, &CONTEXT)
            };
            Group {
                updates: UpdateGroup::new(key, LOCAL),
                feed: Arc::new(Feed::new(feed_octets)),
                cached: None,
            }
        };
        let mut world = Self {
            table: Table::new(),
            groups: vec![group(false), group(true)],
            told: (0, Interest::Everything),
            gate: Arc::default(),
            turned: VecDeque::new(),
            writer: Writer {
                control: VecDeque::new(),
                streams: Vec::new(),
                closing: false,
            },
            view: View::new(),
            repeated: None,
            ended: false,
            sessions: 0,
            now: Instant::now(),
        };
        world.start();
        world
    }

    /// A session begins.
    fn start(&mut self) {
        self.writer.streams.clear();
        self.view.clear();
        (self.repeated, self.ended) = (None, false);
        self.sessions += 1;
        self.turned.clear();
        self.gate = Arc::default();
        self.begin(0, true);
    }

    fn begin(&mut self, since: u64, ends: bool) -> bool {
        let group = &mut self.groups[self.told.0];
        let Ok(image) = group.updates.image(&self.table, since, &self.told.1) else {
            return false;
        };
        let cursor = group.feed.end();
        let stream = Stream {
            interest: self.told.1.clone(),
            end_of_rib: ends.then(|| (cursor, Bytes::from_static(END_OF_RIB))),
            gate: Arc::clone(&self.gate),
            ..stream(&group.feed, Arc::new(image))
        };
        self.writer.take(Order::Begin(Box::new(stream)));
        true
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Announce {
                peer,
                nlri,
                targets,
            } => {
                let attributes = Arc::new(Attributes {
                    next_hop: Some(NextHop::V4(Ipv4Addr::new(192, 0, 2, peer))),
                    ext_communities: (0..3)
                        .filter(|bit| u32::from(targets) & (1 << bit) != 0)
                        .map(target)
                        .collect(),
                    communities: vec![Community(targets.into())],
                    ..Attributes::default()
                });
                let source = source(peer);
                self.table.learn(&source, 0, prefix(nlri), attributes);
                self.select();
            }
            Op::Withdraw { peer, nlri } => {
                self.table.withdraw(source(peer).peer, 0, &prefix(nlri));
                self.select();
            }
            Op::Write { octets } => {
                self.write(octets);
            }
            Op::Turn { group, interest } => self.turn(group, wanted(interest)),
            Op::Hear => self.hear_turns(),
            Op::Again { marked, cached } => {
                // A peer asks for one thing after the other.
                self.hear_turns();
                self.again(marked, cached);
            }
        }
    }

    fn hear_turns(&mut self) {
        for order in std::mem::take(&mut self.turned) {
            self.writer.take(order);
        }
    }

    fn select(&mut self) {
        let changes = self.table.select();
        for group in &mut self.groups {
            group.feed.push(Arc::new(group.updates.advertise(&changes)));
        }
    }

    fn turn(&mut self, to: usize, interest: Interest) {
        let held = self.gate.hold();
        let old_key = self.groups[self.told.0].updates.key().clone();
        let until = self.groups[self.told.0].feed.end();
        let group = &mut self.groups[to];
        let old = (&old_key, &self.told.1);
        let segment = group.updates.turn(&self.table, old, &interest);
        let order = turn(until, Arc::new(segment), &group.feed, interest.clone());
        if let Order::Turn(family, turning, _) = order {
            self.turned.push_back(Order::Turn(family, turning, held));
        }
        self.told = (to, interest);
    }

    fn again(&mut self, marked: bool, cached: bool) {
        let group = &mut self.groups[self.told.0];
        if let Some((_, cursor)) = group.cached
            && (!cached || !group.feed.reaches(cursor))
        {
            group.cached = None;
        }
        let (image, cursor) = group.cached.clone().unwrap_or_else(|| {
            let image = group.updates.image(&self.table, 0, &self.told.1);
            let image = Arc::new(image.expect("0 is never too old"));
            (image, group.feed.end())
        });
        group.cached = Some((Arc::clone(&image), cursor));
        let complete = group.feed.end();
        self.writer.take(again(image, (cursor, complete), marked));
    }

    /// The peer takes so many octets, more or less. False: there is nothing to be written.
    fn write(&mut self, mut room: usize) -> bool {
        let mut octets = Vec::new();
        let now = self.now;
        let trouble = self.writer.streams[0].fill(&mut octets, &mut room, || now);
        let some = !octets.is_empty() || trouble.is_some();
        octets.iter().for_each(|octets| self.hear(octets));
        match trouble {
            None => {}
            // The answer that is on its way comes first; then what is missing, as the peer is told after it.
            Some(Trouble::Lagged(since)) => {
                self.hear_turns();
                if since == 0 || !self.begin(since, false) {
                    self.start();
                }
            }
            Some(Trouble::Lost) => self.start(),
        }
        some
    }

    fn hear(&mut self, octets: &[u8]) {
        match octets {
            END_OF_RIB => return self.ended = true,
            BEGIN => {
                assert!(self.ended, "no refresh before End-of-RIB");
                return self.repeated = Some(BTreeSet::new());
            }
            END => {
                let repeated = self.repeated.take().expect("EoRR comes after BoRR");
                return self.view.retain(|nlri, _| repeated.contains(nlri));
            }
            b"preface" => return,
            _ => {}
        }
        let split = frame::split(&mut BytesMut::from(octets), 4096);
        let split = split.expect("sound").expect("whole");
        let Ok(Message::Update(update)) = Message::decode(split, &CONTEXT) else {
            panic!("a frame is an UPDATE");
        };
        for (_, nlri) in &update.withdrawn {
            self.view.remove(nlri);
        }
        for (_, nlri) in &update.announced {
            self.view.insert(*nlri, update.attributes.clone());
            if let Some(repeated) = &mut self.repeated {
                repeated.insert(*nlri);
            }
        }
    }

    fn expected(&self) -> View {
        let (group, interest) = &self.told;
        let told = self.table.iter().filter_map(|destination| {
            let path = destination.selected?;
            let told = self.groups[*group].updates.explain(path, interest).ok()?;
            (path.source.peer != PEER).then_some((path.nlri, told))
        });
        told.collect()
    }
}

fn prefix(number: u8) -> Prefix4 {
    Prefix4::new(Ipv4Addr::new(198, 51, 100, number), 32).expect("32 is a length")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_peer_ends_with_what_its_last_order_says(
        ops in proptest::collection::vec(any_op(), 1..120),
        feed_octets in prop_oneof![Just(400_usize), Just(2_000), Just(1 << 20)],
    ) {
        let mut world = World::new(feed_octets);
        for op in &ops {
            world.run(op);
        }
        world.hear_turns();
        while world.write(usize::MAX) {}
        prop_assert_eq!(&world.view, &world.expected());
        prop_assert!(world.ended && world.repeated.is_none());
        // Whatever came while a turn was on its way: only who falls off a journal begins anew.
        prop_assert!(world.sessions == 1 || feed_octets < 1 << 20);
    }
}
