//! Neighbour discovery on the host's interfaces, as interfaces come, change and go.

use std::net::Ipv6Addr;

use weever_blocks_api::Nanos;
use weever_net::iface::Interface;
use weever_net::ipv6::addr::is_link_local;
use weever_net::ipv6::{AddrOrigin, AddrState};
use weever_net::ndp::{Config, Identifier, Neighbour, Node, State};
use weever_net::random::keyed_hash;
use weever_net::state::{Advertised, NetState};

/// One interface's.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) iface: u16,
    pub(super) node: Node,
    /// How often the interface had gone down when this began.
    downs: u32,
    /// The kernel's: see [`Interface::borrowed`].
    pub(super) borrowed: bool,
    /// What of it has been told to the host's network.
    pub(super) told: u64,
}

impl Own {
    /// What the host's network has to know.
    pub(super) fn advertised(&self) -> Advertised {
        let node = &self.node;
        let params = node.params();
        Advertised {
            locals: node.locals(),
            router: node.default_router(),
            on_link: node.on_link().collect(),
            hop_limit: params.hop_limit,
            mtu: params.mtu,
        }
    }
}

/// A state machine for each interface that speaks IPv6 and is up, by ascending number.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) all: Vec<Own>,
    base: Config,
    seed: u64,
    /// What operators entered for interfaces that are down now, or do not speak IPv6 for a while.
    kept: Vec<(u16, Neighbour)>,
    /// Generations of those that are gone.
    past: u64,
}

impl Nodes {
    pub(super) fn new(base: Config, seed: u64) -> Nodes {
        Nodes { all: Vec::new(), base, seed, kept: Vec::new(), past: 0 }
    }

    pub(super) fn of(&mut self, iface: u16) -> Option<&mut Node> {
        let at = self.all.binary_search_by_key(&iface, |own| own.iface).ok()?;
        self.all.get_mut(at).map(|own| &mut own.node)
    }

    /// Every neighbour with its interface, those included that wait for theirs to come back.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u16, Neighbour)> + '_ {
        let all = self.all.iter().flat_map(|own| own.node.entries().map(|e| (own.iface, e)));
        all.chain(self.kept.iter().copied())
    }

    /// Forgets a neighbour, whether its interface is up or not.
    pub(super) fn remove(&mut self, iface: u16, ip: Ipv6Addr) -> Option<Neighbour> {
        if let Some(node) = self.of(iface) {
            return node.remove(ip);
        }
        let at = self.kept.iter().position(|(of, kept)| *of == iface && kept.ip == ip)?;
        Some(self.kept.swap_remove(at).1)
    }

    /// Whether the interface's neighbours are somebody else's to find out.
    pub(super) fn is_borrowed(&self, iface: u16) -> bool {
        let at = self.all.binary_search_by_key(&iface, |own| own.iface);
        at.is_ok_and(|at| self.all[at].borrowed)
    }

    /// A number that grows whenever a link address is learned or lost.
    pub(super) fn generation(&self) -> u64 {
        self.all.iter().fold(self.past, |sum, own| sum + own.node.generation())
    }

    /// When the first of them has something to do.
    pub(super) fn poll_at(&self) -> u64 {
        self.all.iter().filter_map(|own| own.node.poll_at()).min().unwrap_or(u64::MAX)
    }

    /// Makes them those of the interfaces of `state`; calls `gone` for each neighbour that packets
    /// may wait for in vain from now on.
    pub(super) fn follow(
        &mut self,
        state: &NetState,
        now: Nanos,
        mut gone: impl FnMut(u16, Ipv6Addr),
    ) {
        let speaks = |iface: &&Interface| iface.up && iface.v6_settings.enabled;
        let router = state.settings().forwarding;
        let base = self.base;
        let (past, kept) = (&mut self.past, &mut self.kept);
        self.all.retain_mut(|own| {
            let mut there = state.config().interfaces().iter().filter(speaks);
            let iface = there.find(|iface| iface.id.0 == own.iface);
            let stays = iface.is_some_and(|iface| {
                // Addresses and neighbours outlive a change of the MTU.
                own.node.set_mtu(iface.mtu);
                iface.mac == own.node.mac()
                    && iface.downs == own.downs
                    && config(iface, router, base) == own.node.config()
            });
            if !stays {
                own.node.entries().for_each(|entry| gone(own.iface, entry.ip));
                // A link that was down has other neighbours, but the operator still means his.
                let entered = own.node.entries().filter(|entry| entry.state == State::Static);
                kept.extend(entered.map(|entry| (own.iface, entry)));
                *past += own.node.generation() + 1;
            }
            stays
        });
        kept.retain(|(of, _)| state.config().interfaces().iter().any(|i| i.id.0 == *of));
        for iface in state.config().interfaces().iter().filter(speaks) {
            if self.of(iface.id.0).is_none() {
                self.insert(iface, config(iface, router, base), now);
            }
            if let Some(node) = self.of(iface.id.0).filter(|_| !iface.borrowed) {
                adapt(node, iface, now);
            }
        }
    }

    fn insert(&mut self, iface: &Interface, config: Config, now: Nanos) {
        let seed = keyed_hash([self.seed, now], &[iface.mac.to_bits(), iface.id.0.into()]);
        let mut node = Node::new(iface.mac, config, seed, now);
        for (_, kept) in self.kept.extract_if(.., |(of, _)| *of == iface.id.0) {
            // They fitted before.
            let _ = kept.mac.is_some_and(|mac| node.insert_static(kept.ip, mac, now).is_ok());
        }
        let (borrowed, downs) = (iface.borrowed, iface.downs);
        let own = Own { iface: iface.id.0, node, downs, borrowed, told: 0 };
        let at = self.all.partition_point(|other| other.iface < own.iface);
        self.all.insert(at, own);
    }
}

fn config(iface: &Interface, router: bool, base: Config) -> Config {
    let settings = iface.v6_settings;
    let own_link_local = |own: weever_net::ipv6::OwnAddr| {
        own.origin == AddrOrigin::Static && is_link_local(own.cidr.addr())
    };
    Config {
        dad_transmits: settings.dad_transmits,
        accept_ra: settings.accept_ra && !router && !iface.borrowed,
        router,
        link_local: !iface.borrowed && !iface.v6.iter().any(own_link_local),
        identifier: settings.secret.map_or(Identifier::Eui64, Identifier::Stable),
        mtu: iface.mtu,
        ..base
    }
}

/// Takes on the addresses that an operator wants, and drops those that are wanted no more.
fn adapt(node: &mut Node, iface: &Interface, now: Nanos) {
    let wanted = || iface.v6.iter().filter(|own| own.origin == AddrOrigin::Static);
    let have = node.locals();
    for own in wanted().filter(|own| have.get(own.cidr.addr()).is_none()) {
        match own.state {
            AddrState::Tentative | AddrState::Duplicate => node.add_address(own.cidr, now),
            AddrState::Preferred | AddrState::Deprecated => node.adopt_address(own.cidr, now),
        };
    }
    for own in have.iter().filter(|own| own.origin == AddrOrigin::Static) {
        let addr = own.cidr.addr();
        if !wanted().any(|own| own.cidr.addr() == addr) {
            node.remove_address(addr);
        }
    }
}
