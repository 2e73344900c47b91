//! What one collector is told over one connection, in which order: sessions with their tables, then what
//! was selected, then what is told, and all changes. A page of a table is read once and told to all that
//! it serves. Knows no socket.

mod loc_rib;
mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use weft_bgp::family::Family;
use weft_bgp::table::TooOld;
use weft_monitoring::bmp::{
    Down, Initiation, Instance, NotFramed, Peer, PeerHeader, PeerUp, Policy, Rib,
};
use weft_monitoring::station::{Counters, Station};

use super::End;
use crate::config::Bmp;
use crate::monitoring::held::Held;
use crate::monitoring::selected::{Page, Place, Whose};
use crate::monitoring::tap::{Ended, Event, Reader, Tap, Up};
use crate::monitoring::timestamp;
use crate::speaker::Shared;
use crate::speaker::peer::Word;

/// A connection and what goes over it.
pub(super) struct Telling<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) bmp: &'a Bmp,
    pub(super) station: Station,
    pub(super) sources: Sources,
    tap: Tap,
    sessions: BTreeMap<IpAddr, Arc<Up>>,
    /// The Adj-RIB-In that is being told: events wait until that is done.
    feeding: Option<(Arc<Up>, Held)>,
    tables: Vec<Table>,
    /// The page that is being told, and whom it is still to be told.
    sharing: Option<(Page, Vec<Whose>)>,
    /// Whose Adj-RIB-Out is not shown, for they are told several paths: said once.
    untold: BTreeSet<(IpAddr, Family)>,
    /// When it was looked at how peers are told; absent: a peer has come since.
    looked: Option<Instant>,
    noted: Counters,
}

/// A table that is read page by page.
struct Table {
    whose: Whose,
    place: Place,
    /// Not before.
    due: Instant,
}

/// Where the next thing to tell comes from.
pub(super) struct Sources {
    events: Reader,
    page: Option<BoxFuture<'static, Option<Answer>>>,
    beat: Interval,
    statistics: Interval,
}

/// The page of which family.
type Answer = (Family, Result<Page, TooOld>);

/// Something to tell, or a moment to look around.
pub(super) enum Input {
    /// `None`: too much has piled up.
    Event(Option<Event>),
    /// `None`: the daemon stops.
    Page(Option<Answer>),
    Beat,
    Statistics,
}

impl Sources {
    /// The next input. Events wait while the collector has no appetite. May be dropped at any await.
    pub(super) async fn next(&mut self, is_hungry: bool) -> Input {
        let Self {
            events,
            page,
            beat,
            statistics,
        } = self;
        let read = async {
            match page {
                Some(reading) => reading.await,
                None => std::future::pending().await,
            }
        };
        let event = async {
            match is_hungry {
                true => events.next().await,
                false => {
                    events.overrun().await;
                    None
                }
            }
        };
        let input = tokio::select! {
            event = event => Input::Event(event),
            answer = read => Input::Page(answer),
            _ = beat.tick() => Input::Beat,
            _ = statistics.tick() => Input::Statistics,
        };
        if matches!(input, Input::Page(_)) {
            self.page = None;
        }
        input
    }
}

