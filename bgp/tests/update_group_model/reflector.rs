//! The reflector under test: a table, its groups, their journals and members. It refuses to know what is right.

use super::*;

pub(super) struct Member<N> {
    pub(super) peer: PeerId,
    pub(super) group: usize,
    pub(super) manner: Manner,
    pub(super) interest: Interest,
    pub(super) cursor: Cursor,
    pub(super) revision: u64,
    pub(super) view: View<N>,
}

pub(super) struct Group<N> {
    pub(super) key: ExportKey,
    pub(super) updates: UpdateGroup<N>,
    pub(super) journal: Journal,
}

pub(super) struct Reflector<N: Nlri> {
    pub(super) interner: Interner,
    pub(super) table: Table<N>,
    pub(super) groups: Vec<Group<N>>,
    pub(super) members: Vec<Member<N>>,
    pub(super) bounds: Bounds,
    pub(super) images: u32,
}

impl<N: Subject> Reflector<N> {
    pub(super) fn new(bounds: Bounds) -> Self {
        let mut reflector = Self {
            interner: Interner::new(0),
            table: Table::new().with_tombstones(bounds.tombstones),
            groups: Vec::new(),
            members: Vec::new(),
            bounds,
            images: 0,
        };
        reflector.table.track_paths(true);
        for (peer, kind) in KINDS.into_iter().enumerate() {
            let manner = bounds.manners[peer % bounds.manners.len()];
            let group = reflector.group(kind, manner);
            reflector.members.push(Member {
                peer: source(peer).peer,
                group,
                manner,
                interest: Interest::Everything,
                cursor: reflector.groups[group].journal.end(),
                revision: 0,
                view: View::new(),
            });
        }
        reflector
    }

    pub(super) fn group(&mut self, kind: PeerKind, manner: Manner) -> usize {
        let context = DecodeContext {
            four_octet_as: self.bounds.four_octet_as,
            ibgp: !kind.is_external(),
            extended_message: false,
            add_path: AddPathSet::NONE,
        };
        let key = ExportKey {
            max_len: self.bounds.max_len,
            long_lived: manner.long_lived,
            graceful_shutdown: manner.graceful_shutdown,
            filter: Filter(match manner.over_ipv6 {
                true => IPV4_OVER_IPV6,
                false => 0,
            }),
            add_path: manner
                .best
                .map(|best| NonZeroU8::new(best).map_or(PathsTold::All, PathsTold::Best)),
            ..ExportKey::new(kind, &context)
        };
        let found = self.groups.iter().position(|group| group.key == key);
        found.unwrap_or_else(|| {
            self.groups.push(Group {
                updates: UpdateGroup::new(key.clone(), LOCAL),
                key,
                journal: Journal::new(self.bounds.journal_octets),
            });
            self.groups.len() - 1
        })
    }

    pub(super) fn run(&mut self, op: &Op) {
        match op {
            Op::Announce {
                peer,
                path_id,
                nlri,
                says,
            } => {
                // In the model, too, a peer whose session is there is not stale any more.
                let source = source(*peer);
                let attributes = self.interner.intern(says.attributes::<N>(&source));
                self.table
                    .learn(&source, *path_id, N::numbered(*nlri), attributes);
            }
            Op::Withdraw {
                peer,
                path_id,
                nlri,
            } => {
                let peer = source(*peer).peer;
                self.table.withdraw(peer, *path_id, &N::numbered(*nlri));
            }
            Op::Lose { peer } => self.table.withdraw_peer(source(*peer).peer),
            Op::Age { peer, stale } => self.age(*peer, *stale),
            Op::Select => self.select(),
            Op::Read { peer } => drop(self.read(*peer)),
            Op::Join { peer } => self.join(*peer, 0),
            Op::Turn {
                peer,
                manner,
                interest: number,
            } => self.turn(*peer, *manner, interest(*number)),
        }
    }

    pub(super) fn age(&mut self, peer: usize, stale: Stale) {
        let source = stale_source(peer, stale);
        let all = self.table.iter().flat_map(|destination| destination.paths);
        let own: Vec<_> = all
            .filter(|path| path.source.peer == source.peer)
            .cloned()
            .collect();
        for path in own {
            let path_id = path.path_id();
            self.table
                .learn(&source, path_id, path.nlri, path.attributes);
        }
    }

    pub(super) fn select(&mut self) {
        let changes = self.table.select();
        let paths = self.table.path_changes();
        for group in &mut self.groups {
            let segment = match group.key.add_path {
                Some(_) => group.updates.advertise_paths(&paths, self.table.revision()),
                None => group.updates.advertise(&changes),
            };
            group.journal.push(Arc::new(segment));
        }
    }

