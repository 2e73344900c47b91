//! Why a session ended, for an operator to read. It refuses to know what follows from it.

use std::fmt;

use bytes::Bytes;

use super::negotiation::Negotiated;
use crate::capability::GracefulRestart;
use crate::message::Notification;
use crate::message::notification::Cease;

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// The peer was silent for the hold time; we sent 4/0. RFC 4271 §6.5.
    HoldTimerExpired,
    /// The connection took no octets for the send hold time. RFC 9687 §4.
    SendHoldTimerExpired,
    /// The connection ended without a NOTIFICATION.
    PeerClosed,
    /// The peer has restarted and connected anew; we closed the old connection without a NOTIFICATION. RFC 4724 §5.
    Replaced,
    /// We began a new session for other capabilities, and closed this one without a NOTIFICATION, as a restart would.
    Renewed,
    /// The peer ended it and said why.
    NotificationReceived(Notification),
    /// We ended it by the peer's fault.
    NotificationSent(Notification),
    /// We ended it by our own wish, RFC 4486, and said this; nothing if nobody was there to hear it.
    Stopped(Cease, Option<Notification>),
}

impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HoldTimerExpired => f.write_str("hold timer expired"),
            Self::SendHoldTimerExpired => f.write_str("send hold timer expired"),
            Self::PeerClosed => f.write_str("peer closed the connection"),
            Self::Replaced => f.write_str("peer restarted and connected anew"),
            Self::Renewed => f.write_str("new session with other capabilities"),
            Self::NotificationReceived(n) => write_notification(f, "received", n),
            Self::NotificationSent(n) => write_notification(f, "sent", n),
            Self::Stopped(_, Some(said)) => {
                write!(f, "stopped: {said}")?;
                write_communication(f, said)
            }
            Self::Stopped(cease, None) => write!(f, "stopped: {}", Notification::cease(*cease)),
        }
    }
}

impl DownReason {
    /// Whether the routes of the peer may be kept until it is back, as far as the end of this session
    /// says; [`Negotiated::graceful_restart`] and [`Negotiated::long_lived`] say for how long, and in which
    /// families. RFC 4724 §4.2, RFC 8538 §4, RFC 9494 §4.2.
    #[must_use]
    pub fn retains(&self, negotiated: &Negotiated) -> bool {
        let covered = |restart: &GracefulRestart| !restart.families.is_empty();
        let restarts = negotiated.graceful_restart.as_ref().is_some_and(covered);
        // RFC 9494 §4.2: a family that only the long-lived capability lists has a restart time of zero.
        if !restarts && negotiated.long_lived.is_empty() {
            return false;
        }
        let through_notification = negotiated.restart_after_notification;
        match self {
            Self::PeerClosed | Self::Replaced | Self::Renewed => true,
            Self::HoldTimerExpired | Self::SendHoldTimerExpired => through_notification,
            Self::NotificationReceived(n) | Self::NotificationSent(n) => {
                through_notification && !is_goodbye(n)
            }
            Self::Stopped(cease, _) => through_notification && !is_our_goodbye(*cease),
        }
    }
}

impl DownReason {
    /// Whether it says nothing of the next session: the path was lost, or somebody reset the session. The idle hold is not
    /// lengthened by it (DampPeerOscillations of RFC 4271 §8.1.1), or a path that was lost for seconds now and then would be
    /// without a session for longer than it was lost.
    pub(super) fn is_passing(&self) -> bool {
        let resets = [Cease::Reset, Cease::ConfigurationChange, Cease::BfdDown];
        match self {
            Self::HoldTimerExpired | Self::PeerClosed | Self::Replaced | Self::Renewed => true,
            Self::NotificationReceived(said) if said.code == CEASE => {
                resets.iter().any(|cease| cease.subcode() == said.subcode)
            }
            Self::NotificationReceived(said) => said.code == HOLD_TIMER_EXPIRED,
            Self::SendHoldTimerExpired | Self::NotificationSent(_) | Self::Stopped(..) => false,
        }
    }
}

