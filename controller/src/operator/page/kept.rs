//! Long lists that clients read now. From the second page on a page costs what it holds: a table is looked at twice for a list
//! of any length, and once for all who read the same. Knows no row.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::Status;

use super::super::refusal;
use super::list::List;

/// Lists by what is wanted: the latest of each.
#[derive(Debug)]
pub(in crate::operator) struct Kept {
    lists: Mutex<Lists>,
    /// One is made at a time: until it is made nobody knows how much room it takes.
    making: Semaphore,
}

#[derive(Debug, Default)]
struct Lists {
    all: Vec<Entry>,
    /// A task forgets those that nobody reads.
    forgetting: bool,
}

#[derive(Debug)]
struct Entry {
    wanted: Box<dyn Any + Send + Sync>,
    list: Arc<dyn Any + Send + Sync>,
    revision: u64,
    octets: usize,
    used: Instant,
}

impl Kept {
    /// There are none.
    pub(in crate::operator) fn new() -> Self {
        Self {
            lists: Mutex::default(),
            making: Semaphore::new(1),
        }
    }

    /// The list of what is wanted, with everything that was agreed up to `revision`: one that somebody reads, or else what
    /// `make` makes.
    ///
    /// # Errors
    /// What `make` refuses.
    pub(in crate::operator) async fn list<W, T>(
        self: &Arc<Self>,
        wanted: &W,
        revision: u64,
        make: impl Future<Output = Result<List<T>, Status>>,
    ) -> Result<Arc<List<T>>, Status>
    where
        W: PartialEq + Clone + Send + Sync + 'static,
        T: Send + Sync + 'static,
    {
        if let Some(list) = self.get(wanted, revision) {
            return Ok(list);
        }
        let making = self.making.acquire().await;
        let _making = making.map_err(|_| refusal::stopping())?;
        if let Some(list) = self.get(wanted, revision) {
            return Ok(list);
        }
        let list = Arc::new(make.await?);
        self.put(wanted, &list);
        Ok(list)
    }

    fn get<W, T>(&self, wanted: &W, revision: u64) -> Option<Arc<List<T>>>
    where
        W: PartialEq + 'static,
        T: Send + Sync + 'static,
    {
        let mut lists = self.lock();
        let mut all = lists.all.iter_mut();
        let entry = all.find(|it| it.is_of::<W, T>(wanted) && it.revision >= revision)?;
        entry.used = Instant::now();
        Arc::clone(&entry.list).downcast().ok()
    }

    /// Keeps a list in place of the one before, and forgets those that were not read for longest if there are too many.
    fn put<W, T>(self: &Arc<Self>, wanted: &W, list: &Arc<List<T>>)
    where
        W: PartialEq + Clone + Send + Sync + 'static,
        T: Send + Sync + 'static,
    {
        let mut lists = self.lock();
        lists.all.retain(|it| !it.is_of::<W, T>(wanted));
        lists.all.push(Entry {
            wanted: Box::new(wanted.clone()),
            list: Arc::clone(list) as _,
            revision: list.revision,
            octets: list.items.len() * size_of::<T>(),
            used: Instant::now(),
        });
        while lists.all.len() > 1 && lists.are_too_many() {
            let entries = lists.all.iter().enumerate();
            let Some((oldest, _)) = entries.min_by_key(|(_, entry)| entry.used) else {
                break;
            };
            lists.all.remove(oldest);
        }
        if !lists.forgetting {
            lists.forgetting = true;
            tokio::spawn(Arc::clone(self).forget());
        }
    }

