//! The state machine of one interface, but for messages ([`receive`](super::receive)).

use core::net::Ipv6Addr;

use weever_wire::MacAddr;
use weever_wire::ndp::NdpRepr;

use super::address::{Addresses, Lifetimes, Sent};
use super::cache::{Cache, Due};
use super::router::{Prefixes, Routers, Solicitations};
use super::{
    ADVERTS, Action, Discovery, Identifier, Learned, Lookup, NdpConfig, Params, REACHABLE_RENEWAL,
    START_DELAY, Transmit,
};
use crate::addr::Cidr6;
use crate::ipv6::addr::{
    ALL_NODES, ALL_ROUTERS, eui64, link_local, multicast_mac, solicited_node, stable_iid,
};
use crate::ipv6::{AddrOrigin, AddrState, DEFAULT_HOP_LIMIT, Locals6};
use crate::limit::RateLimit;
use crate::neighbour::{Answers, Demand, Entries};
use crate::random::Random;

/// Neighbour discovery on one interface; see the [module's documentation](super).
#[derive(Clone, Debug)]
pub struct Node {
    pub(super) mac: MacAddr,
    pub(super) config: NdpConfig,
    pub(super) cache: Cache,
    pub(super) addresses: Addresses,
    pub(super) routers: Routers,
    pub(super) prefixes: Prefixes,
    pub(super) params: Params,
    pub(super) solicit: Solicitations,
    pub(super) adverts: RateLimit,
    pub(super) answers: Answers,
    pub(super) random: Random,
    /// BaseReachableTime, and the time of its next random choice.
    pub(super) base_reachable: u64,
    pub(super) renew_reachable: u64,
    /// The default router at the last look.
    best: Option<Ipv6Addr>,
    config_generation: u64,
}

impl Node {
    /// A station without addresses but, if configured, a link-local one, which is asked for first.
    /// `random` decides delays and nonces; give every station its own.
    pub fn new(mac: MacAddr, config: NdpConfig, mut random: Random, now: u64) -> Self {
        let start = now.saturating_add(random.up_to(START_DELAY));
        let asks = config.accept_ra && !config.router;
        let mut node = Self {
            mac,
            cache: Cache::new(config),
            addresses: Addresses::default(),
            routers: Routers::default(),
            prefixes: Prefixes::default(),
            params: Params { hop_limit: DEFAULT_HOP_LIMIT, mtu: config.mtu },
            solicit: if asks { Solicitations::from(start) } else { Solicitations::NEVER },
            adverts: RateLimit::new(ADVERTS.0, ADVERTS.1),
            answers: Answers::new([random.next_u64(), random.next_u64()]),
            random,
            base_reachable: config.reachable,
            renew_reachable: now.saturating_add(REACHABLE_RENEWAL),
            best: None,
            config_generation: 0,
            config,
        };
        node.draw_reachable();
        if let Some(cidr) =
            link_local(node.identifier(0xfe80 << 48, 0)).filter(|_| config.link_local)
        {
            node.claim((cidr, AddrOrigin::LinkLocal, 0), Lifetimes::FOR_EVER, now);
        }
        node
    }

    /// The link address.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// RFC 4861 §6.3.2: "a uniformly distributed random value between MIN_RANDOM_FACTOR and
    /// MAX_RANDOM_FACTOR times the Base Reachable Time".
    pub(super) fn draw_reachable(&mut self) {
        let base = self.base_reachable;
        self.cache.reachable = base / 2 + self.random.up_to(base);
    }

    pub(super) fn identifier(&self, prefix: u64, collisions: u8) -> u64 {
        match self.config.identifier {
            Identifier::Stable(secret) => stable_iid(secret, prefix, self.mac, collisions),
            Identifier::Eui64 => eui64(self.mac),
        }
    }

    /// Takes an address on, to be asked for; false if there is no room or it is there already.
    pub(super) fn claim(
        &mut self,
        what: (Cidr6, AddrOrigin, u8),
        lifetimes: Lifetimes,
        now: u64,
    ) -> bool {
        // RFC 4862 §5.4.2: nodes that start together must not probe together.
        let delay = match what.1 {
            AddrOrigin::Static => 0,
            _ => self.random.up_to(START_DELAY),
        };
        let added = self.addresses.add(what, lifetimes, &self.config, (now, delay));
        self.settle();
        added
    }

