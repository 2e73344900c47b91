//! Pause frames that drivers count, by ethtool's part of generic netlink (`linux/ethtool_netlink.h`), which the crates below
//! do not have. A socket of its own: drivers may take their time to answer. Knows no routes.
//!
//! ```text
//! struct genlmsghdr   command(1) version(1) reserved(2)
//! attributes          length(2) type(2) value, padded to 4; host byte order
//!   of GETFAMILY      2 CTRL_ATTR_FAMILY_NAME text; answered by 1 CTRL_ATTR_FAMILY_ID u16
//!   of PAUSE_GET      1 ETHTOOL_A_PAUSE_HEADER: 1 DEV_INDEX u32, 2 DEV_NAME text, 3 FLAGS u32
//!                     5 ETHTOOL_A_PAUSE_STATS: 2 TX_FRAMES u64, 3 RX_FRAMES u64, each where the driver counts it
//! ```

use std::collections::BTreeMap;
use std::io;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator, parse_string,
    parse_u16, parse_u32, parse_u64,
};
use netlink_proto::{ConnectionHandle, new_connection};
use netlink_sys::{AsyncSocket, protocols::NETLINK_GENERIC};

use super::request;
use crate::forwarding::PauseFrames;

/// A socket for questions to drivers.
#[derive(Clone, Debug)]
pub(crate) struct Ethtool {
    handle: ConnectionHandle<Message>,
    /// The kernel's number of ethtool's messages, another one after each start.
    family: u16,
}

/// Pause frames by index and name of the interface. Who does not count them is not in it.
pub(crate) type Counted = BTreeMap<(u32, String), PauseFrames>;

/// One message of generic netlink.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    family: u16,
    command: u8,
    attributes: Vec<u8>,
}

impl Ethtool {
    /// Opens a socket in the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// When the kernel has no generic netlink, or nothing of ethtool in it (before Linux 5.6).
    pub(crate) async fn open() -> io::Result<Self> {
        let (mut connection, handle, _) = new_connection::<Message>(NETLINK_GENERIC)?;
        let socket = connection.socket_mut().socket_mut();
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        tokio::spawn(connection);
        let name = DefaultNla::new(CTRL_ATTR_FAMILY_NAME, b"ethtool\0".to_vec());
        let message = Message {
            family: GENL_ID_CTRL,
            command: CTRL_CMD_GETFAMILY,
            attributes: emitted(&name),
        };
        let answers = request(&handle, message, NLM_F_REQUEST | NLM_F_ACK).await?;
        let family = answers.iter().find_map(|answer| {
            attributes(&answer.attributes)
                .find(|(kind, _)| *kind == CTRL_ATTR_FAMILY_ID)
                .and_then(|(_, value)| parse_u16(value).ok())
        });
        let family = family.ok_or_else(|| io::Error::other("ethtool has no number"))?;
        Ok(Self { handle, family })
    }

    /// The pause frames of all interfaces.
    ///
    /// # Errors
    ///
    /// When the kernel does not count them (before Linux 5.10), or does not answer.
    pub(crate) async fn pause_frames(&self) -> io::Result<Counted> {
        let message = Message {
            family: self.family,
            command: ETHTOOL_MSG_PAUSE_GET,
            attributes: with_counts(),
        };
        let answers = request(&self.handle, message, NLM_F_REQUEST | NLM_F_DUMP).await?;
        Ok(answers.iter().filter_map(read).collect())
    }
}

/// The header of a request that wants what is counted too.
fn with_counts() -> Vec<u8> {
    let flags = ETHTOOL_FLAG_STATS.to_ne_bytes().to_vec();
    let flags = emitted(&DefaultNla::new(ETHTOOL_A_HEADER_FLAGS, flags));
    emitted(&DefaultNla::new(
        ETHTOOL_A_PAUSE_HEADER | NLA_F_NESTED,
        flags,
    ))
}

fn emitted(nla: &DefaultNla) -> Vec<u8> {
    let mut octets = vec![0; nla.buffer_len()];
    nla.emit(&mut octets);
    octets
}

/// One interface of an answer; `None` if its driver counts neither way.
fn read(message: &Message) -> Option<((u32, String), PauseFrames)> {
    if message.command != ETHTOOL_MSG_PAUSE_GET_REPLY {
        return None;
    }
    let (mut index, mut name, mut pause) = (None, None, PauseFrames::default());
    for (kind, value) in attributes(&message.attributes) {
        for (inner, value) in attributes(value) {
            match (kind, inner) {
                (ETHTOOL_A_PAUSE_HEADER, ETHTOOL_A_HEADER_DEV_INDEX) => {
                    index = parse_u32(value).ok();
                }
                (ETHTOOL_A_PAUSE_HEADER, ETHTOOL_A_HEADER_DEV_NAME) => {
                    name = parse_string(value).ok();
                }
                (ETHTOOL_A_PAUSE_STATS, ETHTOOL_A_PAUSE_STAT_TX_FRAMES) => {
                    pause.sent = parse_u64(value).ok();
                }
                (ETHTOOL_A_PAUSE_STATS, ETHTOOL_A_PAUSE_STAT_RX_FRAMES) => {
                    pause.received = parse_u64(value).ok();
                }
                (_, _) => {}
            }
        }
    }
    (pause != PauseFrames::default()).then_some(((index?, name?), pause))
}