/// Who says this does not mean to be back with the same routes soon.
fn is_goodbye(notification: &Notification) -> bool {
    let goodbyes = [Cease::HardReset, Cease::MaxPrefixes, Cease::Deconfigured];
    notification.code == CEASE
        && goodbyes
            .iter()
            .any(|cease| cease.subcode() == notification.subcode)
}

/// The same of what we say; we say neither of a shutdown nor of BFD that the peer may be back.
fn is_our_goodbye(cease: Cease) -> bool {
    match cease {
        Cease::MaxPrefixes
        | Cease::Shutdown
        | Cease::Deconfigured
        | Cease::HardReset
        | Cease::BfdDown => true,
        Cease::Reset
        | Cease::Rejected
        | Cease::ConfigurationChange
        | Cease::Collision
        | Cease::OutOfResources => false,
    }
}

/// The NOTIFICATION of an end by our own wish; the text is cut at a character below 256 octets, and
/// goes only with the subcodes that carry one. `hard` says whether the peer knows a Hard Reset: it would
/// keep our routes otherwise, when we forget its own. RFC 8538 §5.1.
pub(super) fn cease(cease: Cease, communication: &str, hard: bool) -> Notification {
    let said = match cease {
        Cease::HardReset => Cease::Shutdown,
        Cease::MaxPrefixes | Cease::Deconfigured => cease,
        // A shutdown is a farewell only if the operator means it as one: that is a hard reset.
        Cease::Shutdown
        | Cease::Reset
        | Cease::Rejected
        | Cease::ConfigurationChange
        | Cease::Collision
        | Cease::OutOfResources
        | Cease::BfdDown => return saying(cease, communication),
    };
    let inner = saying(said, communication);
    if !hard {
        return inner;
    }
    let head = [inner.code, inner.subcode];
    Notification {
        data: Bytes::from([&head, &inner.data[..]].concat()),
        ..Notification::cease(Cease::HardReset)
    }
}

fn saying(cease: Cease, communication: &str) -> Notification {
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
    write_communication(f, notification)
}

fn write_communication(f: &mut fmt::Formatter<'_>, notification: &Notification) -> fmt::Result {
    match notification.shutdown_communication() {
        // Debug escapes what would confuse a terminal.
        Some(text) if !text.is_empty() => write!(f, " {text:?}"),
        Some(_) | None => Ok(()),
    }
}

/// Administrative Shutdown and Administrative Reset.
const SAYING: [u8; 2] = [2, 4];

/// RFC 4271 §4.5.
const CEASE: u8 = 6;
const HOLD_TIMER_EXPIRED: u8 = 4;

