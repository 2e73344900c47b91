//! Reads the tables of this replica for a call: as late as the call asks for, and part by part. Knows no row.

use std::sync::Arc;

use tokio::sync::Semaphore;
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
    /// Looks hold the reflector up: this many at a time.
    looks: Semaphore,
    kept: Arc<Kept>,
}

impl Tables {
    /// Of a running daemon.
    pub fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            looks: Semaphore::new(LOOKS_MAX),
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
        let look_permit = self.looks.acquire().await;
        let _look = look_permit.map_err(|_| refusal::stopping())?;
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

const LOOKS_MAX: usize = 2;
