//! Why a session ended, for an operator to read. It refuses to know what follows from it.

use std::fmt;

use bytes::Bytes;

use crate::message::Notification;
use crate::message::notification::Cease;

/// Why a session fell to Idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// The peer was silent for the hold time; we sent 4/0. RFC 4271 §6.5.
    HoldTimerExpired,
    /// The connection took no octets for the send hold time. RFC 9687 §4.
    SendHoldTimerExpired,
    /// The connection ended without a NOTIFICATION.
    PeerClosed,
    /// The peer ended it and said why.
    NotificationReceived(Notification),
    /// We ended it by the peer's fault.
    NotificationSent(Notification),
    /// We ended it by our own wish. RFC 4486.
    Stopped(Cease),
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HoldTimerExpired => f.write_str("hold timer expired"),
            Self::SendHoldTimerExpired => f.write_str("send hold timer expired"),
            Self::PeerClosed => f.write_str("peer closed the connection"),
            Self::NotificationReceived(n) => write_notification(f, "received", n),
            Self::NotificationSent(n) => write_notification(f, "sent", n),
            Self::Stopped(cease) => {
                write!(f, "stopped: {}", Notification::cease(*cease))
            }
        }
    }
}

/// The NOTIFICATION of an end by our own wish; the text is cut at a character below 256 octets, and
/// goes only with the two subcodes that carry one.
pub(super) fn cease(cease: Cease, communication: &str) -> Notification {
    let mut notification = Notification::cease(cease);
    if SAYING.contains(&notification.subcode) && !communication.is_empty() {
        let text = &communication[..communication.floor_char_boundary(COMMUNICATION_MAX)];
        let length = u8::try_from(text.len()).expect("cut to 255 octets");
        notification.data = Bytes::from([&[length], text.as_bytes()].concat());
    }
    notification
}

fn write_notification(
    f: &mut fmt::Formatter<'_>,
    verb: &str,
    notification: &Notification,
) -> fmt::Result {
    let Notification {
        code,
        subcode,
        data: _,
    } = notification;
    write!(f, "notification {verb} {code}/{subcode} ({notification})")?;
    match notification.shutdown_communication() {
        // Debug escapes what would confuse a terminal.
        Some(text) if !text.is_empty() => write!(f, " {text:?}"),
        Some(_) | None => Ok(()),
    }
}

/// Administrative Shutdown and Administrative Reset.
const SAYING: [u8; 2] = [2, 4];

/// RFC 9003 §2, in octets.
const COMMUNICATION_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_communication_is_cut_at_a_character() {
        let notification = cease(Cease::Shutdown, &"é".repeat(200));
        assert_eq!((notification.data.len(), notification.data[0]), (255, 254));
        assert_eq!(
            notification.shutdown_communication(),
            Some("é".repeat(127).as_str())
        );
    }

    #[test]
    fn only_shutdown_and_reset_carry_a_communication() {
        assert!(cease(Cease::MaxPrefixes, "no").data.is_empty());
        assert!(cease(Cease::Shutdown, "").data.is_empty());
        assert_eq!(
            cease(Cease::Reset, "yes").shutdown_communication(),
            Some("yes")
        );
    }

    #[test]
    fn reasons_can_be_read() {
        let received = DownReason::NotificationReceived(cease(Cease::Shutdown, "a\u{1b}b"));
        assert_eq!(
            received.to_string(),
            r#"notification received 6/2 (Cease/Administrative Shutdown) "a\u{1b}b""#
        );
        assert_eq!(
            DownReason::HoldTimerExpired.to_string(),
            "hold timer expired"
        );
        assert_eq!(
            DownReason::PeerClosed.to_string(),
            "peer closed the connection"
        );
    }
}