    /// Gives the interface an operator's address, which is used once duplicate address detection has passed
    /// (RFC 4862 §5.4); false if it is there already, or there are too many.
    pub fn add_address(&mut self, cidr: Cidr6, now: u64) -> bool {
        self.claim((cidr, AddrOrigin::Static, 0), Lifetimes::FOR_EVER, now)
    }

    /// Gives the interface an operator's address that is used at once; false if it is there already,
    /// or there are too many.
    pub fn adopt_address(&mut self, cidr: Cidr6, now: u64) -> bool {
        let (config, what) = (NdpConfig { dad_transmits: 0, ..self.config }, AddrOrigin::Static);
        let added = self.addresses.add((cidr, what, 0), Lifetimes::FOR_EVER, &config, (now, 0));
        self.settle();
        added
    }

    /// Follows the link's MTU. A router's MTU holds as long as it is below.
    pub fn set_mtu(&mut self, mtu: u16) {
        if self.config.mtu == mtu {
            return;
        }
        let advertised = self.params.mtu < self.config.mtu;
        self.params.mtu = if advertised { self.params.mtu.min(mtu) } else { mtu };
        self.config.mtu = mtu;
        self.note_change();
    }

    /// Its configuration, with the MTU that it follows.
    pub fn config(&self) -> NdpConfig {
        self.config
    }

    /// Takes an address away; whether it was there.
    pub fn remove_address(&mut self, ip: Ipv6Addr) -> bool {
        let removed = self.addresses.remove(ip);
        self.settle();
        removed
    }

    /// Our addresses, in any state.
    pub fn locals(&self) -> Locals6 {
        self.addresses.locals()
    }

    /// The default router.
    pub fn default_router(&self) -> Option<Ipv6Addr> {
        self.best
    }

    /// Prefixes whose addresses are neighbours, as routers say.
    pub fn on_link(&self) -> impl Iterator<Item = Cidr6> + '_ {
        self.prefixes.iter()
    }

    /// The link's parameters, as routers say.
    pub fn params(&self) -> Params {
        self.params
    }

    /// A number that grows whenever addresses, routers, prefixes or parameters have changed.
    #[inline]
    pub fn config_generation(&self) -> u64 {
        self.config_generation
    }

    /// Notes that a transport makes progress with the neighbour `ip` (RFC 4861 §7.3.1), which
    /// therefore needs no probe.
    pub fn confirm(&mut self, ip: Ipv6Addr, now: u64) {
        self.cache.confirm(ip, now);
    }

    /// Counts a generation if the published state has changed.
    pub(super) fn settle(&mut self) {
        let best = self.routers.best(|ip| self.cache.entries.state(ip));
        let changed = core::mem::take(&mut self.addresses.changed) || best != self.best;
        self.best = best;
        self.config_generation += u64::from(changed);
    }

    /// Counts a generation for a change that [`Node::settle`] does not see.
    pub(super) fn note_change(&mut self) {
        self.config_generation += 1;
    }

    /// A router solicitation: from the unspecified address while there is none of our own, and then
    /// without a link address (RFC 4861 §4.1).
    fn ask_routers(&self) -> Transmit {
        let own = self.addresses.link_local();
        let message = NdpRepr::RouterSolicit { source_link: own.map(|_| self.mac) };
        let src = own.unwrap_or(Ipv6Addr::UNSPECIFIED);
        Transmit { mac: Some(multicast_mac(ALL_ROUTERS)), src, dst: ALL_ROUTERS, message }
    }

    fn question(&self, ip: Ipv6Addr, at: Option<MacAddr>) -> Transmit {
        solicitation(self.mac, &self.addresses, ip, at)
    }

    /// Whether `ip` is ours and used.
    pub fn is_ours(&self, ip: Ipv6Addr) -> bool {
        self.addresses.get(ip).is_some_and(|own| own.is_used())
    }

    pub(super) fn is_tentative(&self, ip: Ipv6Addr) -> bool {
        self.addresses.get(ip).is_some_and(|own| own.state == AddrState::Tentative)
    }
}

