//! IPv6: neighbour discovery on each interface that speaks it and is up.

use std::net::Ipv6Addr;

use weever_block::Nanos;
use weever_net::iface::{IfaceId, Interface};
use weever_net::ipv6::addr::is_link_local;
use weever_net::ipv6::{AddrOrigin, AddrState, OwnAddr};
use weever_net::ndp::{Identifier, NdpConfig, Node, Outcome, Received, Reject, State, Transmit};
use weever_net::neighbour::Discovery;
use weever_net::random::{Key, Random, keyed_hash};
use weever_net::state::{Advertised, NetState};
use weever_wire::ndp::NdpRepr;

use super::super::Network;
use super::family::Family;
use super::family::Key6;
use super::links::{Link, Links};
use super::session::Session;

/// Neighbour discovery on the interfaces of a host.
#[derive(Debug)]
pub struct V6 {
    base: NdpConfig,
    /// For delays and nonces.
    key: Key,
}

impl V6 {
    pub(crate) fn new(base: NdpConfig, key: Key) -> V6 {
        V6 { base, key }
    }

    fn insert(&self, links: &mut Links<Node>, iface: &Interface, config: NdpConfig, now: Nanos) {
        let words =
            |part| keyed_hash(self.key, &[part, now, iface.mac.to_bits(), iface.id.0.into()]);
        let random = Random::keyed([words(0), words(1)]);
        let mut machine = Node::new(iface.mac, config, random, now);
        for (_, kept) in links.kept.extract_if(.., |(of, _)| *of == iface.id.0) {
            let neighbours = machine.neighbours_mut();
            // They fitted before.
            let _ = kept.mac.map(|mac| neighbours.insert_static(kept.ip, mac, now));
        }
        let Interface { up, downs, borrowed, .. } = *iface;
        links.insert(Link { iface: iface.id.0, up, downs, borrowed, told: 0, machine });
    }
}

impl Family for V6 {
    type Key = Key6;
    type Machine = Node;

    fn secret(&self) -> Key {
        self.key
    }

    fn asks_for(sent: &Transmit) -> Option<Ipv6Addr> {
        match sent.message {
            NdpRepr::NeighbourSolicit { target, .. } => Some(target),
            _ => None,
        }
    }

    fn follow(
        &mut self,
        links: &mut Links<Node>,
        state: &NetState,
        now: Nanos,
        mut given_up: impl FnMut(u16, Ipv6Addr),
    ) {
        let interfaces = state.config().interfaces();
        let config = |iface: &Interface| config(iface, state.settings().forwarding, self.base);
        let mut kept = Vec::new();
        links.retain(|link| {
            let mut speaking = interfaces.iter().filter(|iface| speaks(iface));
            let iface = speaking.find(|iface| iface.id.0 == link.iface);
            let stays = iface.is_some_and(|iface| suits(link, iface, config(iface)));
            if !stays {
                let neighbours = link.machine.neighbours();
                neighbours.iter().for_each(|entry| given_up(link.iface, entry.ip));
                // A link that was down has other neighbours, but the operator's entries stay.
                let entered = neighbours.iter().filter(|entry| entry.state == State::Static);
                kept.extend(entered.map(|entry| (link.iface, entry)));
            }
            stays
        });
        links.kept.append(&mut kept);
        links.kept.retain(|(of, _)| interfaces.iter().any(|iface| iface.id.0 == *of));
        for iface in interfaces.iter().filter(|iface| speaks(iface)) {
            if links.any(iface.id.0).is_none() {
                self.insert(links, iface, config(iface), now);
            }
            if let Some(link) = links.any(iface.id.0).filter(|_| !iface.borrowed) {
                adapt(&mut link.machine, iface, now);
            }
        }
    }

    /// Never called: the findings of neighbour discovery about addresses are read from its locals.
    fn note_free(&mut self, _: u16, _: Ipv6Addr) {}

    fn report(&mut self, links: &mut Links<Node>, host: &Network) -> bool {
        let is_news = |link: &&mut Link<Node>| link.told != link.machine.config_generation();
        let mut news = links.iter_mut().filter(is_news).peekable();
        if news.peek().is_none() {
            return true;
        }
        let Some(mut changes) = host.try_changes() else { return false };
        for link in news {
            link.told = link.machine.config_generation();
            let (iface, found) = (IfaceId(link.iface), advertised(&link.machine));
            changes.ask(move |net| {
                // An interface that went meanwhile will be followed.
                let _ = net.set_advertised(iface, found);
            });
        }
        true
    }
}

fn speaks(iface: &Interface) -> bool {
    iface.up && iface.v6_settings.enabled
}

/// Whether the link may go on for `iface` as it is now; else it begins anew.
fn suits(link: &mut Link<Node>, iface: &Interface, config: NdpConfig) -> bool {
    // Addresses and neighbours outlive a change of the MTU.
    link.machine.set_mtu(iface.mtu);
    let (mac, had) = (link.machine.mac(), link.machine.config());
    iface.mac == mac && iface.downs == link.downs && config == had
}

fn config(iface: &Interface, router: bool, base: NdpConfig) -> NdpConfig {
    let settings = iface.v6_settings;
    let own_link_local =
        |own: OwnAddr| own.origin == AddrOrigin::Static && is_link_local(own.cidr.addr());
    NdpConfig {
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

/// The result of neighbour discovery, for the host's network.
fn advertised(node: &Node) -> Advertised {
    let params = node.params();
    Advertised {
        locals: node.locals(),
        router: node.default_router(),
        on_link: node.on_link().collect(),
        hop_limit: params.hop_limit,
        mtu: params.mtu,
    }
}

impl Session<'_, V6> {
    /// Handles a message that `iface` received; `None` as for [`lookup`](Self::lookup).
    pub(crate) fn handle(
        &mut self,
        iface: u16,
        received: &Received<'_>,
        now: Nanos,
    ) -> Option<Result<Outcome, Reject>> {
        let outcome = self.inner.links.up(iface)?.machine.handle(received, now);
        self.note_learned(iface, outcome.ok().and_then(|outcome| outcome.learned));
        Some(outcome)
    }
}