    /// Forgets what nobody reads, until there is nothing left.
    async fn forget(self: Arc<Self>) {
        loop {
            tokio::time::sleep(KEPT_FOR).await;
            let mut lists = self.lock();
            lists.all.retain(|list| list.used.elapsed() < KEPT_FOR);
            if lists.all.is_empty() {
                lists.forgetting = false;
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lists {
    fn are_too_many(&self) -> bool {
        let octets: usize = self.all.iter().map(|entry| entry.octets).sum();
        octets > OCTETS_MAX || self.all.len() > LISTS_MAX
    }
}

impl Entry {
    fn is_of<W: PartialEq + 'static, T: Send + Sync + 'static>(&self, wanted: &W) -> bool {
        self.list.is::<List<T>>() && self.wanted.downcast_ref() == Some(wanted)
    }
}

/// A client that takes longer for a page has its list made anew.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// Of all lists together: some four million routes. One that is larger is kept by itself.
const OCTETS_MAX: usize = 256 << 20;
/// All are looked through for one.
const LISTS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Asks for a list of so many numbers; whether it had to be made, and up to where it is complete.
    async fn ask(kept: &Arc<Kept>, wanted: u8, revision: u64, now: u64) -> (bool, u64) {
        let mut is_new = false;
        let make = async {
            is_new = true;
            Ok(List {
                items: vec![0_u64; OCTETS_MAX / 8 / 3],
                more: false,
                revision: now,
            })
        };
        let list = kept.list(&wanted, revision, make).await.unwrap();
        let revision = list.revision;
        (is_new, revision)
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_shared_by_all_for_whom_it_is_late_enough_and_forgotten_when_nobody_reads_it()
    {
        let kept = Arc::new(Kept::new());
        assert_eq!(ask(&kept, 1, 5, 7).await, (true, 7));
        assert_eq!(ask(&kept, 1, 7, 8).await, (false, 7));
        assert_eq!(ask(&kept, 1, 8, 9).await, (true, 9));
        // Who began with the one before goes on with this one.
        assert_eq!(ask(&kept, 1, 5, 10).await, (false, 9));
        assert_eq!(kept.lock().all.len(), 1);
        assert_eq!(ask(&kept, 2, 5, 10).await, (true, 10));
        // Another list of the same filter.
        let other = kept.get::<u8, u32>(&1, 0);
        assert!(other.is_none());
        tokio::time::sleep(KEPT_FOR / 2).await;
        assert_eq!(ask(&kept, 1, 5, 11).await, (false, 9));
        tokio::time::sleep(KEPT_FOR * 3).await;
        assert_eq!(kept.lock().all.len(), 0);
        assert!(!kept.lock().forgetting);
        assert_eq!(ask(&kept, 1, 5, 12).await, (true, 12));
        assert!(kept.lock().forgetting);
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_lists_push_out_the_one_that_was_not_read_for_longest() {
        let kept = Arc::new(Kept::new());
        for wanted in [1, 2, 3, 1, 4] {
            tokio::time::advance(Duration::from_secs(1)).await;
            ask(&kept, wanted, 0, 1).await;
        }
        for (wanted, is_new) in [(1, false), (3, false), (4, false), (2, true)] {
            assert_eq!(ask(&kept, wanted, 0, 1).await.0, is_new, "{wanted}");
        }
    }

    #[tokio::test]
    async fn those_who_want_one_list_at_once_have_it_made_once_and_others_one_after_the_other() {
        let kept = Arc::new(Kept::new());
        let (made, making) = (AtomicU64::new(0), AtomicU64::new(0));
        let ask = async |wanted: u8| {
            let make = async {
                assert_eq!(making.fetch_add(1, Ordering::Relaxed), 0);
                tokio::task::yield_now().await;
                making.fetch_sub(1, Ordering::Relaxed);
                let revision = made.fetch_add(1, Ordering::Relaxed);
                Ok(List {
                    items: vec![wanted],
                    more: false,
                    revision,
                })
            };
            kept.list(&wanted, 0, make).await.unwrap().items.clone()
        };
        let lists = tokio::join!(ask(1), ask(1), ask(2), ask(1));
        assert_eq!(lists, (vec![1], vec![1], vec![2], vec![1]));
        assert_eq!(made.into_inner(), 2);
        let refused = kept.list::<u8, u8>(&3, 0, async { Err(refusal::stopping()) });
        assert!(refused.await.is_err());
        assert_eq!(kept.lock().all.len(), 2);
    }
}
