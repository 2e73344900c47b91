//! Addresses of a remote end, looked up again at each dial. Knows the resolver of the system, and no connection.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::config::Remote;

/// Looks a host and a port up. May block.
type LookUp = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Addresses of one remote end.
pub(crate) struct Resolver {
    remote: Remote,
    look_up: LookUp,
    /// A look-up that has not ended. There is at most one: a resolver that hangs keeps one thread.
    pending: Option<JoinHandle<io::Result<Vec<SocketAddr>>>>,
    /// Answer of the last look-up that found an address.
    known: Vec<SocketAddr>,
    /// True while look-ups fail.
    failing: bool,
}

impl Resolver {
    /// Uses the resolver of the system.
    pub(crate) fn new(remote: Remote) -> Self {
        Self::by(remote, Arc::new(look_up))
    }

    pub(crate) fn by(remote: Remote, look_up: LookUp) -> Self {
        let known = match &remote {
            Remote::Address(address) => vec![*address],
            Remote::Name { .. } => Vec::new(),
        };
        Self {
            remote,
            look_up,
            pending: None,
            known,
            failing: false,
        }
    }

    /// Addresses of the last look-up that found one.
    pub(crate) fn known(&self) -> &[SocketAddr] {
        &self.known
    }

    /// Addresses to dial, the best one first. If the look-up fails or takes more than [`LOOK_UP_MAX`], the addresses are those of
    /// the last one that succeeded: the DNS may be behind the network that weft serves. Empty: none ever did.
    pub(crate) async fn addresses(&mut self) -> &[SocketAddr] {
        let Remote::Name { host, port } = &self.remote else {
            return &self.known;
        };
        let pending = self.pending.get_or_insert_with(|| {
            let (look_up, host, port) = (Arc::clone(&self.look_up), host.clone(), *port);
            spawn_blocking(move || look_up(&host, port))
        });
        let answer = timeout(LOOK_UP_MAX, pending).await;
        if answer.is_ok() {
            self.pending = None;
        }
        let fault = match answer {
            Ok(Ok(Ok(found))) if !found.is_empty() => {
                self.known = found;
                self.failing = false;
                return &self.known;
            }
            Ok(Ok(Ok(_))) => "no address".to_owned(),
            Ok(Ok(Err(error))) => error.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the resolver does not answer".to_owned(),
        };
        if !std::mem::replace(&mut self.failing, true) {
            let (remote, known) = (&self.remote, self.known.len());
            tracing::warn!(%remote, error = fault, known, "name not resolved; addresses of the last answer are dialed");
        }
        &self.known
    }
}

fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs()?;
    Ok(found.take(ADDRESSES_MAX).collect())
}

/// Addresses that are dialed one after the other: two families, and some more.
const ADDRESSES_MAX: usize = 8;
/// As long as a dial may take.
const LOOK_UP_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;

    fn name() -> Remote {
        "weft-1.example.net:7400".parse().unwrap()
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 7400))
    }

    #[tokio::test]
    async fn a_name_is_looked_up_at_each_dial_and_its_last_addresses_are_kept() {
        let answers: [io::Result<Vec<SocketAddr>>; 5] = [
            Err(io::ErrorKind::NotFound.into()),
            Ok(vec![address(1), address(2)]),
            Ok(vec![address(3)]),
            Err(io::ErrorKind::TimedOut.into()),
            Ok(Vec::new()),
        ];
        let answers = Mutex::new(answers.into_iter());
        let next = move |host: &str, port: u16| {
            assert_eq!((host, port), ("weft-1.example.net", 7400));
            answers.lock().unwrap().next().unwrap()
        };
        let mut resolver = Resolver::by(name(), Arc::new(next));
        assert_eq!(resolver.addresses().await, []);
        assert_eq!(resolver.addresses().await, [address(1), address(2)]);
        for _ in 0..3 {
            assert_eq!(resolver.addresses().await, [address(3)]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_resolver_that_hangs_is_not_asked_again_until_it_answers() {
        let (answer, answers) = mpsc::channel();
        let answers = Mutex::new(answers);
        let hang = move |_: &str, _: u16| {
            let address = answers.lock().unwrap().recv().unwrap();
            Ok::<_, io::Error>(vec![address])
        };
        let mut resolver = Resolver::by(name(), Arc::new(hang));
        for _ in 0..3 {
            let time = async {
                tokio::task::yield_now().await;
                tokio::time::advance(LOOK_UP_MAX * 2).await;
            };
            let (addresses, ()) = tokio::join!(resolver.addresses(), time);
            assert_eq!(addresses, []);
        }
        // One look-up takes the first answer; two would take both.
        answer.send(address(1)).unwrap();
        assert_eq!(resolver.addresses().await, [address(1)]);
        answer.send(address(2)).unwrap();
        assert_eq!(resolver.addresses().await, [address(2)]);
    }

    #[tokio::test]
    async fn an_address_is_not_looked_up() {
        fn never(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
            panic!("looked up")
        }
        let mut resolver = Resolver::by(address(1).into(), Arc::new(never));
        assert_eq!(resolver.addresses().await, [address(1)]);
    }
}
