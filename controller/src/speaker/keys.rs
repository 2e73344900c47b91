//! The keys of TCP-MD5 on the listeners: whoever has one cannot connect without it. Knows files and
//! sockets; a live connection has its key from its peer's task.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use weft_sys::{Key, KeyError};

use crate::config::{Bgp, PeerGroup};

/// The key of a group or peer, read from its file now.
///
/// # Errors
/// Why the file holds no key.
pub fn load(group: &PeerGroup) -> Result<Option<Key>, KeyError> {
    group.password_file.as_deref().map(Key::load).transpose()
}

/// Signs a live connection with this key from the next segment on, or with none any more.
///
/// # Errors
/// What the system said.
pub fn sign(stream: &TcpStream, key: Option<&Key>) -> std::io::Result<()> {
    let peer = stream.peer_addr()?.ip();
    weft_sys::md5_key(stream, peer, None, key.map(Key::octets))
}

/// For whom a listener holds a key: an address, or all under a prefix of so many bits. A peer without a
/// key of its own under such a prefix has the prefix's.
pub type Whose = (IpAddr, Option<u8>);

/// The listeners with the keys that they hold.
#[derive(Default)]
pub struct Keyring {
    listeners: Vec<Arc<TcpListener>>,
    held: BTreeMap<Whose, Key>,
}

impl Keyring {
    /// Listeners that hold no key yet.
    pub fn new(listeners: Vec<Arc<TcpListener>>) -> Self {
        Self {
            listeners,
            held: BTreeMap::new(),
        }
    }

    /// Reads every key file that the configuration names.
    ///
    /// # Errors
    /// The first file that holds no key.
    pub fn read(bgp: &Bgp) -> Result<BTreeMap<Whose, Key>, KeyError> {
        let mut keys = BTreeMap::new();
        for peer in bgp.peers.values() {
            if let Some(key) = load(&peer.settings)? {
                keys.insert((peer.address, None), key);
            }
        }
        for range in &bgp.listen_ranges {
            let prefix = range.prefix;
            let group = &bgp.groups[&range.peer_group];
            if let Some(key) = load(group)? {
                keys.insert((prefix.network(), Some(prefix.prefix_len())), key);
            }
        }
        Ok(keys)
    }

    /// Puts these keys on the listeners: what is new or changed is set, what is gone is removed.
    ///
    /// # Errors
    /// What the system said; the other keys are set nevertheless.
    pub fn hold(&mut self, keys: BTreeMap<Whose, Key>) -> std::io::Result<()> {
        let mut result = Ok(());
        let gone = self.held.keys().filter(|whose| !keys.contains_key(whose));
        for whose in gone.copied().collect::<Vec<_>>() {
            let removed = self.set(whose, None);
            self.held.remove(&whose);
            result = result.and(removed);
        }
        for (whose, key) in keys {
            if self.held.get(&whose) != Some(&key) {
                let set = self.set(whose, Some(&key));
                // What was not taken is tried again next time.
                if set.is_ok() {
                    self.held.insert(whose, key);
                }
                result = result.and(set);
            }
        }
        result
    }

    fn set(&self, (address, bits): Whose, key: Option<&Key>) -> std::io::Result<()> {
        let of_its_family = |listener: &&Arc<TcpListener>| {
            let local = listener.local_addr();
            local.is_ok_and(|local| local.is_ipv4() == address.is_ipv4())
        };
        let listeners = self.listeners.iter().filter(of_its_family);
        let set = |listener: &Arc<TcpListener>| {
            weft_sys::md5_key(&**listener, address, bits, key.map(Key::octets))
        };
        // All of them, whatever one says.
        listeners.map(set).fold(Ok(()), std::io::Result::and)
    }
}
