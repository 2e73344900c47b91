//! The owner and the format of a data directory: a small text file that can be read when the
//! database cannot. Knows nothing of what the database holds.
//!
//! ```text
//! weft-store
//! format 5
//! replica 3
//! cluster 000102030405060708090a0b0c0d0e0f
//! ```

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use crate::{config::Config, error::OpenError, format::FORMAT};

/// Returns true if the directory has an identity; an error if that is not the configured one, or of
/// another format.
pub(crate) fn check(config: &Config) -> Result<bool, OpenError> {
    let path = config.data_dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
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
    if format != u64::from(FORMAT) {
        return Err(OpenError::OtherFormat {
            dir: config.data_dir.clone(),
            found: format,
            supported: FORMAT.into(),
        });
    }
    let replica = number(field("replica")).ok_or_else(|| corrupt("no replica"))?;
    let cluster = field("cluster").ok_or_else(|| corrupt("no cluster"))?;
    compare(config, replica, &cluster)?;
    Ok(true)
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
    let text = text(config.id, &config.cluster);
    replace(&config.data_dir, &path, &text).map_err(|source| OpenError::Io { path, source })
}

/// The file of `replica` in `cluster`.
pub(crate) fn text(replica: u64, cluster: &[u8; 16]) -> String {
    let cluster = hex(cluster);
    format!("{MAGIC}\nformat {FORMAT}\nreplica {replica}\ncluster {cluster}\n")
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
