//! Keys of long lists, in order, from the second page on: a page costs what it holds, and the table is looked at twice for a list
//! of any length. Knows no page.

use std::any::Any;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use weft_bgp::nlri::Nlri;

use super::page::Filter;

/// What is wanted of a table, in order, as it was when the list began.
#[derive(Debug)]
pub(super) struct Keys<N: Nlri>(pub(super) Vec<N::Key>);

/// Lists that clients read now.
#[derive(Debug, Default)]
pub(super) struct Kept {
    lists: Mutex<Vec<List>>,
    seed: RandomState,
}

#[derive(Debug)]
struct List {
    id: u64,
    filter: Filter,
    keys: Arc<dyn Any + Send + Sync>,
    len: usize,
    used: Instant,
}

impl Kept {
    /// The keys of a list; nothing if they were forgotten, or are of another filter.
    pub(super) fn get<N: Nlri>(&self, id: u64, filter: &Filter) -> Option<Arc<Keys<N>>> {
        let mut lists = self.lock();
        let list = lists.iter_mut().find(|it| it.id == id)?;
        if list.filter != *filter {
            return None;
        }
        list.used = Instant::now();
        Arc::clone(&list.keys).downcast().ok()
    }

    /// Keeps a list, and forgets those that nobody reads if there are too many. Returns its id: no other replica has one alike.
    pub(super) fn put<N: Nlri>(&self, filter: Filter, keys: Arc<Keys<N>>) -> u64 {
        let len = keys.0.len();
        let used = Instant::now();
        let id = self.seed.hash_one((used, Arc::as_ptr(&keys) as usize));
        let mut lists = self.lock();
        lists.retain(|list| list.used.elapsed() < KEPT_FOR);
        lists.push(List {
            id,
            filter,
            keys,
            len,
            used,
        });
        while lists.len() > 1 && lists.iter().map(|list| list.len).sum::<usize>() > KEYS_MAX {
            let oldest = lists.iter().enumerate().min_by_key(|(_, list)| list.used);
            let Some((oldest, _)) = oldest else { break };
            lists.remove(oldest);
        }
        id
    }

    /// Nobody reads the list any more.
    pub(super) fn end(&self, id: u64) {
        self.lock().retain(|list| list.id != id);
    }

    /// Forgets what nobody reads.
    pub(super) async fn forget(self: Arc<Self>) {
        loop {
            tokio::time::sleep(KEPT_FOR).await;
            let mut lists = self.lock();
            lists.retain(|list| list.used.elapsed() < KEPT_FOR);
            if lists.is_empty() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<List>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that takes longer for a page has its list made anew.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// Of all lists: some 200 MB.
const KEYS_MAX: usize = 4_000_000;

#[cfg(test)]
mod tests {
    use weft_bgp::nlri::unicast::{Prefix4, Prefix6};

    use super::*;

    fn keys(count: u32) -> Arc<Keys<Prefix4>> {
        let keys = (0..count).map(|number| {
            let nlri = Prefix4 {
                addr: number.into(),
                len: 32,
            };
            nlri.key()
        });
        Arc::new(Keys(keys.collect()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_kept_for_its_filter_and_family_while_it_is_read() {
        let kept = Arc::new(Kept::default());
        let filter = Filter::default();
        let id = kept.put(filter.clone(), keys(3));
        assert_eq!(kept.get::<Prefix4>(id, &filter).unwrap().0.len(), 3);
        assert!(kept.get::<Prefix6>(id, &filter).is_none());
        let other = Filter {
            vni: Some(7),
            ..Filter::default()
        };
        assert!(kept.get::<Prefix4>(id, &other).is_none());
        assert!(kept.get::<Prefix4>(id + 1, &filter).is_none());
        let forget = tokio::spawn(Arc::clone(&kept).forget());
        tokio::time::sleep(KEPT_FOR / 2).await;
        assert!(kept.get::<Prefix4>(id, &filter).is_some());
        tokio::time::sleep(KEPT_FOR * 3).await;
        assert!(kept.get::<Prefix4>(id, &filter).is_none());
        forget.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_keys_push_out_the_list_that_was_read_last() {
        let kept = Kept::default();
        let mut ids = Vec::new();
        let part = u32::try_from(KEYS_MAX / 3).unwrap();
        let list = keys(part);
        for _ in 0..3 {
            tokio::time::advance(Duration::from_secs(1)).await;
            ids.push(kept.put(Filter::default(), Arc::clone(&list)));
        }
        let has = |kept: &Kept, id| kept.get::<Prefix4>(id, &Filter::default()).is_some();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(has(&kept, ids[0]));
        ids.push(kept.put(Filter::default(), list));
        assert_eq!(ids.iter().filter(|id| has(&kept, **id)).count(), 3);
        assert!(!has(&kept, ids[1]));
        kept.end(ids[0]);
        assert!(!has(&kept, ids[0]));
    }
}
