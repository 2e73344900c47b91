//! A look at the reflector that is as late as it has to be.

use std::time::Duration;

use tonic::Status;

use crate::reflector::Reflector;
use crate::speaker::Shared;

/// What the reflector of this replica shows once it has everything up to `index`: it is a moment behind the store, and
/// catches up within a few turns.
///
/// # Errors
/// UNAVAILABLE while the replica stops, DEADLINE_EXCEEDED if it does not keep up.
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
            None => return Err(Status::unavailable("the replica is stopping")),
        }
    }
    Err(Status::deadline_exceeded("this replica does not keep up"))
}

/// A second: a replica that is further behind cannot answer.
const CATCH_UP_TURNS: u32 = 500;
const CATCH_UP_PAUSE: Duration = Duration::from_millis(2);
