//! A look at the reflector that is as late as it has to be.

use std::time::Duration;

use tonic::Status;

use super::refusal;
use crate::reflector::Reflector;
use crate::speaker::Shared;

/// What the reflector of this replica shows once it has everything up to `index`: it is a moment behind the store, and
/// catches up within a few turns.
///
/// # Errors
/// UNAVAILABLE while the replica stops, or if it does not keep up.
pub(super) async fn at<T: Send + 'static>(
    shared: &Shared,
    index: u64,
    look: impl Fn(&Reflector) -> T + Send + Clone + 'static,
) -> Result<T, Status> {
    for _ in 0..CATCH_UP_TURNS {
        let look = look.clone();
        let answer = shared
            .reflection
            .query(move |reflector| (reflector.index() >= index).then(|| look(reflector)));
        match answer.await {
            Some(Some(answer)) => return Ok(answer),
            Some(None) => tokio::time::sleep(CATCH_UP_PAUSE).await,
            None => return Err(refusal::stopping()),
        }
    }
    Err(refusal::behind())
}

/// A second: a replica that is further behind cannot answer.
const CATCH_UP_TURNS: u32 = 500;
const CATCH_UP_PAUSE: Duration = Duration::from_millis(2);
