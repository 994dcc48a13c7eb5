//! The kernel's state of the stack's devices, and its effect on the stack's network.
//!
//! ```text
//!  Mirror ── Event ──► Kernel::learn ──► tables ── Kernel::shape ──► NetConfig
//!                            └──► Heard: neighbours, one by one, for the caches
//! ```
//!
//! In every mode of sharing, interfaces follow their device's MTU and state. Where a device is
//! shared by port, the kernel's addresses and routes become those of the interface.

mod borrow;
mod follower;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

use nix::net::if_::if_nametoindex;
use weever_link::LinkInfo;
use weever_link_sys::mirror::{Address, Event, LinkState, Mirror, Route, RouteKey};
use weever_net::iface::IfaceId;
use weever_net::state::NetConfig;
use weever_wire::MacAddr;

use crate::config::{Config, LinkKind, Share};
use crate::stack::device::links;

pub(in crate::stack) use follower::Follower;

/// An interface, beside the device that it is on.
#[derive(Clone, Debug)]
struct Attached {
    id: IfaceId,
    /// The device's index.
    device: u32,
    /// Whether addresses, routes and neighbours are the kernel's.
    borrowed: bool,
    /// The MTU that its link was opened for: no frame is longer.
    opened: u16,
    /// The MTU that operators want, in the configuration or since.
    wanted: u16,
    /// The MTU that was set last; another one is an operator's.
    mtu: u16,
    /// Whether it was taken down because the device was.
    down: bool,
}

/// The kernel's word on the devices of a stack.
#[derive(Debug, Default)]
pub(in crate::stack) struct Kernel {
    attached: Vec<Attached>,
    links: BTreeMap<u32, LinkState>,
    /// Addresses with their prefixes: while an address changes its prefix, it may occur twice.
    addresses: BTreeMap<(u32, IpAddr, u8), Address>,
    routes: BTreeMap<RouteKey, Route>,
    neighbours: BTreeMap<(u32, IpAddr), MacAddr>,
    /// Whether there are events that [`shape`](Self::shape) has not seen.
    is_news: bool,
}

/// The new state of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heard {
    iface: IfaceId,
    ip: IpAddr,
    /// `None`: it is not known any more.
    mac: Option<MacAddr>,
}

/// The mirror of a stack's devices, and its first events; `None` if none is one of the kernel's.
/// `links` are those of the configuration's devices, in their order.
pub(in crate::stack) fn look(
    config: &Config,
    links: &[LinkInfo],
) -> io::Result<Option<(Mirror, Kernel)>> {
    let mut kernel = Kernel::default();
    for (number, interface) in (0..).zip(&config.interfaces) {
        if !matches!(interface.link, LinkKind::AfXdp | LinkKind::Tap) {
            continue;
        }
        let device = if_nametoindex(interface.dev.as_str())?;
        let opened = links[usize::from(links::number_of(config, &interface.dev))].mtu;
        let wanted = interface.mtu.map_or(opened, |mtu| mtu.min(opened));
        let borrowed = interface.share == Share::Ports;
        let (id, down) = (IfaceId(number), false);
        let one = Attached { id, device, borrowed, opened, wanted, mtu: wanted, down };
        kernel.attached.push(one);
    }
    if kernel.attached.is_empty() {
        return Ok(None);
    }
    let mut mirror = Mirror::open(kernel.attached.iter().map(|one| one.device))?;
    mirror.poll(|event| {
        kernel.learn(event);
    })?;
    Ok(Some((mirror, kernel)))
}

impl Kernel {
    /// Takes an event in; returns news of a neighbour that the stack borrows.
    fn learn(&mut self, event: Event) -> Option<Heard> {
        self.is_news |= !matches!(event, Event::Neighbour(_) | Event::NeighbourGone(_));
        match event {
            Event::Link(link) => drop(self.links.insert(link.interface, link)),
            Event::LinkGone(link) => drop(self.links.remove(&link.interface)),
            Event::Address(a) if a.usable => {
                self.addresses.insert((a.interface, a.address, a.prefix), a);
            }
            Event::Address(a) | Event::AddressGone(a) => {
                self.addresses.remove(&(a.interface, a.address, a.prefix));
            }
            Event::Route(route) => drop(self.routes.insert(route.key(), route)),
            Event::RouteGone(gone) => drop(self.routes.remove(&gone.key())),
            Event::Neighbour(n) => return self.heard(n.interface, n.address, n.mac),
            Event::NeighbourGone(n) => return self.heard(n.interface, n.address, None),
            _ => {}
        }
        None
    }

