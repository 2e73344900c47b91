//! Data directories of another replica or format, in use, torn or damaged.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use weft_store::{Config, FORMAT, Input, OpenError, Replica};

use crate::world::{CLUSTER, directory, put};

#[test]
fn directories_of_others_are_refused_by_name() {
    let dir = directory();
    let config =
        |id, voters: &[u64], cluster| Config::new(id, voters.to_vec(), dir.path(), cluster, 1);
    drop(Replica::open(config(1, &[1, 2], CLUSTER)).unwrap());
    let refuse = |config: Config| match Replica::open(config) {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    };
    let error = refuse(config(2, &[1, 2], CLUSTER));
    assert!(matches!(
        error,
        OpenError::OtherReplica {
            found: 1,
            configured: 2,
            ..
        }
    ));
    assert!(error.to_string().contains(dir.path().to_str().unwrap()));
    let error = refuse(config(1, &[1, 2], [8; 16]));
    assert!(matches!(error, OpenError::OtherCluster { .. }));
    assert!(error.to_string().contains("0808"), "{error}");
    let error = refuse(config(1, &[1, 3], CLUSTER));
    assert!(matches!(error, OpenError::OtherVoters { .. }));
    for voters in [&[2, 3][..], &[1, 1], &[0, 1], &[1, 2, 3, 4, 5, 6, 7, 8]] {
        assert!(matches!(
            refuse(config(1, voters, CLUSTER)),
            OpenError::Config(_)
        ));
    }
    drop(Replica::open(config(1, &[2, 1], CLUSTER)).unwrap());
}

/// The database has every route and all that is declared.
#[test]
fn a_directory_is_for_its_owner_alone() {
    let dir = directory();
    let own = dir.path().join("above").join("data");
    let open = |dir: &Path| Replica::open(Config::new(1, vec![1], dir, CLUSTER, 1)).map(drop);
    let widen = |dir: &Path| fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    open(&own).unwrap();
    assert_eq!(mode(&own), 0o700, "made so");
    widen(&own);
    open(&own).unwrap();
    assert_eq!(mode(&own), 0o700, "an older release made it");
    let prepared = dir.path().join("prepared");
    fs::create_dir_all(prepared.join("lost+found")).unwrap();
    widen(&prepared);
    open(&prepared).unwrap();
    assert_eq!(mode(&prepared), 0o700, "a file system of its own");
}

#[test]
fn a_directory_that_others_use_is_refused_and_left_as_it_is() {
    let dir = directory();
    fs::write(dir.path().join("file"), "").unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let error = Replica::open(Config::new(1, vec![1], dir.path(), CLUSTER, 1)).err();
    assert!(matches!(
        error,
        Some(OpenError::Exposed { found: 0o755, .. })
    ));
    assert_eq!(mode(dir.path()), 0o755);
}

