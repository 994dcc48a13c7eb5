//! A host's network: interfaces, addresses, routes, settings.
//!
//! [`NetConfig`] is the configuration by operators, DHCP and router advertisements; its methods refuse
//! changes that contradict it. [`NetState`] is made of it: an immutable snapshot with the lookup tables of
//! the packet path. The owner of one that threads share publishes a new one for each change, and counts
//! generations.

use core::net::{Ipv4Addr, Ipv6Addr};

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::addr::{Destination, Martian, Ours};
use crate::fib::Fib;
use crate::iface::{IfaceId, Interface};
use crate::route::{Hop, Kind};

mod config;
mod config6;
mod error;
mod lookup6;
mod resolve;
mod routes;
mod settings;
#[cfg(test)]
mod tests;

pub use config::NetConfig;
pub use config6::Advertised;
pub use error::StateError;
pub use settings::{IcmpRates, MAX_INTERFACES, MIN_MTU, Rate, ReversePath, Settings};

/// A host's network at one moment.
#[derive(Clone, Debug)]
pub struct NetState {
    config: NetConfig,
    generation: u64,
    /// By number.
    interfaces: Box<[Option<Interface>]>,
    /// Which interface a link's VLAN is, by ascending [`member_key`]. Only those that are up.
    members: Box<[(u32, IfaceId)]>,
    fib4: Arc<Fib<Ipv4Addr, Hop<Ipv4Addr>>>,
    fib6: Arc<Fib<Ipv6Addr, Hop<Ipv6Addr>>>,
}

/// The tag 0 carries a priority only: IEEE 802.1Q has it belong to no VLAN, as if untagged.
#[inline]
const fn member_key(link: u16, vlan: u16) -> u32 {
    (link as u32) << 16 | vlan as u32
}

impl NetState {
    /// The state that `config` describes.
    pub fn new(config: NetConfig, generation: u64) -> Self {
        let fib4 = Arc::new(Fib::new(resolve::ipv4(&config)));
        let fib6 = Arc::new(Fib::new(resolve::ipv6(&config)));
        Self::with(config, generation, fib4, fib6)
    }

    /// The next state, which `config` describes. A family whose addresses and routes have not changed keeps
    /// its table: a router that advertises does not have the IPv4 routes laid out again.
    pub fn next(&self, config: NetConfig) -> Self {
        let (fib4, fib6) = (
            match resolve::same4(&self.config, &config) {
                true => Arc::clone(&self.fib4),
                false => Arc::new(Fib::new(resolve::ipv4(&config))),
            },
            match resolve::same6(&self.config, &config) {
                true => Arc::clone(&self.fib6),
                false => Arc::new(Fib::new(resolve::ipv6(&config))),
            },
        );
        Self::with(config, self.generation + 1, fib4, fib6)
    }

    fn with(
        config: NetConfig,
        generation: u64,
        fib4: Arc<Fib<Ipv4Addr, Hop<Ipv4Addr>>>,
        fib6: Arc<Fib<Ipv6Addr, Hop<Ipv6Addr>>>,
    ) -> Self {
        let up = config.interfaces().iter().filter(|iface| iface.up);
        let key = |iface: &Interface| member_key(iface.link, iface.vlan.unwrap_or(0));
        let mut members: Vec<_> = up.map(|iface| (key(iface), iface.id)).collect();
        members.sort_unstable();
        let slots = config.interfaces().iter().map(|i| i.id.index() + 1).max().unwrap_or(0);
        let interfaces = (0..slots).map(|n| config.interface(IfaceId(n as u16)).cloned());
        let (interfaces, members) = (interfaces.collect(), members.into());
        Self { config, generation, interfaces, members, fib4, fib6 }
    }

    /// Its configuration.
    pub fn config(&self) -> &NetConfig {
        &self.config
    }

    /// A number that is different for every change.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The settings.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// The interface of this number.
    #[inline]
    pub fn interface(&self, id: IfaceId) -> Option<&Interface> {
        self.interfaces.get(id.index())?.as_ref()
    }

    /// The interface that frames of this VLAN of the link belong to, if it is up; VLAN 0 are frames
    /// without a tag or with a priority tag only.
    #[inline]
    pub fn member(&self, link: u16, vlan: u16) -> Option<IfaceId> {
        let key = member_key(link, vlan);
        match &*self.members {
            [(only, id)] if *only == key => Some(*id),
            all => {
                let at = all.binary_search_by_key(&key, |(key, _)| *key).ok()?;
                Some(all[at].1)
            }
        }
    }

