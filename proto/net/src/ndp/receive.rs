//! Handling of received messages: RFC 4861 §6.1 to §8.3, RFC 4862 §5.4 and §5.5.

use core::net::Ipv6Addr;

use weever_wire::MacAddr;
use weever_wire::ndp::{NdpOption, NdpOptions, NdpRepr, PrefixInfo, RouterAdvert};

use super::address::Lifetimes;
use super::cache::{Advert, AdvertResult};
use super::{Identifier, Learned, MIN_RETRANS, Node, Outcome, Received, Reject, Transmit};
use crate::addr::{Cidr6, Prefix};
use crate::ipv6::addr::{
    ALL_NODES, is_link_local, is_solicited_node, link_local, multicast_mac, with_iid,
};
use crate::ipv6::{AddrOrigin, DEFAULT_HOP_LIMIT, MIN_MTU};
use crate::neighbour::NEVER;
use crate::{MILLIS, SECOND};

impl Node {
    /// Handles a neighbour discovery message that was received at `now`.
    ///
    /// # Errors
    /// Why it was not taken. Then nothing has changed, but for [`Reject::Conflict`] over a tentative
    /// address, which is given up, and [`Reject::Full`], after which all else that a router
    /// advertised holds.
    pub fn handle(&mut self, received: &Received<'_>, now: u64) -> Result<Outcome, Reject> {
        let message = NdpRepr::parse(received.message).map_err(|_| Reject::Malformed)?;
        let outcome = match message {
            NdpRepr::NeighbourSolicit { target, source_link, nonce } => {
                self.solicited(received, target, (source_link, nonce), now)
            }
            NdpRepr::NeighbourAdvert { target, router, solicited, overrides, target_link } => {
                let said = Advert { ip: target, mac: target_link, solicited, overrides };
                self.advertised(received, said, router, now)
            }
            NdpRepr::RouterSolicit { source_link } => {
                self.asked_for_router(received, source_link, now)
            }
            NdpRepr::RouterAdvert { advert, options } => {
                self.router(received, advert, options, now)
            }
            NdpRepr::Redirect { target, destination, target_link } => {
                self.redirected(received, (target, destination), target_link)
            }
            _ => Err(Reject::Malformed),
        };
        self.settle();
        outcome
    }

    /// RFC 4861 §7.1.1, §7.2.3, §7.2.4.
    fn solicited(
        &mut self,
        received: &Received<'_>,
        target: Ipv6Addr,
        (source_link, nonce): (Option<MacAddr>, Option<[u8; 6]>),
        now: u64,
    ) -> Result<Outcome, Reject> {
        let Received { src, dst, .. } = *received;
        let probe = src.is_unspecified();
        let impossible = probe && (!is_solicited_node(dst) || source_link.is_some());
        if target.is_multicast() || impossible || src.is_multicast() || bad_link(source_link) {
            return Err(Reject::Addresses);
        }
        if self.is_tentative(target) {
            return Err(self.contested(target, probe, nonce, now));
        }
        if !self.is_ours(target) {
            return Err(Reject::NotOurs);
        }
        if self.is_ours(src) {
            return Err(Reject::Conflict);
        }
        let known = self.cache.entries.is_used(src);
        if !self.answers.take(src.into(), known, now) {
            return Err(Reject::Limited);
        }
        let learned = match source_link.filter(|_| !probe) {
            Some(mac) => self.cache.introduce(src, mac, now),
            None => None,
        };
        let reply = Some(self.answer(src, target, source_link));
        Ok(Outcome { reply, learned, ..Outcome::default() })
    }

    /// RFC 4862 §5.4.3: a solicitation for an address that we are not sure of. One from the
    /// unspecified address is another's probe, unless it is our own that came back; any other asks
    /// for another node, and is ignored.
    fn contested(
        &mut self,
        target: Ipv6Addr,
        probe: bool,
        nonce: Option<[u8; 6]>,
        now: u64,
    ) -> Reject {
        if nonce.is_some() && nonce == self.addresses.nonce(target) {
            return Reject::Loop;
        }
        if !probe {
            return Reject::NotOurs;
        }
        self.give_up(target, now);
        Reject::Conflict
    }

