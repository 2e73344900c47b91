//! The five messages: a closed enum, decoded from a frame and encoded with its header. Knows what
//! was negotiated only as an argument.

pub mod notification;
pub mod open;
pub mod route_refresh;
pub mod update;

use std::fmt;

use bytes::Bytes;

pub use notification::Notification;
pub use open::Open;
pub use route_refresh::RouteRefresh;
pub use update::Update;

use crate::capability::AddPathSet;
use crate::error::{DecodeError, Fault};
use crate::frame::{Frame, HEADER_LEN, MARKER};
use crate::wire::{Reader, Writer};

/// A message. RFC 4271 §4, RFC 2918.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// What a speaker is and can do.
    Open(Open),
    /// Routes.
    Update(Box<Update>),
    /// Why the session ends.
    Notification(Notification),
    /// Still there.
    Keepalive,
    /// Send me your routes again.
    RouteRefresh(RouteRefresh),
}

/// The type of a message, as in its header.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// 1, RFC 4271 §4.2.
    Open,
    /// 2, RFC 4271 §4.3.
    Update,
    /// 3, RFC 4271 §4.5.
    Notification,
    /// 4, RFC 4271 §4.4.
    Keepalive,
    /// 5, RFC 2918 §3.
    RouteRefresh,
}

/// What the session negotiated, as far as octets depend on it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct DecodeContext {
    /// AS numbers have four octets in AS_PATH and AGGREGATOR. RFC 6793.
    pub four_octet_as: bool,
    /// The peer is in our AS. Decides on some treatments of RFC 7606.
    pub ibgp: bool,
    /// Messages may be 65535 octets long. RFC 8654.
    pub extended_message: bool,
    /// In which families NLRI carry path identifiers. RFC 7911 §3.
    pub add_path: AddPathSet,
}

impl MessageKind {
    /// The type octet.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Open => 1,
            Self::Update => 2,
            Self::Notification => 3,
            Self::Keepalive => 4,
            Self::RouteRefresh => 5,
        }
    }

    /// The kind with this type octet.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Open),
            2 => Some(Self::Update),
            3 => Some(Self::Notification),
            4 => Some(Self::Keepalive),
            5 => Some(Self::RouteRefresh),
            _ => None,
        }
    }
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "OPEN",
            Self::Update => "UPDATE",
            Self::Notification => "NOTIFICATION",
            Self::Keepalive => "KEEPALIVE",
            Self::RouteRefresh => "ROUTE-REFRESH",
        })
    }
}

impl Message {
    /// Reads the body of `frame`. Offsets of errors count from the first octet of the marker.
    ///
    /// # Errors
    /// Only faults that end the session; what RFC 7606 keeps below that stands in
    /// [`Update::faults`].
    pub fn decode(frame: Frame, ctx: &DecodeContext) -> Result<Self, DecodeError> {
        let Frame { kind, body } = frame;
        match kind {
            MessageKind::Open => Open::decode(&body).map(Self::Open),
            MessageKind::Update => {
                Update::decode(&body, ctx).map(|update| Self::Update(Box::new(update)))
            }
            MessageKind::Notification => Notification::decode(&body).map(Self::Notification),
            MessageKind::Keepalive if body.is_empty() => Ok(Self::Keepalive),
            MessageKind::Keepalive => {
                let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
                let length = length.saturating_add(HEADER_LEN);
                Err(DecodeError {
                    fault: Fault::MessageLength { length },
                    offset: 16,
                })
            }
            MessageKind::RouteRefresh => RouteRefresh::decode(&body).map(Self::RouteRefresh),
        }
    }

    /// The whole message, header included.
    ///
    /// # Panics
    /// When it would be longer than 65535 octets: what we build is packed to fit.
    #[must_use]
    pub fn encode(&self, ctx: &DecodeContext) -> Bytes {
        let mut out = Writer::with_capacity(64);
        encode_with(&mut out, self.kind(), |out| match self {
            Self::Open(open) => open.encode(out),
            Self::Update(update) => update.encode(out, ctx),
            Self::Notification(notification) => notification.encode(out),
            Self::Keepalive => {}
            Self::RouteRefresh(refresh) => refresh.encode(out),
        });
        out.finish()
    }

    /// Its type.
    #[must_use]
    pub fn kind(&self) -> MessageKind {
        match self {
            Self::Open(_) => MessageKind::Open,
            Self::Update(_) => MessageKind::Update,
            Self::Notification(_) => MessageKind::Notification,
            Self::Keepalive => MessageKind::Keepalive,
            Self::RouteRefresh(_) => MessageKind::RouteRefresh,
        }
    }
}

/// Writes a message: its header, then what `body` writes.
///
/// # Panics
/// When it becomes longer than 65535 octets.
pub fn encode_with(out: &mut Writer, kind: MessageKind, body: impl FnOnce(&mut Writer)) {
    let start = out.len();
    out.slice(&MARKER);
    let length_at = out.len();
    out.u16(0);
    out.u8(kind.code());
    body(out);
    let length = out.len().saturating_sub(start);
    let length = u16::try_from(length).expect("a message fits its length field");
    out.overwrite(length_at, &length.to_be_bytes());
}

/// A reader over a body, counting offsets from the marker.
pub(crate) fn body_reader(body: &[u8], short: Fault) -> Reader<'_> {
    Reader::new(body, u32::from(HEADER_LEN), short)
}