    /// The next hop of packets to an IPv4 address; `None`: there is no route.
    #[inline]
    pub fn route4(&self, dst: Ipv4Addr) -> Option<&Hop<Ipv4Addr>> {
        self.fib4.get(dst)
    }

    /// Whether an IPv4 address is one of ours, on any interface that is up.
    #[inline]
    pub fn is_ours(&self, ip: Ipv4Addr) -> bool {
        self.route4(ip).is_some_and(|hop| hop.kind == Kind::Local)
    }

    /// The class of the destination of a datagram that `iface` received.
    ///
    /// An address of ours is ours whichever interface a datagram for it came by: the weak model of
    /// RFC 1122 §3.3.4.2, which a router needs (RFC 1812 §5.2.3). A subnet's broadcast address
    /// counts on its own link only, and a group where it was joined.
    #[inline]
    pub fn destination4(&self, iface: IfaceId, dst: Ipv4Addr) -> Destination {
        let Some(hop) = self.route4(dst) else { return Destination::Other };
        match hop.kind {
            Kind::Local => Destination::Local,
            Kind::Broadcast if hop.iface == iface || dst.is_broadcast() => Destination::Broadcast,
            Kind::Multicast => Destination::Multicast,
            _ => Destination::Other,
        }
    }

    /// Whether `iface` is in the group.
    #[inline]
    pub fn is_member4(&self, iface: IfaceId, group: Ipv4Addr) -> bool {
        self.interface(iface).is_some_and(|iface| iface.is_member(group))
    }

    /// Whether `iface` wants packets of `source` to the group.
    #[inline]
    pub fn accepts4(&self, iface: IfaceId, group: Ipv4Addr, source: Ipv4Addr) -> bool {
        self.interface(iface).is_some_and(|iface| iface.accepts(group, source))
    }

    /// RFC 1122 §3.2.1.3 and RFC 1812 §5.3.7: whether a datagram from outside can be from `src`.
    ///
    /// # Errors
    /// The rule that `src` breaks.
    #[inline]
    pub fn check_source4(&self, src: Ipv4Addr) -> Result<(), Martian> {
        match src.octets()[0] {
            0 => Err(Martian::ThisNetwork),
            127 => Err(Martian::Loopback),
            224.. => Err(Martian::Group),
            _ => match self.route4(src).map(|hop| hop.kind) {
                Some(Kind::Local) => Err(Martian::Own),
                Some(Kind::Broadcast) => Err(Martian::SubnetBroadcast),
                _ => Ok(()),
            },
        }
    }

    /// RFC 3704 §2.2, §2.3: whether a datagram from `src` may have come by `iface`. Ask
    /// [`check_source4`](Self::check_source4) first.
    #[inline]
    pub fn reverse_path4(&self, iface: IfaceId, src: Ipv4Addr) -> bool {
        match self.settings().reverse_path {
            ReversePath::None => true,
            check => self.route4(src).is_some_and(|hop| {
                hop.kind == Kind::Unicast && (check == ReversePath::Loose || hop.iface == iface)
            }),
        }
    }

    /// The source address for packets to `dst` by `iface`, where no route says: one on the subnet of
    /// `dst`, else the interface's first, else that of any other interface that is up.
    pub fn source4(&self, iface: IfaceId, dst: Ipv4Addr) -> Option<Ipv4Addr> {
        let own = self.interface(iface).and_then(|iface| iface.v4.source_for(dst));
        let others = self.config.interfaces().iter().filter(|iface| iface.up);
        own.or_else(|| others.filter_map(|iface| iface.v4.source_for(dst)).next())
    }
}

impl Ours for NetState {
    fn is_ours(&self, ip: Ipv4Addr) -> bool {
        NetState::is_ours(self, ip)
    }

    fn is_subnet_broadcast(&self, ip: Ipv4Addr) -> bool {
        self.route4(ip).is_some_and(|hop| hop.kind == Kind::Broadcast)
    }

    fn check_source(&self, src: Ipv4Addr) -> Result<(), Martian> {
        self.check_source4(src)
    }
}
