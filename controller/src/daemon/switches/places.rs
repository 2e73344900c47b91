//! Follows the type 2 routes of NICs: which are behind another leaf than is declared, and where those are that only jobs name.
//!
//! Nothing is followed as long as there is no job. Else the task holds who claims which address, some 150 octets for each type 2
//! route, reads the table once, in parts, and then what changes of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weft_bgp::table::Path;
use weft_evpn::Route;

use crate::fabric::place::{Address, Claims, Places, named};
use crate::fabric::topology::{Kind, Topology};
use crate::reflector::news::News;
use crate::speaker::Shared;

/// Publishes where NICs are, until the daemon stops; None as long as that is not known, or asked.
pub(super) async fn follow(
    shared: Arc<Shared>,
    mut declared: watch::Receiver<Topology>,
    publish: watch::Sender<Option<Arc<Places>>>,
) {
    let mut bell = shared.reflection.news().bell();
    let mut known = None;
    loop {
        let topology = declared.borrow_and_update().clone();
        bell.borrow_and_update();
        if topology.count(Kind::Job) == 0 {
            known = None;
            put(&publish, None);
            if declared.changed().await.is_err() {
                return;
            }
            continue;
        }
        let published = publish.borrow().clone();
        let before = match known.take() {
            Some(known) => known,
            None => match Known::read(&shared, published).await {
                Some(known) => known,
                None => return,
            },
        };
        let news = Arc::clone(shared.reflection.news());
        let looked = tokio::task::spawn_blocking(move || before.look(topology, &news)).await;
        let Ok(looked) = looked else { return };
        let Some(next) = looked else {
            // Too much changed to be remembered: the table is read again, once less does.
            tokio::time::sleep(READ_AGAIN_AFTER).await;
            continue;
        };
        put(&publish, Some(&next.places));
        known = Some(next);
        tokio::time::sleep(LOOK_EVERY).await;
        tokio::select! {
            changed = declared.changed() => if changed.is_err() { return },
            changed = bell.changed() => if changed.is_err() { return },
        }
    }
}

fn put(publish: &watch::Sender<Option<Arc<Places>>>, now: Option<&Places>) {
    publish.send_if_modified(|before| {
        let changed = before.as_deref() != now;
        if changed {
            *before = now.cloned().map(Arc::new);
        }
        changed
    });
}

/// What the routes said so far, and what follows from it.
struct Known {
    claims: Claims,
    /// Where the news go on.
    place: u64,
    /// What is declared, and the addresses that only its jobs name.
    topology: Option<(Topology, BTreeSet<Address>)>,
    places: Places,
}

impl Known {
    /// Reads the table; None while the daemon stops. What nobody claims is where it was before.
    async fn read(shared: &Shared, before: Option<Arc<Places>>) -> Option<Self> {
        // What changes from here on is read again: to hear a thing twice changes nothing.
        let end = shared.reflection.news().evpn.place(u64::MAX);
        let mut known = Self {
            claims: Claims::default(),
            place: end.unwrap_or_default(),
            topology: None,
            places: before.as_deref().cloned().unwrap_or_default(),
        };
        let mut next = Some(0);
        while let Some(place) = next {
            let look = shared.reflection.query(move |reflector| {
                let (part, next) = reflector.evpn().page(place, PART);
                let addressed = |path: &Path<Route>| matches!(&path.nlri, Route::MacIp(it) if it.key.ip.is_some());
                let selected = part.into_iter().filter_map(|it| it.selected);
                let paths: Vec<_> = selected.filter(|path| addressed(path)).cloned().collect();
                (paths, next)
            });
            let (paths, behind) = look.await?;
            for path in &paths {
                known.claims.put(path);
            }
            next = behind;
        }
        Some(known)
    }

    /// Takes what changed since; None: some of that is forgotten.
    fn look(mut self, topology: Topology, news: &News) -> Option<Self> {
        let (batches, place) = news.evpn.from(self.place).ok()?;
        self.place = place;
        let changes = batches.iter().flat_map(|batch| batch.iter());
        let changed: Vec<Address> = changes.flat_map(|it| self.claims.learn(it)).collect();
        match &self.topology {
            Some((before, named)) if is_alike(before, &topology) => {
                for address in changed {
                    self.places.look(&topology, named, &self.claims, address);
                }
            }
            _ => {
                let named = named(&topology);
                self.places = Places::of(&topology, &named, &self.claims, &self.places);
                self.topology = Some((topology, named));
            }
        }
        Some(self)
    }
}

/// Whether NICs are looked for at the same ports and leaves.
fn is_alike(before: &Topology, now: &Topology) -> bool {
    before.has_alike_jobs(now) && before.is_same_network(now)
}

/// A NIC that moved is known that soon, at the latest.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A table of which more than that changes meanwhile is not read at once again.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Places of the table that are looked at, at a time: a millisecond or two of the tables' thread.
const PART: usize = 4_096;
