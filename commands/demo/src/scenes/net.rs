//! A router with three networks, and a host of the kernel's in each.
//!
//! ```text
//! left 10.78.1.2 ── 10.78.1.1 port0 ┐
//! right 10.78.2.2 ─ 10.78.2.1 port1 ┤ weever
//! other 10.78.3.2 ─ 10.78.3.1 port2 ┘
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use weever_daemon::Stack;
use weever_daemon::config::{Config, Interface, Prefix, Route, Share};
use weever_service_api::SetRequest;
use weever_testbed::{Namespace, Veth, VethEnd};

use crate::error::DemoError;
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
