//! What a row does beside saying octets once: often, slowly, with many voices, and going without a word.
//! Knows no rule of BGP but how a session begins.

use std::time::Duration;

use serde::Deserialize;

use super::{
    table::{Case, Table},
    voice::{KEEPALIVE, Voice},
};
use crate::{clock, failure::Failure, namespace::Namespace};

/// One thing that a row does; its parts are done in the order in which they stand here.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Act {
    /// A new connection takes the place of the old one, with a session and its first routes.
    #[serde(default)]
    again: bool,
    /// So many connections more from the same address say the same, and stay for a moment.
    #[serde(default)]
    crowd: u32,
    #[serde(default)]
    pub(super) say: String,
    /// How often it is said.
    #[serde(default = "once")]
    pub(super) times: u32,
    /// An octet each so many milliseconds.
    #[serde(default)]
    octet_ms: u64,
    /// Afterwards nothing is said for so long.
    #[serde(default)]
    pause_ms: u64,
    /// The connection is aborted with an RST.
    #[serde(default)]
    reset: bool,
}

impl Act {
    /// Says a text once.
    pub(super) fn saying(text: &str) -> Self {
        Self {
            again: false,
            crowd: 0,
            say: text.to_owned(),
            times: once(),
            octet_ms: 0,
            pause_ms: 0,
            reset: false,
        }
    }

    /// Whether others should not have to wait for it.
    pub(super) fn takes_time(&self) -> bool {
        self.again || self.crowd > 0 || self.times > 1 || self.octet_ms > 0 || self.pause_ms > 0
    }

    pub(super) fn played(
        &self,
        namespace: &Namespace,
        table: &Table,
        case: &Case,
        voice: &mut Voice,
    ) -> Result<(), Failure> {
        if self.again {
            *voice = returned(namespace, table, case)?;
        }
        if self.crowd > 0 {
            return self.crowded(namespace, table, case);
        }
        let mut together = Vec::new();
        for number in 0..self.times {
            together.extend(table.octets(&self.say, case, number)?);
            if together.len() > AT_ONCE {
                voice.say(&together)?;
                together.clear();
            }
        }
        if self.octet_ms > 0 {
            for octet in together {
                voice.say(&[octet])?;
                voice.hear(Duration::from_millis(self.octet_ms), |voice| voice.closed)?;
            }
        } else {
            voice.say(&together)?;
        }
        clock::pause(Duration::from_millis(self.pause_ms))?;
        if self.reset {
            voice.abort()?;
        }
        Ok(())
    }

    fn crowded(&self, namespace: &Namespace, table: &Table, case: &Case) -> Result<(), Failure> {
        let octets = table.octets(&self.say, case, 0)?;
        let mut voices = Vec::new();
        for _ in 0..self.crowd {
            // The other end may have had enough of it: that is what is asked.
            if let Ok(mut voice) = Voice::dial(namespace, case.own, case.to, None) {
                voice.say(&octets)?;
                voices.push(voice);
            }
        }
        clock::pause(Duration::from_millis(self.pause_ms))
    }
}

/// The peer is back, as often as it has to try.
fn returned(namespace: &Namespace, table: &Table, case: &Case) -> Result<Voice, Failure> {
    let mut tries = 0;
    loop {
        tries += 1;
        let mut voice = Voice::dial(namespace, case.own, case.to, None)?;
        voice.say(&table.octets("OPEN", case, 0)?)?;
        voice.hear(Duration::from_secs(1), |voice| voice.got(KEEPALIVE))?;
        if voice.got(KEEPALIVE) || tries == TRIES_MAX {
            voice.say(&table.octets("KEEPALIVE ANNOUNCE_FIRST", case, 0)?)?;
            return Ok(voice);
        }
        clock::pause(Duration::from_millis(200))?;
    }
}

fn once() -> u32 {
    1
}

/// Of what is said often, so much is written at once.
const AT_ONCE: usize = 65_536;

/// A replica that has just lost the session may take a moment to notice.
const TRIES_MAX: u32 = 10;
