//! The keys of TCP-MD5 and TCP-AO on the listeners: whoever has one cannot connect without it. Knows files and
//! sockets; a live connection has its key from its peer's task.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use socket2::Socket;
use tokio::net::{TcpListener, TcpStream};
use weft_sys::tcp_ao::{self, MasterKey, TurnError};
use weft_sys::{Key, KeyError};

use crate::config::{Bgp, ListenRange, PeerGroup, TcpAoKey};
use crate::daemon::files;

/// What signs the segments of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Secret {
    /// TCP-MD5, RFC 2385.
    Md5(Key),
    /// TCP-AO, RFC 5925: it signs with the first, and takes each. Never empty.
    TcpAo(Vec<MasterKey>),
}

/// Keys for the listeners of a configuration.
pub type Keys = BTreeMap<Whose, Secret>;

/// Reads the keys of a group or peer. A file system that hangs delays nobody else.
///
/// # Errors
/// Why a file holds no key.
pub async fn read(group: &PeerGroup) -> io::Result<Option<Secret>> {
    if group.tcp_ao.is_empty() && group.password_file.is_none() {
        return Ok(None);
    }
    let key_files = group.tcp_ao.iter().map(|key| &key.key_file);
    let place = files::place(key_files.chain(&group.password_file));
    let group = group.clone();
    let read = files::read(place, move || load(&group)).await?;
    read.map_err(io::Error::other)
}

/// Reads every key file that a configuration names.
///
/// # Errors
/// The first file that holds no key; or they are not read in time.
pub async fn read_all(bgp: &Bgp) -> io::Result<Keys> {
    let bgp = bgp.clone();
    let read = files::read_all(move || Keyring::read(&bgp)).await?;
    read.map_err(io::Error::other)
}

fn load(group: &PeerGroup) -> Result<Option<Secret>, KeyError> {
    if !group.tcp_ao.is_empty() {
        let keys: Result<_, _> = group.tcp_ao.iter().map(TcpAoKey::load).collect();
        return Ok(Some(Secret::TcpAo(keys?)));
    }
    let key = group.password_file.as_deref().map(Key::load).transpose()?;
    Ok(key.map(Secret::Md5))
}

/// Signs a live connection with this from the next segment on, or with nothing any more.
///
/// # Errors
/// Why it cannot. A connection that is to be signed with TCP-AO must not go on then.
pub fn sign(stream: &TcpStream, secret: Option<&Secret>) -> Result<(), TurnError> {
    let peer = stream.peer_addr()?.ip();
    match secret {
        Some(Secret::TcpAo(keys)) => tcp_ao::turn(stream, peer, keys),
        Some(Secret::Md5(key)) => Ok(weft_sys::md5_key(stream, peer, None, Some(key.octets()))?),
        None => Ok(weft_sys::md5_key(stream, peer, None, None)?),
    }
}

/// Signs what a socket that is going to connect sends.
///
/// # Errors
/// What the system said; it must not connect then.
pub fn protect(socket: &Socket, peer: IpAddr, secret: &Secret) -> io::Result<()> {
    match secret {
        Secret::Md5(key) => weft_sys::md5_key(socket, peer, None, Some(key.octets())),
        Secret::TcpAo(keys) => tcp_ao::protect(socket, peer, keys),
    }
}

/// For whom a listener holds a key: an address, or all under a prefix of so many bits. A peer without a
/// key of its own under such a prefix has the prefix's. All its keys of TCP-AO are the prefix's.
pub type Whose = (IpAddr, Option<u8>);

/// The listeners with the keys that they hold.
#[derive(Default)]
pub struct Keyring {
    listeners: Vec<Arc<TcpListener>>,
    held: Keys,
}

impl Keyring {
    /// Listeners that hold no key yet.
    pub fn new(listeners: Vec<Arc<TcpListener>>) -> Self {
        Self {
            listeners,
            held: BTreeMap::new(),
        }
    }

    fn read(bgp: &Bgp) -> Result<Keys, KeyError> {
        let mut secrets = BTreeMap::new();
        for peer in bgp.peers.values() {
            let address = IpNet::from(peer.address);
            let around = |range: IpNet| range.contains(&address);
            if let Some(secret) = load_under(bgp, &peer.settings, around)? {
                secrets.insert((peer.address, None), secret);
            }
        }
        for range in &bgp.listen_ranges {
            let prefix = range.prefix;
            let group = &bgp.groups[&range.peer_group];
            let around = |range: IpNet| range != prefix && range.contains(&prefix);
            if let Some(secret) = load_under(bgp, group, around)? {
                secrets.insert((prefix.network(), Some(prefix.prefix_len())), secret);
            }
        }
        Ok(secrets)
    }

    /// Puts these keys on the listeners: what is new or changed is set, what is gone is removed.
    ///
    /// # Errors
    /// What the system said; the other keys are set nevertheless.
    pub fn hold(&mut self, wanted: Keys) -> io::Result<()> {
        let mut result = Ok(());
        // First what goes: its ids may come back under another prefix.
        for (whose, held) in std::mem::take(&mut self.held) {
            let (kept, taken) = self.take(whose, held, wanted.get(&whose));
            self.held.extend(kept.map(|kept| (whose, kept)));
            result = result.and(taken);
        }
        for (whose, wanted) in wanted {
            let held = self.held.remove(&whose);
            let (held, given) = self.give(whose, held, wanted);
            // What was not taken is tried again next time.
            self.held.extend(held.map(|held| (whose, held)));
            result = result.and(given);
        }
        result
    }