    /// False if the member fell off its journal, and has started again.
    pub(super) fn read(&mut self, peer: usize) -> bool {
        let member = &mut self.members[peer];
        let group = &self.groups[member.group];
        loop {
            match group.journal.read(&mut member.cursor) {
                Read::Segment(segment) => hear(member, &segment, &group.key),
                Read::Empty => return true,
                Read::Lagged => {
                    let since = member.revision;
                    self.join(peer, since);
                    return false;
                }
            }
        }
    }

    pub(super) fn join(&mut self, peer: usize, since: u64) {
        let member = &mut self.members[peer];
        let group = &mut self.groups[member.group];
        let mut image = |since| group.updates.image(&self.table, since, &member.interest);
        let image = match image(since) {
            Ok(image) if since > 0 => image,
            // Too old, or new: the session starts again.
            Ok(_) | Err(_) => {
                member.view.clear();
                image(0).unwrap()
            }
        };
        self.images += 1;
        member.cursor = group.journal.end();
        hear(member, &image, &group.key);
    }

    /// As the daemon does it: between two selections, and what the old journal holds comes first.
    pub(super) fn turn(&mut self, peer: usize, manner: Manner, interest: Interest) {
        self.select();
        let manner = match self.members[peer].manner.fits(manner) {
            true => manner,
            false => self.members[peer].manner,
        };
        let to = self.group(KINDS[peer], manner);
        let member = &self.members[peer];
        let old_key = self.groups[member.group].key.clone();
        let old = (&old_key, &member.interest);
        let segment = self.groups[to].updates.turn(&self.table, old, &interest);
        let in_step = self.read(peer);
        let member = &mut self.members[peer];
        (member.group, member.manner, member.interest) = (to, manner, interest);
        member.cursor = self.groups[to].journal.end();
        if in_step {
            hear(member, &segment, &self.groups[to].key);
        } else {
            self.join(peer, 0);
        }
    }
}

/// Takes in the frames that are for this member.
pub(super) fn hear<N: Subject>(member: &mut Member<N>, segment: &Segment, key: &ExportKey) {
    let octets: usize = segment.frames.iter().map(|frame| frame.octets.len()).sum();
    assert_eq!(octets, segment.octets_len);
    let mut context: DecodeContext = key.context();
    if key.add_path.is_some() {
        context.add_path = AddPathSet::of([N::family()]);
    }
    let mut heard = BTreeSet::new();
    for frame in &segment.frames {
        if !frame.audience.includes(member.peer) || !frame.concerns.includes(&member.interest) {
            continue;
        }
        assert!(frame.octets.len() <= usize::from(key.max_len));
        let mut buffer = BytesMut::from(&frame.octets[..]);
        let split = frame::split(&mut buffer, key.max_len).unwrap().unwrap();
        assert!(buffer.is_empty(), "a frame is one message");
        let Message::Update(update) = Message::decode(split, &context).unwrap() else {
            panic!("a frame is an UPDATE");
        };
        assert!(
            update.faults.is_empty(),
            "what we send is valid: {:?}",
            update.faults
        );
        let (announced, withdrawn) = routes::<N>(&update, key.add_path.is_some());
        let count = |routes: &[(u32, N)]| u32::try_from(routes.len()).unwrap();
        let counts = (count(&announced), count(&withdrawn));
        assert_eq!((frame.routes, frame.withdrawals), counts);
        for (id, nlri) in announced.iter().chain(&withdrawn) {
            assert!(heard.insert((*nlri, *id)), "told once in a segment");
        }
        let mut attributes = update.attributes.clone();
        if let Some(reach) = &update.reach {
            attributes.next_hop = Some(reach.next_hop);
        }
        for (id, nlri) in withdrawn {
            member.view.remove(&(nlri, id));
        }
        for (id, nlri) in announced {
            member.view.insert((nlri, id), attributes.clone());
        }
    }
    assert!(segment.revision >= member.revision);
    member.revision = segment.revision;
}

/// What an UPDATE announces and withdraws.
pub(super) fn routes<N: Subject>(update: &Update, add_path: bool) -> Routes<N> {
    let (mut announced, mut withdrawn) = N::classic(update);
    if let Some(reach) = &update.reach {
        assert_eq!(reach.family, N::family());
        let each = |id, nlri| announced.push((id, nlri));
        decode_all(&reach.nlri, add_path, each, |e| panic!("{e:?}")).unwrap();
    }
    if let Some(unreach) = &update.unreach {
        assert_eq!(unreach.family, N::family());
        let each = |id, nlri| withdrawn.push((id, nlri));
        decode_all(&unreach.nlri, add_path, each, |e| panic!("{e:?}")).unwrap();
    }
    (announced, withdrawn)
}
