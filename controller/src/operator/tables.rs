//! Reads the tables of this replica for a call: as late as the call asks for, and part by part. Knows no row.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use weft_proto::v1::{Consistency, ResponseHeader};

use super::page::kept::Kept;
use super::page::list::{First, List};
use super::{header, look, off_the_runtime, refusal};
use crate::reflector::Reflector;
use crate::speaker::Shared;

/// The tables of this replica, as services read them.
pub struct Tables {
    shared: Arc<Shared>,
    exports: Arc<Semaphore>,
    kept: Arc<Kept>,
}

impl Tables {
    /// Of a running daemon.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            exports: Arc::new(Semaphore::new(EXPORTS_MAX)),
            kept: Arc::new(Kept::new()),
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Long lists of them that clients read now.
    pub(super) fn kept(&self) -> &Arc<Kept> {
        &self.kept
    }

    /// A place for an export of whole tables, held until it ends.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED: all are taken.
    pub(super) fn export(&self) -> Result<OwnedSemaphorePermit, Status> {
        let place = Arc::clone(&self.exports).try_acquire_owned();
        place.map_err(|_| refusal::too_many_exports(EXPORTS_MAX))
    }

    /// The header of an answer that is complete up to `revision`.
    pub(super) fn header(&self, revision: u64) -> ResponseHeader {
        header::of(&self.shared, revision)
    }

    /// Up to where this replica has everything.
    pub(super) async fn revision(&self) -> Result<u64, Status> {
        self.look(0, Reflector::index).await
    }

    /// Waits until this replica knows everything that was agreed before the call, unless SERIALIZABLE is asked for.
    ///
    /// # Errors
    /// UNAVAILABLE: no majority.
    pub(super) async fn catch_up(&self, consistency: Consistency) -> Result<u64, Status> {
        if consistency == Consistency::Serializable {
            return Ok(0);
        }
        let index = self.shared.consensus.read_index().await;
        index.ok_or_else(refusal::no_majority_to_read)
    }

    /// Looks once the replica has everything up to `index`.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        index: u64,
        look: impl Fn(&Reflector) -> T + Send + Clone + 'static,
    ) -> Result<T, Status> {
        let place = self.shared.reflection.place().await;
        let _place = place.ok_or_else(refusal::stopping)?;
        look::at(&self.shared, index, look).await
    }

    /// The same; also up to where the replica had everything.
    pub(super) async fn look_indexed<T: Send + 'static>(
        &self,
        index: u64,
        look: impl Fn(&Reflector) -> T + Send + Clone + 'static,
    ) -> Result<(T, u64), Status> {
        let look = move |reflector: &Reflector| (look(reflector), reflector.index());
        self.look(index, look).await
    }

    /// Looks at a table part by part, so that nobody waits for the whole, and puts together what the parts give: what
    /// changes meanwhile may be missing, or met twice. `look` makes the look at a place, which says where to go on.
    pub(super) async fn walk<A, P, L>(
        &self,
        index: u64,
        mut found: A,
        look: impl Fn(&A, usize) -> L,
        take: impl Fn(A, P) -> A,
    ) -> Result<(A, u64), Status>
    where
        P: Send + 'static,
        L: Fn(&Reflector) -> (P, Option<usize>) + Send + Clone + 'static,
    {
        let (mut place, mut applied_index) = (Some(0), None);
        while let Some(at) = place {
            let look = look(&found, at);
            let ((part, next), applied) = self.look_indexed(index, look).await?;
            found = take(found, part);
            place = next;
            applied_index.get_or_insert(applied);
        }
        Ok((found, applied_index.unwrap_or(index)))
    }

    /// What a table has of something, in order. `look` makes the look at a place; what is behind an end need not be in it.
    pub(super) async fn list<T, L>(
        &self,
        index: u64,
        first: First<T>,
        look: impl Fn(Option<T>, usize) -> L,
    ) -> Result<List<T>, Status>
    where
        T: Ord + Clone + Send + 'static,
        L: Fn(&Reflector) -> (Vec<T>, Option<usize>) + Send + Clone + 'static,
    {
        let look = |first: &First<T>, at| look(first.end(), at);
        let walk = self.walk(index, first, look, First::with);
        let (first, revision) = walk.await?;
        off_the_runtime(move || first.finish(revision)).await
    }
}

/// Exports of whole tables at a time: each reads a table to its end, and a person or a timer wants one.
pub(crate) const EXPORTS_MAX: usize = 1;

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::speaker::peer::tests::shared;

    #[tokio::test]
    async fn one_export_at_a_time() {
        let (shared, _store) = shared("[bgp]\nasn = 64496\n");
        let tables = Tables::new(Arc::new(shared));
        let first = tables.export().unwrap();
        let second = tables.export().unwrap_err();
        assert_eq!(second.code(), Code::ResourceExhausted);
        drop(first);
        assert!(tables.export().is_ok());
    }
}