    /// Gives a tentative address up, and tries another identifier where that can help.
    fn give_up(&mut self, target: Ipv6Addr, now: u64) {
        let stable = matches!(self.config.identifier, Identifier::Stable(_));
        let Some((what, lifetimes)) = self.addresses.collide(target, stable) else { return };
        let (cidr, origin, collisions) = what;
        let prefix = (cidr.addr().to_bits() >> 64) as u64;
        let iid = self.identifier(prefix, collisions);
        let again = match origin {
            AddrOrigin::LinkLocal => link_local(iid),
            _ => Prefix::new(with_iid(cidr.addr(), iid), 64),
        };
        if let Some(cidr) = again {
            self.claim((cidr, origin, collisions), lifetimes, now);
        }
    }

    /// RFC 4861 §7.2.4: a sender without an address is answered through the group of all nodes.
    fn answer(
        &mut self,
        src: Ipv6Addr,
        target: Ipv6Addr,
        source_link: Option<MacAddr>,
    ) -> Transmit {
        let probe = src.is_unspecified();
        let dst = if probe { ALL_NODES } else { src };
        let mac = match source_link {
            _ if probe => Some(multicast_mac(ALL_NODES)),
            Some(mac) => Some(mac),
            None => self.cache.entries.mac(src),
        };
        let message = NdpRepr::NeighbourAdvert {
            target,
            router: self.config.router,
            solicited: !probe,
            overrides: true,
            target_link: Some(self.mac),
        };
        Transmit { mac, src: target, dst, message }
    }

    /// RFC 4861 §7.1.2, §7.2.5.
    fn advertised(
        &mut self,
        received: &Received<'_>,
        said: Advert,
        router: bool,
        now: u64,
    ) -> Result<Outcome, Reject> {
        let group = received.dst.is_multicast();
        if said.ip.is_multicast() || group && said.solicited || bad_link(said.mac) {
            return Err(Reject::Addresses);
        }
        if self.addresses.get(said.ip).is_some() {
            // RFC 4862 §5.4.4: a tentative one is another's then; one in use is not given up.
            self.give_up(said.ip, now);
            return Err(Reject::Conflict);
        }
        let learned = match self.cache.advert(said, now) {
            AdvertResult::Unknown => return Err(Reject::NotOurs),
            AdvertResult::Ignored => return Ok(Outcome::default()),
            AdvertResult::Accepted(learned) => learned,
        };
        if !router {
            // RFC 4861 §7.2.5: "the node MUST remove that router from the Default Router List".
            self.routers.remove(said.ip);
        }
        Ok(Outcome { learned, ..Outcome::default() })
    }

    /// RFC 4861 §6.2.6: of a solicitation, a router only learns where its sender is.
    fn asked_for_router(
        &mut self,
        received: &Received<'_>,
        source_link: Option<MacAddr>,
        now: u64,
    ) -> Result<Outcome, Reject> {
        let src = received.src;
        if src.is_unspecified() && source_link.is_some()
            || src.is_multicast()
            || bad_link(source_link)
        {
            return Err(Reject::Addresses);
        }
        if !self.config.router {
            return Err(Reject::NotAccepted);
        }
        let learned = self.introduce(src, source_link, now);
        Ok(Outcome { learned, ..Outcome::default() })
    }

    fn introduce(&mut self, ip: Ipv6Addr, mac: Option<MacAddr>, now: u64) -> Option<Learned> {
        if ip.is_unspecified() || self.is_ours(ip) {
            return None;
        }
        self.cache.introduce(ip, mac?, now)
    }

    /// RFC 4861 §6.1.2, §6.3.4.
    fn router(
        &mut self,
        received: &Received<'_>,
        advert: RouterAdvert,
        options: NdpOptions<'_>,
        now: u64,
    ) -> Result<Outcome, Reject> {
        let (src, link) = (received.src, options.source_link());
        if !is_link_local(src) || bad_link(link) {
            return Err(Reject::Addresses);
        }
        if self.is_ours(src) {
            return Err(Reject::Conflict);
        }
        if !self.config.accept_ra || self.config.router {
            return Err(Reject::NotAccepted);
        }
        if !self.adverts.take(now) {
            return Err(Reject::Limited);
        }
        let until = now.saturating_add(u64::from(advert.lifetime) * SECOND);
        let mut fits = self.routers.note(src, advert.preference, until, now);
        if advert.lifetime > 0 {
            self.solicit.stop();
        }
        let low_hop_limit = self.tune(advert, options);
        for option in options.iter() {
            if let NdpOption::Prefix(info) = option {
                fits &= self.prefix(info, now);
            }
        }
        let learned = self.introduce(src, link, now);
        let outcome = Outcome { learned, low_hop_limit, ..Outcome::default() };
        if fits { Ok(outcome) } else { Err(Reject::Full) }
    }

