//! NOTIFICATION, and the reasons for a Cease. Knows no fault: that is `error.rs`.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use bytes::Bytes;

use crate::error::{DecodeError, Fault};
use crate::iana;
use crate::message::body_reader;
use crate::wire::Writer;

/// Why a session ends, as told to the peer.
///
/// ```text
/// +-- 1 --+-- 1 --+-- ... --+
/// | code  |subcode|  data   |     RFC 4271 §4.5
/// +-------+-------+---------+
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Notification {
    /// Error code.
    pub code: u8,
    /// Error subcode, 0 if unspecific.
    pub subcode: u8,
    /// What the code says it is.
    pub data: Bytes,
}

/// Subcodes of Cease. RFC 4486 §3, RFC 8538 §3, RFC 9384 §3.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cease {
    /// Maximum number of prefixes reached.
    MaxPrefixes,
    /// Administrative shutdown.
    Shutdown,
    /// The peer is no longer configured.
    Deconfigured,
    /// Administrative reset.
    Reset,
    /// Connection rejected.
    Rejected,
    /// Another configuration change.
    ConfigurationChange,
    /// Connection collision resolution. RFC 4271 §6.8.
    Collision,
    /// Out of resources.
    OutOfResources,
    /// Hard reset: graceful restart does not apply.
    HardReset,
    /// BFD says that the peer is down.
    BfdDown,
}

impl Cease {
    /// The subcode on the wire.
    #[must_use]
    pub fn subcode(self) -> u8 {
        match self {
            Self::MaxPrefixes => 1,
            Self::Shutdown => 2,
            Self::Deconfigured => 3,
            Self::Reset => 4,
            Self::Rejected => 5,
            Self::ConfigurationChange => 6,
            Self::Collision => 7,
            Self::OutOfResources => 8,
            Self::HardReset => 9,
            Self::BfdDown => 10,
        }
    }
}

impl fmt::Display for Cease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, subcode) = iana::notification_names(6, self.subcode());
        f.write_str(subcode.unwrap_or("Unspecific"))
    }
}

impl Notification {
    /// A Cease without data.
    #[must_use]
    pub fn cease(cease: Cease) -> Self {
        Self {
            code: 6,
            subcode: cease.subcode(),
            data: Bytes::new(),
        }
    }

    /// What the operator of the peer says with a shutdown or reset. RFC 9003 §2.
    #[must_use]
    pub fn shutdown_communication(&self) -> Option<&str> {
        let data = match (self.code, self.subcode) {
            (6, 2 | 4) => &self.data[..],
            // A Hard Reset says in its data what it would have said otherwise. RFC 8538 §3.1.
            (6, 9) => match self.data.split_first_chunk() {
                Some(([6, 2 | 4], data)) => data,
                Some(_) | None => return None,
            },
            _ => return None,
        };
        let (&length, text) = data.split_first()?;
        std::str::from_utf8(text.get(..usize::from(length))?).ok()
    }

    pub(crate) fn decode(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = body_reader(body, Fault::MessageLength { length: 19 });
        let code = reader.u8()?;
        let subcode = reader.u8()?;
        let data = body.slice_ref(reader.rest());
        Ok(Self {
            code,
            subcode,
            data,
        })
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u8(self.code);
        out.u8(self.subcode);
        out.slice(&self.data);
    }
}

/// "Cease/Administrative Shutdown"; numbers where IANA has no name.
impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, subcode) = iana::notification_names(self.code, self.subcode);
        match code {
            Some(code) => f.write_str(code)?,
            None => write!(f, "{}", self.code)?,
        }
        match subcode {
            Some(subcode) => write!(f, "/{subcode}"),
            None if self.subcode == 0 => Ok(()),
            None => write!(f, "/{}", self.subcode),
        }?;
        match (self.code, self.subcode, self.data.first_chunk()) {
            (6, 9, Some(&[code, subcode])) => {
                let inner = Self {
                    code,
                    subcode,
                    data: Bytes::new(),
                };
                write!(f, " of {inner}")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(code: u8, subcode: u8, data: &'static [u8]) -> Notification {
        Notification {
            code,
            subcode,
            data: Bytes::from_static(data),
        }
    }

    #[test]
    fn names_are_those_of_the_registry() {
        let table = [
            (6, 2, "Cease/Administrative Shutdown"),
            (4, 0, "Hold Timer Expired"),
            (2, 6, "OPEN Message Error/Unacceptable Hold Time"),
            (6, 99, "Cease/99"),
            (99, 0, "99"),
            (99, 1, "99/1"),
        ];
        assert_eq!(
            notification(6, 9, &[6, 2, 0]).to_string(),
            "Cease/Hard Reset of Cease/Administrative Shutdown"
        );
        for (code, subcode, text) in table {
            assert_eq!(notification(code, subcode, &[]).to_string(), text);
        }
        assert_eq!(Cease::Shutdown.to_string(), "Administrative Shutdown");
    }

    #[test]
    fn a_shutdown_communication_is_text_of_its_length() {
        assert_eq!(
            notification(6, 2, &[2, b'o', b'k', 0]).shutdown_communication(),
            Some("ok")
        );
        assert_eq!(
            notification(6, 2, &[3, b'o', b'k']).shutdown_communication(),
            None
        );
        assert_eq!(notification(6, 2, &[]).shutdown_communication(), None);
        assert_eq!(
            notification(6, 9, &[6, 2, 2, b'o', b'k']).shutdown_communication(),
            Some("ok")
        );
        assert_eq!(notification(6, 9, &[6]).shutdown_communication(), None);
        assert_eq!(
            notification(6, 9, &[4, 0, 0]).shutdown_communication(),
            None
        );
        assert_eq!(
            notification(6, 6, &[2, b'o', b'k']).shutdown_communication(),
            None
        );
    }
}