fn mode(dir: &Path) -> u32 {
    fs::metadata(dir).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_directory_of_an_older_or_newer_format_is_refused_by_name() {
    let dir = directory();
    let config = Config::new(1, vec![1], dir.path(), CLUSTER, 1);
    drop(Replica::open(config.clone()).unwrap());
    let identity = dir.path().join("identity");
    let text = fs::read_to_string(&identity).unwrap();
    let ours = u64::from(FORMAT);
    for other in [1, ours - 1, ours + 1] {
        let text = text.replace(&format!("format {ours}"), &format!("format {other}"));
        fs::write(&identity, &text).unwrap();
        let error = Replica::open(config.clone()).err().unwrap();
        assert!(
            matches!(error, OpenError::OtherFormat { found, supported, .. } if found == other && supported == ours)
        );
        let named = format!("format {other}, this release has format {ours}");
        assert!(error.to_string().contains(&named), "{error}");
        assert_eq!(fs::read_to_string(&identity).unwrap(), text);
    }
    // A replica that was killed between founding its database and writing its identity.
    fs::remove_file(&identity).unwrap();
    drop(Replica::open(config.clone()).unwrap());
    assert_eq!(fs::read_to_string(&identity).unwrap(), text);
    fs::write(&identity, "garbage").unwrap();
    let error = Replica::open(config).err().unwrap();
    assert!(matches!(error, OpenError::Corrupt { .. }));
}

#[test]
fn a_replica_that_lost_its_database_does_not_start_afresh() {
    let dir = directory();
    let config = Config::new(1, vec![1, 2, 3], dir.path(), CLUSTER, 1);
    drop(Replica::open(config.clone()).unwrap());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let error = Replica::open(config).err().unwrap();
    assert!(error.to_string().contains("must not vote again"), "{error}");
}

/// A part of a directory was copied, or a file was deleted: what is left may be old, and nobody can see that.
#[test]
fn a_used_database_without_its_identity_is_refused_by_name() {
    let dir = directory();
    history(dir.path(), 1);
    let identity = dir.path().join("identity");
    let text = fs::read_to_string(&identity).unwrap();
    fs::remove_file(&identity).unwrap();
    let config = Config::new(1, vec![1], dir.path(), CLUSTER, 1);
    for _ in 0..2 {
        let error = Replica::open(config.clone()).err().unwrap();
        assert!(matches!(error, OpenError::NoIdentity { .. }), "{error:?}");
        let said = error.to_string();
        assert!(said.starts_with(dir.path().to_str().unwrap()), "{said}");
        assert!(said.contains("no file `identity`") && said.contains("an empty one"));
        assert!(!identity.exists());
    }
    fs::write(&identity, text).unwrap();
    drop(Replica::open(config).unwrap());
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = directory();
    let config = Config::new(1, vec![1], dir.path(), CLUSTER, 1);
    let _first = Replica::open(config.clone()).unwrap();
    let error = Replica::open(config).err().unwrap();
    assert!(matches!(error, OpenError::Database { .. }));
}

/// Batches, the state hash at each index, and the directory as a kill leaves it.
fn history(dir: &Path, batches: u64) -> BTreeMap<u64, u64> {
    let mut replica = Replica::open(Config::new(1, vec![1], dir, CLUSTER, 1)).unwrap();
    let mut hashes = BTreeMap::new();
    hashes.insert(1, replica.view().state_hash().unwrap());
    replica.poll(&mut Vec::new());
    hashes.insert(2, replica.view().state_hash().unwrap());
    for ticket in 0..batches {
        let batch = put(&format!("k{}", ticket % 3), &ticket.to_string());
        replica.handle(Input::Propose { batch, ticket });
        replica.poll(&mut Vec::new());
        let applied = replica.status().applied;
        hashes.insert(applied, replica.view().state_hash().unwrap());
    }
    hashes
}

#[test]
fn a_torn_tail_is_cut_to_a_consistent_prefix() {
    let dir = directory();
    let hashes = history(dir.path(), 12);
    let wal = write_ahead_log(dir.path());
    let len = fs::metadata(&wal).unwrap().len();
    let mut seen = BTreeMap::new();
    for cut in (0..600_u64.min(len / 2)).step_by(7) {
        let copy = directory();
        copy_dir(dir.path(), copy.path());
        let torn = OpenOptions::new()
            .write(true)
            .open(write_ahead_log(copy.path()))
            .unwrap();
        torn.set_len(len - cut).unwrap();
        let config = Config::new(1, vec![1], copy.path(), CLUSTER, 1);
        let mut replica = Replica::open(config).unwrap();
        let before = replica.status();
        assert!(before.applied <= before.commit && before.commit <= before.last);
        let hash = replica.view().state_hash().unwrap();
        assert_eq!(
            hash, hashes[&before.applied],
            "cut {cut} at {}",
            before.applied
        );
        replica.poll(&mut Vec::new());
        let after = replica.status();
        assert!(after.degraded.is_none() && after.applied >= before.last);
        seen.insert(before.applied, before.last);
    }
    assert!(seen.len() > 2, "{seen:?}");
    assert!(
        seen.iter().any(|(applied, last)| applied < last),
        "{seen:?}"
    );
}

#[test]
fn damage_before_the_tail_is_an_error_and_not_a_silent_loss() {
    let dir = directory();
    history(dir.path(), 12);
    let wal = write_ahead_log(dir.path());
    let mut octets = fs::read(&wal).unwrap();
    let middle = octets.len() / 2;
    octets[middle] ^= 0x55;
    fs::write(&wal, octets).unwrap();
    let error = Replica::open(Config::new(1, vec![1], dir.path(), CLUSTER, 1)).err();
    assert!(
        matches!(error, Some(OpenError::Database { .. })),
        "{error:?}"
    );
}

fn write_ahead_log(dir: &Path) -> PathBuf {
    let mut logs: Vec<_> = fs::read_dir(dir.join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    logs.pop().unwrap()
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy_dir(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