    /// Removes what is not wanted any more; returns what is left.
    fn take(
        &self,
        whose: Whose,
        held: Secret,
        wanted: Option<&Secret>,
    ) -> (Option<Secret>, io::Result<()>) {
        let keys = match (held, wanted) {
            (Secret::Md5(key), Some(Secret::Md5(_))) => return (Some(Secret::Md5(key)), Ok(())),
            (Secret::Md5(_), Some(Secret::TcpAo(_)) | None) => {
                let set = self.each(whose, |listener, (address, bits)| {
                    weft_sys::md5_key(listener, address, bits, None)
                });
                return (None, set);
            }
            (Secret::TcpAo(keys), _) => keys,
        };
        let stays = |key: &MasterKey| match wanted {
            Some(Secret::TcpAo(wanted)) => wanted.contains(key),
            Some(Secret::Md5(_)) | None => false,
        };
        let (kept, gone): (Vec<_>, Vec<_>) = keys.into_iter().partition(stays);
        let dismiss = |key| {
            self.each(whose, |listener, (address, bits)| {
                tcp_ao::dismiss(listener, address, bits, key)
            })
        };
        let taken = gone.iter().map(dismiss).fold(Ok(()), io::Result::and);
        (
            Some(kept)
                .filter(|kept| !kept.is_empty())
                .map(Secret::TcpAo),
            taken,
        )
    }

    /// Adds what is not held yet; returns what is held then.
    fn give(
        &self,
        whose: Whose,
        held: Option<Secret>,
        wanted: Secret,
    ) -> (Option<Secret>, io::Result<()>) {
        if held.as_ref() == Some(&wanted) {
            return (held, Ok(()));
        }
        let wanted = match wanted {
            Secret::Md5(key) => {
                let set = self.each(whose, |listener, (address, bits)| {
                    weft_sys::md5_key(listener, address, bits, Some(key.octets()))
                });
                let held = if set.is_ok() {
                    Some(Secret::Md5(key))
                } else {
                    held
                };
                return (held, set);
            }
            Secret::TcpAo(wanted) => wanted,
        };
        let mut keys = match held {
            Some(Secret::TcpAo(keys)) => keys,
            Some(Secret::Md5(_)) | None => Vec::new(),
        };
        let mut result = Ok(());
        for key in wanted {
            if keys.contains(&key) {
                continue;
            }
            let admitted = self.each(whose, |listener, (address, bits)| {
                tcp_ao::admit(listener, address, bits, &key)
            });
            if admitted.is_ok() {
                keys.push(key);
            }
            result = result.and(admitted);
        }
        (
            Some(keys)
                .filter(|keys| !keys.is_empty())
                .map(Secret::TcpAo),
            result,
        )
    }

    /// Does it on every listener of the family, whatever one says.
    fn each(
        &self,
        whose: Whose,
        set: impl Fn(&TcpListener, Whose) -> io::Result<()>,
    ) -> io::Result<()> {
        let of_its_family = |listener: &&Arc<TcpListener>| {
            let local = listener.local_addr();
            local.is_ok_and(|local| local.is_ipv4() == whose.0.is_ipv4())
        };
        let listeners = self.listeners.iter().filter(of_its_family);
        listeners
            .map(|listener| set(listener, whose))
            .fold(Ok(()), io::Result::and)
    }
}

/// The keys for a prefix, unless a range around it has them already: then they are the same, and a listener takes
/// the keys of TCP-AO once.
fn load_under(
    bgp: &Bgp,
    group: &PeerGroup,
    around: impl Fn(IpNet) -> bool,
) -> Result<Option<Secret>, KeyError> {
    let has_them = |range: &ListenRange| {
        around(range.prefix) && !bgp.groups[&range.peer_group].tcp_ao.is_empty()
    };
    if !group.tcp_ao.is_empty() && bgp.listen_ranges.iter().any(has_them) {
        return Ok(None);
    }
    load(group)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_peer_under_a_range_with_keys_of_tcp_ao_has_those_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("near.ao");
        std::fs::write(&file, "a secret").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let key = file.display().to_string();
        let text = format!(
            r#"
            [[bgp.peer_group]]
            name = "signed"
            tcp_ao = [{{ id = 1, key_file = {key:?} }}]
            [[bgp.peer_group]]
            name = "md5"
            password_file = {key:?}
            [[bgp.listen_range]]
            prefix = "192.0.2.0/24"
            peer_group = "signed"
            [[bgp.listen_range]]
            prefix = "192.0.2.128/25"
            peer_group = "signed"
            [[bgp.listen_range]]
            prefix = "198.51.100.1/32"
            peer_group = "signed"
            [[bgp.peer]]
            address = "192.0.2.1"
            peer_group = "signed"
            [[bgp.peer]]
            address = "203.0.113.1"
            peer_group = "signed"
            [[bgp.peer]]
            address = "203.0.113.2"
            peer_group = "md5"
            "#
        );
        let config = Config::parse(&text, Path::new("weft.toml")).unwrap();
        let secrets = Keyring::read(&config.bgp).unwrap();
        let held: Vec<_> = secrets
            .iter()
            .map(|((address, bits), secret)| {
                let signed = matches!(secret, Secret::TcpAo(_));
                (address.to_string(), *bits, signed)
            })
            .collect();
        let expected = [
            ("192.0.2.0", Some(24), true),
            ("198.51.100.1", Some(32), true),
            ("203.0.113.1", None, true),
            ("203.0.113.2", None, false),
        ];
        assert_eq!(
            held,
            expected.map(|(address, bits, signed)| (address.to_owned(), bits, signed))
        );
        assert!(!format!("{secrets:?}").contains("a secret"));
    }
}
