//! The keys of TCP-AO (RFC 5925) that a peer or a group names: what is written, what is meant, and what cannot be
//! meant next to others. Reads the files of keys, and knows no connection.

use std::path::PathBuf;

use ipnet::IpNet;
use weft_sys::tcp_ao::{Algorithm, MasterKey};
use weft_sys::{Key, KeyError, tcp_ao_supported};

use super::ListenRange;
use super::check::{Invalid, invalid, word};
use super::file::FileTcpAo;
use super::group::PeerGroup;

/// A key of TCP-AO. The key itself is never held here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpAoKey {
    /// Names the key in what is sent: the peer's receive id.
    pub send_id: u8,
    /// Names the key in what is received: the peer's send id.
    pub recv_id: u8,
    /// Of the code that signs, RFC 5926.
    pub algorithm: Algorithm,
    /// The other options of TCP are signed too.
    pub tcp_options: bool,
    /// The file with the key.
    pub key_file: PathBuf,
}

impl TcpAoKey {
    /// The key with its secret, read from its file now.
    ///
    /// # Errors
    /// Why the file holds no key.
    pub fn load(&self) -> Result<MasterKey, KeyError> {
        let Self {
            send_id,
            recv_id,
            algorithm,
            tcp_options,
            key_file,
        } = self;
        Ok(MasterKey {
            send_id: *send_id,
            recv_id: *recv_id,
            algorithm: *algorithm,
            tcp_options: *tcp_options,
            secret: Key::load(key_file)?,
        })
    }
}

impl FileTcpAo {
    /// The keys of one peer or group; the first is the one to sign with.
    pub(super) fn check_all(all: &[Self], place: &str) -> Result<Vec<TcpAoKey>, Invalid> {
        let place = format!("{place}.tcp_ao");
        if all.is_empty() {
            return invalid(place, "names no key; false for none");
        }
        if all.len() > KEYS_MAX {
            return invalid(place, format!("more than {KEYS_MAX} keys"));
        }
        let mut keys: Vec<TcpAoKey> = Vec::new();
        for (at, raw) in all.iter().enumerate() {
            let place = format!("{place}[{at}]");
            let key = raw.check(&place)?;
            let taken =
                |other: &TcpAoKey| other.send_id == key.send_id || other.recv_id == key.recv_id;
            if keys.iter().any(taken) {
                return invalid(place, "has an id of another key (RFC 5925 §3.1)");
            }
            keys.push(key);
        }
        Ok(keys)
    }

    fn check(&self, place: &str) -> Result<TcpAoKey, Invalid> {
        let (send_id, recv_id) = match (self.id, self.send_id, self.recv_id) {
            (Some(id), None, None) => (id, id),
            (None, Some(send_id), Some(recv_id)) => (send_id, recv_id),
            _ => return invalid(place, "needs id, or send_id and recv_id"),
        };
        if self.key_file.as_os_str().is_empty() {
            return invalid(format!("{place}.key_file"), "is empty");
        }
        let algorithm = match &self.algorithm {
            None => Algorithm::HmacSha1,
            Some(text) => word(format!("{place}.algorithm"), text, &ALGORITHMS)?,
        };
        Ok(TcpAoKey {
            send_id,
            recv_id,
            algorithm,
            tcp_options: self.tcp_options.unwrap_or(true),
            key_file: self.key_file.clone(),
        })
    }
}

/// Whether there is a key in every file, and a kernel that takes it: nobody who is to be protected goes
/// unprotected.
pub(super) fn check_keys(all: &[FileTcpAo], place: &str) -> Result<(), Invalid> {
    for (at, key) in FileTcpAo::check_all(all, place)?.iter().enumerate() {
        let place = format!("{place}.tcp_ao[{at}]");
        let loaded = match key.load() {
            Ok(loaded) => loaded,
            Err(error) => {
                let source = std::error::Error::source(&error);
                let why = source.map_or_else(String::new, |source| format!(": {source}"));
                return invalid(format!("{place}.key_file"), format!("{error}{why}"));
            }
        };
        let file = key.key_file.display();
        if !tcp_ao_supported() {
            return invalid(
                place,
                format!(
                    "key {}/{} of {file}: this kernel has no TCP-AO (RFC 5925: CONFIG_TCP_AO, Linux 6.7 or later)",
                    key.send_id, key.recv_id
                ),
            );
        }
        if let Err(error) = loaded.try_out() {
            return invalid(
                place,
                format!("key of {file}: this kernel does not take it: {error}"),
            );
        }
    }
    Ok(())
}

/// Whether who is under a listen range can have these keys there. A kernel takes every key of every prefix that an
/// address is under, so unlike with TCP-MD5 the longest prefix does not go before the others.
pub(super) fn fits_under(
    group: &PeerGroup,
    whose: &str,
    range: &ListenRange,
    of_range: &PeerGroup,
) -> Result<(), String> {
    let prefix = range.prefix;
    if !of_range.tcp_ao.is_empty() && group.tcp_ao != of_range.tcp_ao {
        return Err(format!(
            "{whose} is under the listen range {prefix}, whose keys hold there too (RFC 5925 §3.1): give both the same"
        ));
    }
    if of_range.password_file.is_some() && !group.tcp_ao.is_empty() {
        return Err(format!(
            "{whose} is under the listen range {prefix}, which has a password_file: no address can have both"
        ));
    }
    Ok(())
}

/// Whether a prefix lies under another one.
pub(super) fn is_under(prefix: IpNet, other: IpNet) -> bool {
    other != prefix && other.contains(&prefix)
}

pub(super) const ALGORITHMS: [(&str, Algorithm); 2] = [
    ("hmac-sha-1-96", Algorithm::HmacSha1),
    ("aes-128-cmac-96", Algorithm::AesCmac),
];
/// A rollover needs two; each costs a listener memory for each peer.
const KEYS_MAX: usize = 16;