    /// Takes over the link's parameters; parameters that the advertisement leaves open stay. A hop
    /// limit below the default is not taken over, and true is returned: one forged advertisement
    /// could otherwise have all our packets die a few hops away (CVE-2015-2922).
    fn tune(&mut self, advert: RouterAdvert, options: NdpOptions<'_>) -> bool {
        let mut params = self.params;
        let low = advert.hop_limit != 0 && advert.hop_limit < DEFAULT_HOP_LIMIT;
        if advert.hop_limit >= DEFAULT_HOP_LIMIT {
            params.hop_limit = advert.hop_limit;
        }
        let reachable = u64::from(advert.reachable) * MILLIS;
        // RFC 4861 §6.2.1: "no greater than 3,600,000 milliseconds (1 hour)".
        let sane = (SECOND..=3600 * SECOND).contains(&reachable);
        if sane && reachable != self.base_reachable {
            self.base_reachable = reachable;
            self.draw_reachable();
        }
        let retrans = u64::from(advert.retrans) * MILLIS;
        if (MIN_RETRANS..=60 * SECOND).contains(&retrans) {
            self.cache.retrans = retrans;
        }
        for option in options.iter() {
            // RFC 4861 §6.3.4: "as long as the value is between the minimum link MTU and the
            // maximum".
            if let NdpOption::Mtu(mtu) = option
                && (u32::from(MIN_MTU)..=self.config.mtu.into()).contains(&mtu)
            {
                params.mtu = mtu as u16;
            }
        }
        if params != self.params {
            self.params = params;
            self.note_change();
        }
        low
    }

    /// RFC 4861 §6.3.4 for prefixes of the link, RFC 4862 §5.5.3 for addresses; false if there is
    /// no room for it.
    fn prefix(&mut self, info: PrefixInfo, now: u64) -> bool {
        let Some(prefix) = Prefix::new(info.prefix, info.prefix_len) else { return true };
        if is_link_local(info.prefix) || info.prefix.is_multicast() {
            return true;
        }
        let ends = |seconds: u32| match seconds {
            u32::MAX => NEVER,
            _ => now.saturating_add(u64::from(seconds) * SECOND),
        };
        let (valid_until, preferred_until) = (ends(info.valid), ends(info.preferred));
        let mut fits = true;
        if info.on_link {
            let before = self.prefixes.iter().count();
            fits = self.prefixes.note(prefix.network(), valid_until, now);
            if self.prefixes.iter().count() != before {
                self.note_change();
            }
        }
        if info.autonomous && info.preferred <= info.valid {
            fits &= self.autoconf(prefix, Lifetimes { valid_until, preferred_until }, now);
        }
        fits
    }

    fn autoconf(&mut self, prefix: Cidr6, lifetimes: Lifetimes, now: u64) -> bool {
        if let Some(own) = self.addresses.of_prefix(prefix) {
            self.addresses.renew(own.cidr.addr(), lifetimes, now);
            return true;
        }
        // RFC 4862 §5.5.3(d): prefix and identifier have to make 128 bits.
        if lifetimes.valid_until <= now || prefix.prefix_len() != 64 {
            return true;
        }
        let network = prefix.network().addr();
        let iid = self.identifier((network.to_bits() >> 64) as u64, 0);
        let Some(cidr) = Prefix::new(with_iid(network, iid), 64) else { return true };
        let there = self.addresses.get(cidr.addr()).is_some();
        there || self.claim((cidr, AddrOrigin::Autoconf, 0), lifetimes, now)
    }

    /// RFC 4861 §8.1: only from the first hop of the destination, and to a neighbour.
    fn redirected(
        &mut self,
        received: &Received<'_>,
        (target, destination): (Ipv6Addr, Ipv6Addr),
        target_link: Option<MacAddr>,
    ) -> Result<Outcome, Reject> {
        let near = is_link_local(target) || target == destination;
        if !is_link_local(received.src)
            || destination.is_multicast()
            || !near
            || bad_link(target_link)
        {
            return Err(Reject::Addresses);
        }
        if self.config.router {
            return Err(Reject::NotAccepted);
        }
        if !self.routers.contains(received.src) {
            return Err(Reject::NotOurs);
        }
        // It is counted and not followed, so it must not teach us a link address either.
        Ok(Outcome { redirect: Some((destination, target)), ..Outcome::default() })
    }
}

/// A group, or no station at all, as the link address of a neighbour.
fn bad_link(mac: Option<MacAddr>) -> bool {
    mac.is_some_and(|mac| !mac.is_unicast())
}
