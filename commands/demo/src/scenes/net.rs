//! A router with three networks, and a host of the kernel's in each.
//!
//! ```text
//! left 10.78.1.2 ── 10.78.1.1 port0 ┐
//! right 10.78.2.2 ─ 10.78.2.1 port1 ┤ weever
//! other 10.78.3.2 ─ 10.78.3.1 port2 ┘
//! ```

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use weever_daemon::Stack;
use weever_daemon::config::{Config, Interface, Prefix, Route, Share};
use weever_service_api::SetRequest;
use weever_testbed::{Namespace, Veth, VethEnd};
use weever_wire::icmpv4::IcmpView;
use weever_wire::ipv4::Ipv4View;

use crate::kernel::{Talk, timed_out};
use crate::outcome::DemoError;
use crate::peer::PeerError;
use crate::stage::{Control, PORT};

/// A host of the kernel's, on a network of its own.
pub(super) struct Side {
    /// The end of the cable that it has.
    pub(super) end: VethEnd,
    number: u16,
}

impl Side {
    pub(super) fn v4(&self) -> Ipv4Addr {
        host(self.number, 2)
    }

    pub(super) fn v6(&self) -> Ipv6Addr {
        host6(self.number, 2)
    }

    /// weever's address in this network.
    pub(super) fn router(&self) -> Ipv4Addr {
        host(self.number, 1)
    }

    pub(super) fn namespace(&self) -> &Namespace {
        self.end.namespace()
    }
}

fn host(network: u16, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, network as u8, number)
}

fn host6(network: u16, number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x78, network, 0, 0, 0, 0, number)
}

/// An address that both `right` and `other` have, behind routes that weever chooses.
pub(super) const TWICE: Ipv4Addr = Ipv4Addr::new(10, 78, 9, 1);
/// Longest packet that goes to `right`: less than the 1,500 bytes of the other networks.
pub(super) const NARROW: u16 = 1400;

/// The network, and weever in the middle of it.
pub(super) struct Net {
    pub(super) left: Side,
    pub(super) right: Side,
    pub(super) other: Side,
    pub(super) stack: Stack,
    control: Control,
    /// After the stack, which has devices in it.
    _middle: Namespace,
}

impl Net {
    /// Without `ipv6`, hosts and router have IPv4 addresses only.
    pub(super) fn start(control: &Path, ipv6: bool) -> Result<Net, DemoError> {
        let middle = Namespace::new()?;
        let left = side(&middle, "left0", 1, ipv6)?;
        let right = side(&middle, "right0", 2, ipv6)?;
        let other = side(&middle, "other0", 3, ipv6)?;
        for there in [&right, &other] {
            there.end.add_address(TWICE, 32)?;
        }
        let config = config(control, ipv6)?;
        let stack = middle.run(|| Stack::start(config)).map_err(DemoError::start)?;
        let control = Control::new(control.to_owned());
        Ok(Net { left, right, other, stack, control, _middle: middle })
    }

    /// As `weever set`.
    pub(super) fn set(&mut self, assignment: &str) -> Result<(), DemoError> {
        set(&mut self.control, assignment)
    }

    /// The control socket and the hosts, for a step that uses both at once.
    pub(super) fn with_control(&mut self) -> (&mut Control, [&Side; 3]) {
        (&mut self.control, [&self.left, &self.right, &self.other])
    }
}

/// As `weever set`.
pub(super) fn set(control: &mut Control, assignment: &str) -> Result<(), DemoError> {
    let request: SetRequest = assignment.parse().map_err(DemoError::start)?;
    control.ask(|client| client.call(&request)).map(drop).map_err(DemoError::from)
}

/// A namespace that is joined to the middle, and knows the way through it.
fn side(middle: &Namespace, name: &str, number: u16, ipv6: bool) -> Result<Side, DemoError> {
    let (namespace, port) = (Namespace::new()?, format!("port{}", number - 1));
    let end = Veth::create(&namespace, name, middle, &port, 1)?.left;
    end.add_address(host(number, 2), 24)?;
    namespace.add_route(Ipv4Addr::UNSPECIFIED, 0, host(number, 1))?;
    if ipv6 {
        end.speak_ipv6(host6(number, 2), 64)?;
        namespace.add_route6(Ipv6Addr::UNSPECIFIED, 0, host6(number, 1))?;
    }
    Ok(Side { end, number })
}

