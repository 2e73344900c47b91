//! A secret out of a file. It refuses to show itself, and to know what it is used for.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::options::KEY_LEN_MAX;

/// A key of 1 to 80 octets. It is overwritten when dropped, and `Debug` does not show it. Two keys
/// can be compared, to find out whether a file changed.
#[derive(Clone)]
pub struct Key {
    // On the heap, so that moving a key leaves no copy behind.
    octets: Box<Zeroizing<[u8; KEY_LEN_MAX]>>,
    len: usize,
}

/// Why a file is not a key. Each names the path, none shows what is in the file.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("key file {path} not readable")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is a directory, a pipe or a device.
    #[error("key file {0} not a regular file")]
    Irregular(PathBuf),
    /// Group or others may read, write or execute it.
    #[error("key file {path} open to group or others: mode {mode:04o}, expected 0400 or 0600")]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Nothing is in it but perhaps a newline.
    #[error("key file {0} empty")]
    Empty(PathBuf),
    /// More octets than a key has: 80 are the most that TCP-MD5 takes.
    #[error("key file {0} longer than {1} octets")]
    TooLong(PathBuf, usize),
}

/// Reads a file that only its owner may read, such as the private key of a certificate: 1 to 65,536 octets as they are.
///
/// # Errors
///
/// See [`KeyError`].
pub fn private_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let file = open(path)?;
    // As large as it can get from the beginning, so that growing leaves no copy behind.
    let mut octets = Zeroizing::new(vec![0; PRIVATE_LEN_MAX + 1]);
    let len = read(file, &mut octets).map_err(|source| KeyError::unreadable(path, source))?;
    octets.truncate(len);
    match len {
        0 => Err(KeyError::Empty(path.to_owned())),
        1..=PRIVATE_LEN_MAX => Ok(octets),
        _ => Err(KeyError::TooLong(path.to_owned(), PRIVATE_LEN_MAX)),
    }
}

/// Opens a regular file that nobody but its owner may touch.
fn open(path: &Path) -> Result<File, KeyError> {
    // Opening a pipe without a writer would block.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map_err(|source| KeyError::unreadable(path, source))?;
    let metadata = file
        .metadata()
        .map_err(|source| KeyError::unreadable(path, source))?;
    if !metadata.is_file() {
        return Err(KeyError::Irregular(path.to_owned()));
    }
    let mode = metadata.mode() & 0o7777;
    match mode & 0o077 {
        0 => Ok(file),
        _ => Err(KeyError::Exposed {
            path: path.to_owned(),
            mode,
        }),
    }
}

impl Key {
    /// Reads a key from a file. One newline at the end is not part of it.
    ///
    /// # Errors
    ///
    /// See [`KeyError`].
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let file = open(path)?;
        let mut octets = Zeroizing::new([0; READ_LEN]);
        let len =
            read(file, octets.as_mut()).map_err(|source| KeyError::unreadable(path, source))?;
        let octets = &octets[..len];
        let octets = octets.strip_suffix(b"\n").unwrap_or(octets);
        match octets.len() {
            0 => Err(KeyError::Empty(path.to_owned())),
            1..=KEY_LEN_MAX => Ok(Self::copy(octets)),
            _ => Err(KeyError::TooLong(path.to_owned(), KEY_LEN_MAX)),
        }
    }

    /// A key from octets that are already in memory; `None` unless they are 1 to 80.
    #[must_use]
    pub fn new(octets: &[u8]) -> Option<Self> {
        (1..=KEY_LEN_MAX)
            .contains(&octets.len())
            .then(|| Self::copy(octets))
    }

    /// The secret itself, for who sends or compares it.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }

    fn copy(octets: &[u8]) -> Self {
        let mut key = Self {
            octets: Box::new(Zeroizing::new([0; KEY_LEN_MAX])),
            len: octets.len(),
        };
        key.octets[..octets.len()].copy_from_slice(octets);
        key
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.octets() == other.octets()
    }
}

impl Eq for Key {}

impl KeyError {
    fn unreadable(path: &Path, source: io::Error) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            source,
        }
    }
}

/// Fills `octets` as far as the file goes.
fn read(mut file: impl Read, octets: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < octets.len() {
        match file.read(&mut octets[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// A key, its newline, and one octet more to see that it is too long.
const READ_LEN: usize = KEY_LEN_MAX + 2;

/// A private key has some kilobytes.
const PRIVATE_LEN_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn load(content: &[u8], mode: u32) -> Result<Key, KeyError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leaf1.key");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Key::load(&path)
    }

    #[test]
    fn one_newline_at_the_end_is_not_part_of_a_key() {
        assert_eq!(load(b"fabric\n", 0o600).unwrap().octets(), b"fabric");
        assert_eq!(load(b"fabric", 0o400).unwrap().octets(), b"fabric");
        assert_eq!(load(b" a b \n\n", 0o400).unwrap().octets(), b" a b \n");
    }

    #[test]
    fn a_key_has_1_to_80_octets() {
        assert!(matches!(load(b"", 0o600), Err(KeyError::Empty(_))));
        assert!(matches!(load(b"\n", 0o600), Err(KeyError::Empty(_))));
        assert_eq!(load(&[b'k'; 80], 0o600).unwrap().octets(), [b'k'; 80]);
        let mut longest = [b'k'; 81];
        longest[80] = b'\n';
        assert_eq!(load(&longest, 0o600).unwrap().octets(), [b'k'; 80]);
        for len in [81, 82, 83, 5_000] {
            assert!(matches!(
                load(&vec![b'k'; len], 0o600),
                Err(KeyError::TooLong(_, KEY_LEN_MAX))
            ));
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        for mode in [0o640, 0o604, 0o644, 0o620, 0o601] {
            let error = load(b"fabric", mode).unwrap_err().to_string();
            assert!(error.contains("leaf1.key"), "{error}");
            assert!(error.contains(&format!("{mode:04o}")), "{error}");
            assert!(!error.contains("fabric"), "{error}");
        }
    }

    #[test]
    fn a_private_file_is_read_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leaf1.pem");
        let read = |content: &[u8], mode: u32| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            private_file(&path)
        };
        assert_eq!(read(b"a key\n", 0o600).unwrap().as_slice(), b"a key\n");
        assert_eq!(read(&[b'k'; 65_536], 0o600).unwrap().len(), 65_536);
        let refused = read(&[b'k'; 65_537], 0o600).unwrap_err().to_string();
        assert!(refused.ends_with("longer than 65536 octets"), "{refused}");
        assert!(matches!(read(b"", 0o600), Err(KeyError::Empty(_))));
        let refused = read(b"a key", 0o640).unwrap_err();
        assert!(matches!(refused, KeyError::Exposed { mode: 0o640, .. }));
    }

    #[test]
    fn what_is_not_a_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(
            Key::load(directory.path()),
            Err(KeyError::Irregular(_))
        ));
        let missing = directory.path().join("missing.key");
        let error = Key::load(&missing).unwrap_err();
        assert!(error.to_string().contains("missing.key"), "{error}");
        let pipe = directory.path().join("pipe.key");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(matches!(Key::load(&pipe), Err(KeyError::Irregular(_))));
    }

    #[test]
    fn a_key_does_not_show_itself() {
        let key = Key::new(b"fabric").unwrap();
        assert_eq!(format!("{key:?} {:?}", Some(&key)), "Key(..) Some(Key(..))");
        assert_eq!(key, Key::new(b"fabric").unwrap());
        assert_ne!(key, Key::new(b"fabri").unwrap());
        assert!(Key::new(b"").is_none() && Key::new(&[1; 81]).is_none());
    }
}
