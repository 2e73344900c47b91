//! The configuration file read again while peers are up: checked whole, compared, and handed to the
//! speaker. Knows the file and the difference; what a peer makes of it is its task's.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::Shared;
use super::keys::{self, Keys};
use crate::config::diff::{self, Change};
use crate::config::{Config, ConfigError};
use crate::daemon::files;

/// A configuration that is to hold from now on; answered once every task can see it.
pub struct Reload {
    config: Config,
    keys: io::Result<Keys>,
    done: oneshot::Sender<()>,
}

impl Reload {
    /// The configuration and the keys of its listeners that are to hold; the sender gets an answer when they do.
    pub fn accept(self) -> (Config, io::Result<Keys>, oneshot::Sender<()>) {
        (self.config, self.keys, self.done)
    }
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// There is no file to read.
    #[error("weftd was started without --config")]
    NoFile,
    /// The file has a mistake.
    #[error(transparent)]
    Refused(#[from] ConfigError),
    /// The daemon stops.
    #[error("the replica is stopping")]
    Stopping,
}

/// Reads the file again when it is told to.
pub struct Reloader {
    shared: Arc<Shared>,
    file: Option<PathBuf>,
    reloads: mpsc::Sender<Reload>,
    /// One at a time, so that what was read last is what holds.
    turn: Mutex<()>,
}

impl Reloader {
    /// For the file that the daemon was started with. The receiver is for the speaker.
    pub fn new(shared: Arc<Shared>, file: Option<PathBuf>) -> (Self, mpsc::Receiver<Reload>) {
        let (reloads, accepted) = mpsc::channel(1);
        let reloader = Self {
            shared,
            file,
            reloads,
            turn: Mutex::default(),
        };
        (reloader, accepted)
    }

    /// The file, if the daemon was started with one.
    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// What holds now.
    pub fn config(&self) -> Arc<Config> {
        self.shared.config()
    }

    /// Reads the file and returns its differences from the configuration in force; unless `dry_run`, it is in force afterwards. The
    /// log names who asked for that.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub async fn reload(
        &self,
        dry_run: bool,
        by: impl Display + Send,
    ) -> Result<Vec<Change>, ReloadError> {
        let _turn = self.turn.lock().await;
        let file = self.file.clone().ok_or(ReloadError::NoFile)?;
        let path = file.clone();
        let read = files::read_all(move || Config::load(&file)).await;
        let config = read.map_err(|source| ConfigError::Unreadable { path, source })??;
        let held = self.config();
        let changes = diff::diff(&held, &config);
        if dry_run {
            return Ok(changes);
        }
        let (done, accepted) = oneshot::channel();
        let config = diff::applicable(&held, &config);
        let keys = keys::read_all(&config.bgp).await;
        let reload = Reload { config, keys, done };
        let sent = self.reloads.send(reload).await;
        sent.map_err(|_| ReloadError::Stopping)?;
        accepted.await.map_err(|_| ReloadError::Stopping)?;
        for change in &changes {
            tracing::info!(%change, %by, "configuration changed");
        }
        Ok(changes)
    }

    /// What differs between what holds and a text, which `name` stands for in errors.
    ///
    /// # Errors
    /// The mistake in the text.
    pub fn compare(&self, text: &str, name: &str) -> Result<Vec<Change>, ReloadError> {
        let config = Config::parse(text, name.as_ref())?;
        Ok(diff::diff(&self.config(), &config))
    }
}

/// Reloads at every SIGHUP, those that came before this was asked for included.
pub async fn at_hangup(mut hangup: Signal, reloader: Arc<Reloader>) {
    while hangup.recv().await.is_some() {
        let by = "SIGHUP";
        match reloader.reload(false, by).await {
            Ok(changes) => tracing::info!(by, changes = changes.len(), "configuration reloaded"),
            Err(error) => {
                tracing::error!(by, %error, "configuration not reloaded; nothing changed");
            }
        }
    }
}