/// RFC 9003 §2, in octets.
const COMMUNICATION_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::{Capability, LongLived};
    use crate::family::Family;
    use crate::message::Open;
    use crate::peer::RouterId;
    use crate::session::negotiation::negotiate;
    use crate::session::{RemoteAsn, SessionConfig};

    #[test]
    fn a_communication_is_cut_at_a_character() {
        let notification = cease(Cease::Shutdown, &"é".repeat(200), true);
        assert_eq!((notification.data.len(), notification.data[0]), (255, 254));
        assert_eq!(
            notification.shutdown_communication(),
            Some("é".repeat(127).as_str())
        );
    }

    #[test]
    fn only_shutdown_and_reset_carry_a_communication() {
        assert!(cease(Cease::MaxPrefixes, "no", false).data.is_empty());
        assert!(cease(Cease::Shutdown, "", true).data.is_empty());
        assert_eq!(
            cease(Cease::Reset, "yes", true).shutdown_communication(),
            Some("yes")
        );
    }

    #[test]
    fn reasons_can_be_read() {
        let received = DownReason::NotificationReceived(cease(Cease::Shutdown, "a\u{1b}b", true));
        assert_eq!(
            received.to_string(),
            r#"notification received 6/2 (Cease/Administrative Shutdown) "a\u{1b}b""#
        );
        let said = cease(Cease::HardReset, "moved", true);
        assert_eq!(
            DownReason::Stopped(Cease::HardReset, Some(said)).to_string(),
            r#"stopped: Cease/Hard Reset of Cease/Administrative Shutdown "moved""#
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

    fn negotiated(n: bool, restart: bool) -> Negotiated {
        let config = SessionConfig {
            graceful_restart: Some(GracefulRestart {
                notification: n,
                ..GracefulRestart::default()
            }),
            ..SessionConfig::new(64_496, RouterId(1), RemoteAsn::Any)
        };
        let offer = restart.then_some(Capability::GracefulRestart(GracefulRestart {
            notification: true,
            families: vec![(Family::L2VPN_EVPN, true)],
            ..GracefulRestart::default()
        }));
        let family = Capability::MultiProtocol(Family::L2VPN_EVPN);
        let open = Open {
            asn: 64_496,
            hold_secs: 90,
            router_id: RouterId(2),
            capabilities: offer.into_iter().chain([family]).collect(),
        };
        negotiate(&config, open).unwrap()
    }

    /// RFC 8538 §4: with N of both sides everything but a goodbye is like the loss of the connection.
    #[test]
    fn routes_are_kept_by_what_was_agreed_and_by_how_it_ended() {
        let received = |cease| DownReason::NotificationReceived(Notification::cease(cease));
        let malformed = Notification {
            code: 3,
            subcode: 9,
            data: Bytes::new(),
        };
        // With graceful restart, with N of both.
        let table = [
            (DownReason::PeerClosed, true, true),
            (DownReason::Replaced, true, true),
            (DownReason::Renewed, true, true),
            (DownReason::HoldTimerExpired, false, true),
            (DownReason::SendHoldTimerExpired, false, true),
            (DownReason::NotificationSent(malformed.clone()), false, true),
            (DownReason::NotificationReceived(malformed), false, true),
            (received(Cease::Reset), false, true),
            (received(Cease::Shutdown), false, true),
            (received(Cease::BfdDown), false, true),
            (received(Cease::HardReset), false, false),
            (received(Cease::MaxPrefixes), false, false),
            (received(Cease::Deconfigured), false, false),
            (DownReason::Stopped(Cease::Reset, None), false, true),
            (DownReason::Stopped(Cease::Shutdown, None), false, false),
            (DownReason::Stopped(Cease::BfdDown, None), false, false),
            (DownReason::Stopped(Cease::HardReset, None), false, false),
        ];
        for (reason, plain, with_n) in table {
            assert!(!reason.retains(&negotiated(true, false)), "{reason}");
            assert_eq!(reason.retains(&negotiated(false, true)), plain, "{reason}");
            assert_eq!(reason.retains(&negotiated(true, true)), with_n, "{reason}");
        }
    }

    #[test]
    fn routes_are_kept_in_families_that_only_the_long_lived_capability_lists() {
        let aware = |stale_secs: Option<u32>| Negotiated {
            graceful_restart: Some(GracefulRestart::default()),
            long_lived: stale_secs
                .map(|stale_secs| LongLived {
                    family: Family::L2VPN_EVPN,
                    forwarding: true,
                    stale_secs,
                })
                .into_iter()
                .collect(),
            ..negotiated(true, true)
        };
        assert!(DownReason::PeerClosed.retains(&aware(Some(3600))));
        assert!(!DownReason::PeerClosed.retains(&aware(None)));
    }

    #[test]
    fn a_hard_reset_says_what_it_is_only_to_who_knows_it() {
        let hard = cease(Cease::HardReset, "gone", true);
        assert_eq!(
            (hard.subcode, &hard.data[..]),
            (9, &b"\x06\x02\x04gone"[..])
        );
        assert_eq!(hard.shutdown_communication(), Some("gone"));
        let soft = cease(Cease::HardReset, "gone", false);
        assert_eq!((soft.subcode, &soft.data[..]), (2, &b"\x04gone"[..]));
    }
}