/// Kinds and values, up to the first that is broken. A value that has no attributes in it has none that can be read.
fn attributes(octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let whole = NlasIterator::new(octets).map_while(Result::ok);
    whole.filter_map(|nla| {
        let (kind, length) = (nla.kind(), usize::from(nla.length()));
        Some((kind, nla.into_inner().get(NLA_HEADER_LEN..length)?))
    })
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER_LEN + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (header, attributes) = buffer.split_at_mut(HEADER_LEN);
        header.copy_from_slice(&[self.command, VERSION, 0, 0]);
        attributes.copy_from_slice(&self.attributes);
    }
}

impl NetlinkDeserializable for Message {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        let Some((&[command, ..], attributes)) = payload.split_at_checked(HEADER_LEN) else {
            return Err(DecodeError::from("generic message without a header"));
        };
        Ok(Self {
            family: header.message_type,
            command,
            attributes: attributes.to_vec(),
        })
    }
}

/// `struct genlmsghdr`.
const HEADER_LEN: usize = 4;
/// `struct nlattr`.
const NLA_HEADER_LEN: usize = 4;

/// Of both families.
const VERSION: u8 = 1;

const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const ETHTOOL_MSG_PAUSE_GET: u8 = 21;
const ETHTOOL_MSG_PAUSE_GET_REPLY: u8 = 22;
const ETHTOOL_FLAG_STATS: u32 = 1 << 2;
const ETHTOOL_A_HEADER_DEV_INDEX: u16 = 1;
const ETHTOOL_A_HEADER_DEV_NAME: u16 = 2;
const ETHTOOL_A_HEADER_FLAGS: u16 = 3;
const ETHTOOL_A_PAUSE_HEADER: u16 = 1;
const ETHTOOL_A_PAUSE_STATS: u16 = 5;
const ETHTOOL_A_PAUSE_STAT_TX_FRAMES: u16 = 2;
const ETHTOOL_A_PAUSE_STAT_RX_FRAMES: u16 = 3;

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::*;

    /// Written by hand from linux/ethtool_netlink.h: swp1 has index 7, sent 258 frames and received 2^40.
    const SWP1: &[u8] = &[
        22, 1, 0, 0, //
        24, 0, 1, 0x80, 8, 0, 1, 0, 7, 0, 0, 0, 9, 0, 2, 0, b's', b'w', b'p', b'1', 0, 0, 0,
        0, //
        5, 0, 2, 0, 1, 0, 0, 0, 5, 0, 3, 0, 0, 0, 0, 0, 5, 0, 4, 0, 1, 0, 0, 0, //
        32, 0, 5, 0x80, 4, 0, 1, 0, 12, 0, 2, 0, 2, 1, 0, 0, 0, 0, 0, 0, //
        12, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0,
    ];

    fn of(octets: &[u8]) -> Option<((u32, String), PauseFrames)> {
        let header = NetlinkHeader::default();
        read(&Message::deserialize(&header, octets).ok()?)
    }

    #[test]
    fn a_reply_has_the_kernels_layout() {
        let pause = PauseFrames {
            received: Some(1 << 40),
            sent: Some(258),
        };
        assert_eq!(of(SWP1), Some(((7, "swp1".into()), pause)));
    }

    #[test]
    fn a_request_has_the_kernels_layout() {
        let message = Message {
            family: 21,
            command: ETHTOOL_MSG_PAUSE_GET,
            attributes: with_counts(),
        };
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        assert_eq!(
            octets,
            [21, 1, 0, 0, 12, 0, 1, 0x80, 8, 0, 3, 0, 4, 0, 0, 0]
        );
    }

    #[test]
    fn what_the_driver_does_not_count_is_absent_and_not_zero() {
        // Only what was received.
        let mut half = SWP1[..52].to_vec();
        half.extend([16, 0, 5, 0x80, 12, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let pause = PauseFrames {
            received: Some(0),
            sent: None,
        };
        assert_eq!(of(&half), Some(((7, "swp1".into()), pause)));
        // Settings alone, and an empty nest.
        assert_eq!(of(&SWP1[..52]), None);
        let mut empty = SWP1[..52].to_vec();
        empty.extend([4, 0, 5, 0x80]);
        assert_eq!(of(&empty), None);
    }

    #[test]
    fn no_octets_make_it_panic() {
        for end in 0..SWP1.len() {
            drop(of(&SWP1[..end]));
            for octet in [0, 1, 3, 5, 0xff] {
                let mut odd = SWP1.to_vec();
                odd[end] = octet;
                drop(of(&odd));
            }
        }
    }
}