impl<'a> Telling<'a> {
    /// A connection over which nothing was told.
    pub(super) fn new(shared: &'a Arc<Shared>, bmp: &'a Bmp) -> Self {
        let (tap, events) = shared.taps.open();
        let interval = |period| {
            let mut interval = tokio::time::interval_at(Instant::now() + period, period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        };
        Self {
            shared,
            bmp,
            station: Station::new(QUEUE_OCTETS_MAX),
            sources: Sources {
                events,
                page: None,
                beat: interval(BEAT),
                statistics: interval(bmp.statistics),
            },
            tap,
            sessions: BTreeMap::new(),
            feeding: None,
            tables: Vec::new(),
            sharing: None,
            untold: BTreeSet::new(),
            looked: None,
            noted: Counters::default(),
        }
    }

    /// Says who we are, begins Loc-RIB, and asks all peers for what they hold.
    pub(super) async fn begin(&mut self) {
        self.station.connect(&Initiation {
            name: self.shared.hostname.clone(),
            description: format!("weft {}", env!("CARGO_PKG_VERSION")),
            text: format!("replica {}", self.shared.replica),
        });
        if self.bmp.loc_rib {
            self.begin_loc_rib();
        }
        for words in self.shared.words() {
            // A task that has gone has no session.
            let word = Word::Show(self.tap.clone());
            let _ = words.send(word).await;
        }
    }

    /// Whether there is room for more.
    pub(super) fn is_hungry(&self) -> bool {
        self.feeding.is_none() && self.station.room() > 0
    }

    /// Tells what is at hand as there is room, and asks for a page. Of readers that share a page one gets it, for
    /// others of the runtime wait too: the rest have their turn when this is called again.
    pub(super) fn fill(&mut self) {
        while self.station.room() > 0
            && let Some((up, held)) = &mut self.feeding
        {
            match held.next() {
                Some((family, messages)) => {
                    let header = header(up, Rib::AdjRibIn(Policy::Pre));
                    tell(&mut self.station, &header, family, &messages);
                }
                None => self.fed(),
            }
        }
        if self.is_hungry() {
            match self.sharing.take() {
                Some((page, readers)) => self.share(page, readers),
                None if self.sources.page.is_none() => self.ask(),
                None => {}
            }
        }
    }

    /// Whether there is something to tell, and room for it.
    pub(super) fn is_sharing(&self) -> bool {
        self.sharing.is_some() && self.is_hungry()
    }

    /// All of an Adj-RIB-In was told. A peer that has just come says itself when it has said everything.
    fn fed(&mut self) {
        if let Some((up, _)) = self.feeding.take().filter(|(up, _)| !up.is_fresh) {
            let header = header(&up, Rib::AdjRibIn(Policy::Pre));
            for family in &up.negotiated.families {
                self.station.end(&header, *family);
            }
        }
    }

    /// Asks for the page that is due: from where it serves all that follow the same table.
    fn ask(&mut self) {
        let now = Instant::now();
        let due = self.tables.iter().filter(|table| table.due <= now);
        let Some(table) = due.min_by_key(|table| table.due) else {
            return;
        };
        let places = self.tables.iter().map(|table| &table.place);
        let place = places.fold(table.place.clone(), Place::or_earlier);
        let family = place.family;
        let reflection = self.shared.reflection.clone();
        self.sources.page = Some(Box::pin(async move {
            let page = reflection.query(move |reflector| place.read(reflector));
            Some((family, page.await?))
        }));
    }

    /// Takes what came.
    ///
    /// # Errors
    /// Why the connection is to be closed.
    pub(super) fn take(&mut self, input: Input) -> Result<(), End> {
        match input {
            Input::Event(Some(Event::Up(up))) => self.up(up),
            Input::Event(Some(Event::Update(address, octets))) => {
                self.update(address, &octets, false);
            }
            Input::Event(Some(Event::Retold(address, octets))) => {
                self.update(address, &octets, true);
            }
            Input::Event(Some(Event::Down(address, ended))) => self.down(address, &ended),
            Input::Event(None) => return Err(End::TooSlow),
            Input::Page(Some((_, Ok(page)))) => {
                let all = self.tables.iter();
                let readers = all.filter(|table| page.after(&table.place).is_some());
                let readers = readers.map(|table| table.whose.clone()).collect();
                self.sharing = Some((page, readers));
            }
            Input::Page(Some((family, Err(TooOld { .. })))) => {
                return Err(End::Theirs(format!("it is too far behind in {family}")));
            }
            Input::Page(None) => {}
            Input::Beat => self.look(),
            Input::Statistics => self.statistics(),
        }
        Ok(())
    }

    fn up(&mut self, up: Arc<Up>) {
        let header = header(&up, Rib::AdjRibIn(Policy::Pre));
        let told = self.station.peer_up(
            &header,
            &PeerUp {
                local_address: up.wire.local.ip().to_canonical(),
                local_port: up.wire.local.port(),
                remote_port: up.wire.remote.port(),
                sent: &up.wire.sent,
                received: &up.wire.received,
                table: "",
            },
        );
        framed(told);
        if self.bmp.adj_rib_in {
            for family in &up.negotiated.families {
                self.station.begin(&header, *family);
            }
            let held = Held::new(up.held.clone(), up.negotiated.add_path_receive);
            self.feeding = Some((Arc::clone(&up), held));
        }
        self.forget_tables(up.address);
        self.sessions.insert(up.address, up);
        self.looked = None;
    }

    fn update(&mut self, address: IpAddr, octets: &Bytes, is_ours: bool) {
        let Some(up) = self.sessions.get(&address) else {
            return;
        };
        let mut header = header(up, Rib::AdjRibIn(Policy::Pre));
        header.two_octet_as = !is_ours && !up.negotiated.decode.four_octet_as;
        // Families are told together: the station knows the table by any of them.
        if let Some(family) = up.negotiated.families.first() {
            framed(self.station.routes(&header, *family, octets));
        }
    }

    fn down(&mut self, address: IpAddr, ended: &Ended) {
        let Some(up) = self.sessions.remove(&address) else {
            return;
        };
        let down = match ended {
            Ended::Sent(octets) => Down::NotificationSent(octets),
            Ended::Received(octets) => Down::NotificationReceived(octets),
            Ended::Closed => Down::ClosedByPeer,
            Ended::Silent => Down::NoNotificationSent(0),
        };
        let header = header(&up, Rib::AdjRibIn(Policy::Pre));
        framed(self.station.peer_down(&header, &down));
        self.forget_tables(address);
    }

    fn forget_tables(&mut self, address: IpAddr) {
        self.tables.retain(|table| match &table.whose {
            Whose::LocRib => true,
            Whose::Peer(other, ..) => *other != address,
        });
    }

    /// Tells a page to the next of its readers.
    fn share(&mut self, page: Page, mut readers: Vec<Whose>) {
        let Some(whose) = readers.pop() else { return };
        self.page(&whose, &page);
        self.sharing = Some((page, readers)).filter(|(_, readers)| !readers.is_empty());
    }

    fn page(&mut self, whose: &Whose, page: &Page) {
        let family = page.family();
        let header = match whose {
            Whose::LocRib => Some(self.loc_rib_header()),
            Whose::Peer(address, ..) => {
                let up = self.sessions.get(address);
                up.map(|up| header(up, Rib::AdjRibOut(Policy::Post)))
            }
        };
        let same = |table: &&mut Table| table.whose == *whose && table.place.family == family;
        // It may have gone, have begun anew, or be told otherwise since the page was asked for.
        let (Some(header), Some(table)) = (header, self.tables.iter_mut().find(same)) else {
            return;
        };
        let Some(after) = page.after(&table.place) else {
            return;
        };
        let messages = page.messages(whose, &table.place, &self.shared.local);
        tell(&mut self.station, &header, family, &messages);
        let was_complete = std::mem::replace(&mut table.place, after).is_complete;
        table.due = Instant::now();
        if !page.more() {
            table.due += BEAT;
        }
        if table.place.is_complete && !was_complete {
            self.station.end(&header, family);
        }
    }
}

fn header(up: &Up, rib: Rib) -> PeerHeader {
    let peer = up.negotiated.peer;
    PeerHeader {
        rib,
        peer: Peer {
            instance: Instance::Global,
            address: up.address,
            asn: peer.asn,
            router_id: peer.router_id,
        },
        // What we encode ourselves has four octets.
        two_octet_as: false,
        time: timestamp(),
    }
}

fn tell(station: &mut Station, header: &PeerHeader, family: Family, messages: &[Bytes]) {
    for message in messages {
        framed(station.routes(header, family, message));
    }
}

/// What we encoded or took off a session is one message.
fn framed<T>(told: Result<T, NotFramed>) {
    if let Err(error) = told {
        tracing::error!(%error, "a collector was not told");
    }
}

/// What one collector's connection may hold: a second at 128 Mb/s.
const QUEUE_OCTETS_MAX: usize = 16 << 20;
/// Between two looks at tables in which nothing was new.
const BEAT: Duration = Duration::from_millis(250);