    fn heard(&mut self, device: u32, ip: IpAddr, mac: Option<[u8; 6]>) -> Option<Heard> {
        let borrower = self.attached.iter().find(|one| one.borrowed && one.device == device)?;
        let iface = borrower.id;
        let mac = mac.map(MacAddr).filter(|mac| mac.is_unicast());
        match mac {
            Some(mac) => self.neighbours.insert((device, ip), mac),
            None => self.neighbours.remove(&(device, ip)),
        };
        Some(Heard { iface, ip, mac })
    }

    /// The neighbours that are known.
    fn known(&self) -> Vec<Heard> {
        let of = |(device, ip): (u32, IpAddr), mac: MacAddr| {
            let borrower = self.attached.iter().find(|one| one.borrowed && one.device == device)?;
            Some(Heard { iface: borrower.id, ip, mac: Some(mac) })
        };
        self.neighbours.iter().filter_map(|(at, mac)| of(*at, *mac)).collect()
    }

    /// The device of an interface that borrows from the kernel, and the neighbour there if it is
    /// known.
    fn find(&self, iface: IfaceId, ip: IpAddr) -> Option<(u32, Option<MacAddr>)> {
        let borrower = self.attached.iter().find(|one| one.borrowed && one.id == iface)?;
        Some((borrower.device, self.neighbours.get(&(borrower.device, ip)).copied()))
    }

    /// Sets the network to the kernel's state.
    pub(in crate::stack) fn shape(&mut self, network: &mut NetConfig) {
        self.is_news = false;
        for one in &mut self.attached {
            let Some(link) = self.links.get(&one.device) else { continue };
            one.follow(link, network);
            if one.borrowed {
                let addresses = self.addresses.values().filter(|a| a.interface == one.device);
                let routes = self.routes.values().filter(|r| r.interface == one.device);
                borrow::addresses(network, one.id, addresses);
                borrow::routes(network, one.id, routes);
            }
        }
    }
}

impl Attached {
    /// Takes on the device's MTU and state, except where an operator has set them.
    fn follow(&mut self, link: &LinkState, network: &mut NetConfig) {
        let Some(iface) = network.interface(self.id) else { return };
        let (name, up) = (iface.name.clone(), iface.up);
        self.follow_mtu(link, network, &name);
        if up && !link.running {
            tracing::warn!(interface = name, "the device is down");
        } else if !up && link.running && self.down {
            tracing::info!(interface = name, "the device is up");
        }
        let goes = up && !link.running;
        let comes = !up && link.running && self.down;
        if goes || comes {
            // The interface exists: it was looked up above.
            let _ = network.set_up(self.id, comes);
        }
        self.down = !link.running && (self.down || goes);
    }
    /// An operator's MTU is remembered while the device has a smaller one.
    fn follow_mtu(&mut self, link: &LinkState, network: &mut NetConfig, name: &str) {
        let Some(mtu) = network.interface(self.id).map(|iface| iface.mtu) else { return };
        if mtu != self.mtu {
            self.wanted = mtu;
        }
        let device = u16::try_from(link.mtu).unwrap_or(u16::MAX);
        let fits = device.min(self.opened).min(self.wanted);
        self.mtu = mtu;
        if fits == mtu {
            return;
        }
        match network.set_mtu(self.id, fits) {
            Ok(()) => {
                self.mtu = fits;
                tracing::info!(interface = name, mtu = fits, device, "the MTU has changed");
            }
            Err(error) => tracing::warn!(interface = name, "MTU of the device: {error}"),
        }
    }
}