fn config(control: &Path, ipv6: bool) -> Result<Config, DemoError> {
    let prefix = |ip: IpAddr, len: u8| {
        let prefix: Result<Prefix, _> = format!("{ip}/{len}").parse();
        prefix.map_err(DemoError::start)
    };
    let mut config = Config::new("port0", prefix(host(1, 1).into(), 24)?);
    for number in 2..=3 {
        let v4 = prefix(host(number, 1).into(), 24)?;
        config.interfaces.push(Interface::new(format!("port{}", number - 1), vec![v4]));
    }
    for (number, interface) in (1u16..).zip(&mut config.interfaces) {
        if ipv6 {
            interface.addresses.push(prefix(host6(number, 1).into(), 64)?);
        }
        interface.share = Share::None;
    }
    config.interfaces[1].mtu = Some(NARROW);
    let (to, via) = (prefix(TWICE.into(), 32)?, host(2, 2).into());
    config.routes.push(Route { to, via: Some(via), interface: None });
    config.forwarding = true;
    config.probe = false;
    config.services.echo = Some(PORT);
    config.control = Some(control.into());
    Ok(config)
}

/// Where the hosts' own services listen.
pub(super) const SERVICE: u16 = 4000;
/// How long weever may take to make sure of its IPv6 addresses, and to find a neighbour.
pub(super) const SETTLING: Duration = Duration::from_secs(8);

/// Sockets of `from` that talk to `to`.
pub(super) fn talk(from: &Side, to: impl Into<IpAddr>) -> Result<Talk, PeerError> {
    let (to, index) = (to.into(), from.end.index);
    from.namespace().run(|| Talk::open(to, index, SERVICE))
}

/// Pings until an answer comes, or patience ends.
pub(super) fn answers(talk: &mut Talk, patience: Duration) -> Result<bool, PeerError> {
    let deadline = Instant::now() + patience;
    while Instant::now() < deadline {
        if talk.ping(b"there?", Duration::from_millis(200))?.is_some() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(false)
}

/// A UDP socket in a namespace. Receiving waits for half a second.
pub(super) fn bound(namespace: &Namespace, at: IpAddr, port: u16) -> Result<UdpSocket, PeerError> {
    let socket = namespace.run(|| UdpSocket::bind((at, port)));
    let socket = socket.map_err(PeerError::of("UDP socket"))?;
    let timeout = socket.set_read_timeout(Some(Duration::from_millis(500)));
    timeout.map_err(PeerError::of("UDP socket"))?;
    Ok(socket)
}

/// The ICMP errors that reach a host.
pub(super) struct Errors(Socket);

impl Errors {
    pub(super) fn open(side: &Side) -> Result<Errors, PeerError> {
        let icmp = || Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4));
        side.namespace().run(icmp).map(Errors).map_err(PeerError::of("ICMP socket"))
    }

    /// The next one about a packet to `about`: its sender, its type and code.
    pub(super) fn next(
        &mut self,
        about: Ipv4Addr,
        wait: Duration,
    ) -> Result<Option<(Ipv4Addr, u8, u8)>, PeerError> {
        let (deadline, mut buffer) = (Instant::now() + wait, [0; 2048]);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            match self.read(left, &mut buffer) {
                Ok(len) => {
                    if let Some(error) = error_about(&buffer[..len], about) {
                        return Ok(Some(error));
                    }
                }
                Err(e) if timed_out(&e) => return Ok(None),
                Err(e) => return Err(PeerError::of("ICMP socket")(e)),
            }
        }
    }

    fn read(&mut self, wait: Duration, into: &mut [u8]) -> io::Result<usize> {
        self.0.set_read_timeout(Some(wait))?;
        io::Read::read(&mut &self.0, into)
    }
}

fn error_about(packet: &[u8], about: Ipv4Addr) -> Option<(Ipv4Addr, u8, u8)> {
    let ip = Ipv4View::new(packet).ok()?;
    let icmp = IcmpView::new(ip.payload()).ok().filter(|icmp| icmp.checksum_ok())?;
    let (kind, code) = (icmp.header().kind(), icmp.header().code());
    let quoted: [u8; 4] = *icmp.data().get(16..)?.first_chunk()?;
    let matches = matches!(kind, 3 | 11 | 12) && Ipv4Addr::from(quoted) == about;
    matches.then(|| (ip.header().src(), kind, code))
}
