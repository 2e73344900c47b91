//! Whose data directory it is: a small text file that can be read when the database cannot. Knows
//! nothing of what the database holds.
//!
//! ```text
//! weft-store
//! format 4
//! replica 3
//! cluster 000102030405060708090a0b0c0d0e0f
//! ```

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use crate::{config::Config, error::OpenError};

/// Whether the directory has an identity, and the format that it has then; an error if it is not the configured one.
pub(crate) fn check(config: &Config) -> Result<Option<u64>, OpenError> {
    let path = config.data_dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(OpenError::Io { path, source }),
    };
    let mut lines = text.lines();
    let corrupt = |what: &str| OpenError::Corrupt {
        dir: config.data_dir.clone(),
        what: format!("identity file: {what}"),
    };
    if lines.next() != Some(MAGIC) {
        return Err(corrupt("is not one of this program"));
    }
    let mut field = |name: &str| {
        let value = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?;
        Some(value.to_owned())
    };
    let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
    let format = number(field("format")).ok_or_else(|| corrupt("no format"))?;
    if format > FORMAT {
        return Err(OpenError::NewerFormat {
            dir: config.data_dir.clone(),
            found: format,
            supported: FORMAT,
        });
    }
    let replica = number(field("replica")).ok_or_else(|| corrupt("no replica"))?;
    let cluster = field("cluster").ok_or_else(|| corrupt("no cluster"))?;
    compare(config, replica, &cluster)?;
    Ok(Some(format))
}

/// An error unless the directory of `replica` in `cluster` is the configured one.
pub(crate) fn compare(config: &Config, replica: u64, cluster: &str) -> Result<(), OpenError> {
    if cluster != hex(&config.cluster) {
        return Err(OpenError::OtherCluster {
            dir: config.data_dir.clone(),
            found: cluster.to_owned(),
            configured: hex(&config.cluster),
        });
    }
    if replica != config.id {
        return Err(OpenError::OtherReplica {
            dir: config.data_dir.clone(),
            found: replica,
            configured: config.id,
        });
    }
    Ok(())
}

/// Writes the identity, whole or not at all.
pub(crate) fn write(config: &Config) -> Result<(), OpenError> {
    let path = config.data_dir.join(FILE);
    let text = format!(
        "{MAGIC}\nformat {FORMAT}\nreplica {}\ncluster {}\n",
        config.id,
        hex(&config.cluster)
    );
    replace(&config.data_dir, &path, &text).map_err(|source| OpenError::Io { path, source })
}

fn replace(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = File::create(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(dir)?.sync_all()
}

pub(crate) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

const FILE: &str = "identity";
const MAGIC: &str = "weft-store";

/// The newest layout of the data directory that this release reads, and the one it writes: a directory of an older one
/// has it from the first start that succeeds, and is closed to older releases from then on. Grows with the layout of
/// the database, and with what the replicated facts may say:
///
/// 4. Each switch, host, link and host port of the declared fabric is a fact of its own.
/// 3. A path's fact may have attributes that are carried as they came, and PMSI tunnels of any type.
/// 2. The record of who owns a peer, and a path's fact, may say what the peer is back from.
/// 1. The first.
pub(crate) const FORMAT: u64 = 4;
