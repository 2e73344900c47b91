//! The addresses of replicas, from which alone Raft's port takes connections. Names are resolved off the path of a connection.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::config::Remote;
use crate::daemon::resolver::Resolver;

/// The addresses of replicas; clones have the same.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    known: watch::Receiver<BTreeSet<IpAddr>>,
    /// Somebody with another address came: a name may have a new one.
    asked: Arc<Notify>,
}

impl Members {
    /// Returns the addresses of replicas, and the task that keeps them up to date.
    pub(crate) fn of(replicas: Vec<Remote>) -> (Self, impl Future<Output = ()>) {
        Self::by(replicas.into_iter().map(Resolver::new).collect())
    }

    fn by(resolvers: Vec<Resolver>) -> (Self, impl Future<Output = ()>) {
        let known = resolvers.iter().flat_map(Resolver::known);
        let known = known.map(|it| it.ip().to_canonical()).collect();
        let (sender, known) = watch::channel(known);
        let asked = Arc::new(Notify::new());
        let follow = follow(resolvers, sender, Arc::clone(&asked));
        (Self { known, asked }, follow)
    }

    /// Returns true if a replica has this address. If none has, names are resolved again soon.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        let is_known = self.known.borrow().contains(&address.to_canonical());
        if !is_known {
            self.asked.notify_one();
        }
        is_known
    }
}

/// Resolves names again and again.
async fn follow(
    mut resolvers: Vec<Resolver>,
    known: watch::Sender<BTreeSet<IpAddr>>,
    asked: Arc<Notify>,
) {
    loop {
        let answers = join_all(resolvers.iter_mut().map(Resolver::addresses)).await;
        let addresses = answers.into_iter().flatten();
        let addresses = addresses.map(|it| it.ip().to_canonical()).collect();
        known.send_replace(addresses);
        sleep(PAUSE).await;
        let _ = timeout(REFRESH, asked.notified()).await;
    }
}

/// Between two look-ups of a name, however many strangers come: a replica that moved is let in about a second later.
const PAUSE: Duration = Duration::from_secs(1);
/// A name that lost an address is resolved again after so long.
const REFRESH: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_moved_is_admitted_after_its_name_is_resolved_again() {
        let at: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let now = Arc::clone(&at);
        let look_up = move |_: &str, _: u16| Ok(now.lock().unwrap().clone());
        let named = "weft-2.example.net:7400".parse().unwrap();
        let listed: SocketAddr = "192.0.2.1:7400".parse().unwrap();
        let (members, follow) = Members::by(vec![
            Resolver::new(listed.into()),
            Resolver::by(named, Arc::new(look_up)),
        ]);
        let [own, old, new] = ["192.0.2.1", "192.0.2.2", "::ffff:192.0.2.3"];
        let admits = |address: &str| members.admits(address.parse().unwrap());
        assert!(admits(own) && !admits(old), "nothing is resolved yet");
        at.lock().unwrap().push("192.0.2.2:7400".parse().unwrap());
        let follow = tokio::spawn(follow);
        let mut known = members.known.clone();
        let mut known_by = async |address: &str| {
            let address: IpAddr = address.parse().unwrap();
            let known = known.wait_for(|it| it.contains(&address.to_canonical()));
            drop(timeout(PAUSE * 5, known).await.unwrap().unwrap());
        };
        known_by(old).await;
        assert!(admits(own) && admits(old) && !admits(new));
        at.lock().unwrap()[0] = "192.0.2.3:7400".parse().unwrap();
        assert!(
            !admits(new),
            "the look-up is not on the path of a connection"
        );
        known_by(new).await;
        assert!(admits(own) && !admits(old) && admits(new));
        follow.abort();
    }
}