impl Discovery for Node {
    type Ip = Ipv6Addr;
    type Transmit = Transmit;

    fn neighbours(&self) -> &Entries<Ipv6Addr> {
        &self.cache.entries
    }

    fn neighbours_mut(&mut self) -> &mut Entries<Ipv6Addr> {
        &mut self.cache.entries
    }

    /// The link address of a group follows from its address and is not asked for.
    fn lookup_for(&mut self, ip: Ipv6Addr, demand: Demand, now: u64) -> Lookup {
        match ip.is_multicast() {
            true => Lookup::Hit(multicast_mac(ip)),
            false => self.cache.lookup(ip, demand, now).asking(|| self.question(ip, None)),
        }
    }

    fn touch(&mut self, ip: Ipv6Addr, now: u64) {
        self.cache.touch(ip, now);
    }

    fn adopt(&mut self, ip: Ipv6Addr, mac: MacAddr, now: u64) -> Option<Learned> {
        self.cache.adopt(ip, mac, now)
    }

    fn poll_at(&self) -> Option<u64> {
        let wakes = [
            self.cache.entries.wake(),
            self.addresses.wake(),
            self.routers.wake(),
            self.prefixes.wake(),
            self.solicit.next,
        ];
        wakes.into_iter().min().filter(|at| *at != u64::MAX)
    }

    fn poll(&mut self, now: u64, mut act: impl FnMut(Action)) {
        if now >= self.renew_reachable {
            self.renew_reachable = now.saturating_add(REACHABLE_RENEWAL);
            self.draw_reachable();
        }
        let (mac, addresses) = (self.mac, &self.addresses);
        self.cache.poll(now, |due| {
            act(match due {
                Due::Ask(ip, at) => Action::Send(solicitation(mac, addresses, ip, at)),
                Due::GiveUp(ip) => Action::Unresolved(ip),
            });
        });
        let router = self.config.router;
        self.addresses.poll(now, self.cache.retrans, &mut self.random, |sent| {
            act(Action::Send(match sent {
                Sent::Probe(ip, nonce) => probe(ip, nonce),
                Sent::Announcement(ip) => announcement(mac, router, ip),
            }));
        });
        self.routers.expire(now);
        if self.prefixes.expire(now) {
            self.note_change();
        }
        if self.solicit.next <= now {
            self.solicit.sent(now, &mut self.random);
            act(Action::Send(self.ask_routers()));
        }
        self.settle();
    }
}

/// RFC 4861 §7.2.2: to the solicited-node group of an unknown neighbour, or to a known one.
fn solicitation(
    mac: MacAddr,
    addresses: &Addresses,
    target: Ipv6Addr,
    at: Option<MacAddr>,
) -> Transmit {
    let group = solicited_node(target);
    let (to, dst) = at.map_or((multicast_mac(group), group), |mac| (mac, target));
    let own = addresses.source_for(target);
    let (source_link, nonce) = (own.map(|_| mac), None);
    let message = NdpRepr::NeighbourSolicit { target, source_link, nonce };
    Transmit { mac: Some(to), src: own.unwrap_or(Ipv6Addr::UNSPECIFIED), dst, message }
}

/// RFC 4861 §7.2.6: an unsolicited advertisement to all nodes, which overrides their entry of the
/// address: it has come up, or our link address is another one.
fn announcement(mac: MacAddr, router: bool, target: Ipv6Addr) -> Transmit {
    let message = NdpRepr::NeighbourAdvert {
        target,
        router,
        solicited: false,
        overrides: true,
        target_link: Some(mac),
    };
    Transmit { mac: Some(multicast_mac(ALL_NODES)), src: target, dst: ALL_NODES, message }
}

/// RFC 4862 §5.4.2: "the IP source is set to the unspecified address", and there is no link address.
fn probe(target: Ipv6Addr, nonce: [u8; 6]) -> Transmit {
    let dst = solicited_node(target);
    let message = NdpRepr::NeighbourSolicit { target, source_link: None, nonce: Some(nonce) };
    Transmit { mac: Some(multicast_mac(dst)), src: Ipv6Addr::UNSPECIFIED, dst, message }
}
