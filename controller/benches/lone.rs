//! One weftd of this build, and speakers that announce type 2 routes to it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use tonic::transport::{Channel, Endpoint};
use weft_bgp::attribute::{Attributes, NextHop, Reach};
use weft_bgp::capability::{AddPathSet, Capability};
use weft_bgp::family::Family;
use weft_bgp::message::{DecodeContext, Message, Open, Update};
use weft_bgp::nlri::Nlri;
use weft_bgp::peer::RouterId;
use weft_bgp::rd::Rd;
use weft_bgp::wire::Writer;
use weft_evpn::community::{Encapsulation, RouteTarget};
use weft_evpn::mac::Mac;
use weft_evpn::route::{Labels, MacIp, MacIpKey};
use weft_evpn::{Esi, EthernetTag, Label, Route};

/// A weftd without other replicas.
pub(crate) struct Daemon {
    child: Child,
    /// Where it listens for BGP.
    pub(crate) bgp: SocketAddr,
    /// Where its API is.
    pub(crate) address: String,
    /// A connection to its API.
    pub(crate) channel: Channel,
}

impl Daemon {
    /// Starts it with a directory of its own; `group` is what the speakers' peer group has beside its name, in lines.
    pub(crate) fn start(weftd: &str, dir: &Path, group: &str) -> Self {
        let free = || TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (bgp, api) = (free(), free());
        let (bgp, api) = (bgp.local_addr().unwrap(), api.local_addr().unwrap());
        let file = dir.join("weftd.toml");
        let text = format!(
            "[replica]\ndata_dir = {:?}\n[bgp]\nasn = {ASN}\nlisten = [\"{bgp}\"]\n\
             [[bgp.peer_group]]\nname = \"leaves\"\n{group}[[bgp.listen_range]]\nprefix = \"127.0.0.0/16\"\npeer_group = \"leaves\"\n\
             [api]\nlisten = \"{api}\"\n",
            dir.join("data")
        );
        std::fs::write(&file, text).unwrap();
        let log = std::fs::File::create(dir.join("weftd.log")).unwrap();
        let child = Command::new(weftd)
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::from(log.try_clone().unwrap()))
            .stderr(Stdio::from(log))
            .spawn()
            .unwrap();
        let address = format!("http://{api}");
        let channel = Endpoint::from_shared(address.clone()).unwrap();
        Self {
            child,
            bgp,
            address,
            channel: channel.connect_lazy(),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// A session from an address of its own.
pub(crate) fn speaker(number: u32, bgp: SocketAddr) -> TcpStream {
    session(address(number).into(), address(number), bgp)
}

/// A session from an address, with a router id.
#[expect(clippy::disallowed_methods, reason = "weftd takes a moment to listen")]
pub(crate) fn session(from: IpAddr, router_id: Ipv4Addr, bgp: SocketAddr) -> TcpStream {
    let mut socket = loop {
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(bgp),
            socket2::Type::STREAM,
            None,
        );
        let socket = socket.unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        if socket.connect(&bgp.into()).is_ok() {
            break TcpStream::from(socket);
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    socket.write_all(&opening(router_id)).unwrap();
    socket
}

/// OPEN and KEEPALIVE of a speaker, with a hold time of zero.
pub(crate) fn opening(router_id: Ipv4Addr) -> Vec<u8> {
    let open = Message::Open(Open {
        asn: ASN,
        hold_secs: 0,
        router_id: RouterId::from(router_id),
        capabilities: vec![
            Capability::MultiProtocol(Family::L2VPN_EVPN),
            Capability::FourOctetAs(ASN),
        ],
    });
    let keepalive = Message::Keepalive.encode(&CONTEXT);
    [open.encode(&CONTEXT), keepalive].concat()
}

/// Throws away what a speaker hears.
pub(crate) fn deaf(speaker: &TcpStream) {
    let mut heard = speaker.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut octets = vec![0; 1 << 16];
        while matches!(heard.read(&mut octets), Ok(1..)) {}
    });
}

/// Announces the routes of these hosts.
pub(crate) fn announce(speaker: &mut TcpStream, number: u32, hosts: std::ops::Range<u32>) {
    for first in hosts.clone().step_by(PER_UPDATE) {
        let mut nlri = Writer::new();
        let last = hosts.end.min(first + u32::try_from(PER_UPDATE).unwrap());
        for host in first..last {
            route(number, host, 100).encode(&mut nlri);
        }
        speaker.write_all(&update(number, nlri, None)).unwrap();
    }
}

/// An UPDATE that announces routes, with a MULTI_EXIT_DISC that tells it from others.
pub(crate) fn update(speaker: u32, nlri: Writer, med: Option<u32>) -> Bytes {
    let update = Update {
        reach: Some(Reach {
            family: Family::L2VPN_EVPN,
            next_hop: NextHop::V4(Ipv4Addr::from(0xc000_0201 + speaker)),
            nlri: nlri.finish(),
        }),
        attributes: Attributes {
            local_pref: Some(100),
            med,
            ext_communities: vec![
                RouteTarget::two_octet_as(64_496, 100).octets(),
                Encapsulation::new(Encapsulation::VXLAN).octets(),
            ],
            ..Attributes::default()
        },
        ..Update::default()
    };
    Message::Update(Box::new(update)).encode(&CONTEXT)
}

/// The route of a host.
pub(crate) fn route(speaker: u32, host: u32, vni: u32) -> Route {
    let [_, label @ ..] = vni.to_be_bytes();
    Route::MacIp(MacIp {
        key: MacIpKey {
            rd: Rd::from_ipv4(address(speaker), 100),
            tag: EthernetTag(0),
            mac: mac(speaker, host),
            ip: Some(Ipv4Addr::from(0x0a00_0000 + (speaker << 18) + host).into()),
        },
        esi: Esi::ZERO,
        labels: Labels::One(Label(label)),
    })
}

/// The MAC address of a host behind a speaker.
pub(crate) fn mac(speaker: u32, host: u32) -> Mac {
    let [_, a, b, c] = host.to_be_bytes();
    let [.., high, low] = speaker.to_be_bytes();
    Mac([2, high, low, a, b, c])
}

fn address(speaker: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x7f00_0101 + speaker)
}

const ASN: u32 = 64_496;
/// 39 octets each: an UPDATE of 4096 octets holds them.
const PER_UPDATE: usize = 90;
/// What both ends of a session agreed on.
pub(crate) const CONTEXT: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: false,
    add_path: AddPathSet::NONE,
};
