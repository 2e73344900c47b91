//! Attacks of a leaf: sessions that announce routes without end, and messages that claim more than there may be.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weft_bgp::attribute::{Attributes, Community, NextHop, Reach};
use weft_bgp::family::Family;
use weft_bgp::message::{Message, Update};
use weft_bgp::nlri::Nlri;
use weft_bgp::wire::Writer;
use weft_evpn::community::{Encapsulation, RouteTarget};

use crate::lone::{CONTEXT, opening, route};

/// Announces routes of type 2, each with communities of its own, until the other end closes.
pub(crate) async fn announce(stream: TcpStream, source: IpAddr) -> io::Result<()> {
    let (mut read, mut write) = stream.into_split();
    let router_id = router_id(source);
    write.write_all(&opening(router_id)).await?;
    let heard = tokio::spawn(async move {
        let mut octets = vec![0; 1 << 16];
        while matches!(read.read(&mut octets).await, Ok(1..)) {}
    });
    for number in 0.. {
        if heard.is_finished() {
            break;
        }
        write.write_all(&update(router_id, number)).await?;
    }
    Ok(())
}

/// A route with almost 4 KiB of communities that no other route has.
fn update(leaf: Ipv4Addr, number: u32) -> Vec<u8> {
    let mut nlri = Writer::new();
    // Leaves of 10.98.0.0/16, each with routes of its own.
    let leaf_number = leaf.to_bits() & 0xffff;
    route(leaf_number, number, 100).encode(&mut nlri);
    let update = Update {
        reach: Some(Reach {
            family: Family::L2VPN_EVPN,
            next_hop: NextHop::V4(leaf),
            nlri: nlri.finish(),
        }),
        attributes: Attributes {
            local_pref: Some(100),
            communities: (0..COMMUNITIES)
                .map(|it| Community(number << 10 | it))
                .collect(),
            ext_communities: vec![
                RouteTarget::two_octet_as(64_496, 100).octets(),
                Encapsulation::new(Encapsulation::VXLAN).octets(),
            ],
            ..Attributes::default()
        },
        ..Update::default()
    };
    Message::Update(Box::new(update)).encode(&CONTEXT).to_vec()
}

/// A message of 65,535 octets, which needs a capability that was not offered (RFC 8654), and octets of it.
pub(crate) async fn claim(mut stream: TcpStream, source: IpAddr) -> io::Result<()> {
    stream.write_all(&opening(router_id(source))).await?;
    let mut message = vec![0xff; 16];
    message.extend([0xff, 0xff, 2]);
    message.resize(65_534, 0);
    stream.write_all(&message).await?;
    let mut octets = [0; 512];
    while stream.read(&mut octets).await? > 0 {}
    Ok(())
}

/// One for each source: its IPv4 address, or one made of its /64.
fn router_id(source: IpAddr) -> Ipv4Addr {
    match source {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => {
            let [_, _, _, net, .., host] = address.segments();
            Ipv4Addr::new(
                10,
                98,
                2 + u8::from(host > 1),
                u8::try_from(net.max(host)).unwrap_or(0),
            )
        }
    }
}

/// 900 are 3,600 octets: an UPDATE of 4,096 octets has room for little more.
const COMMUNITIES: u32 = 900;
