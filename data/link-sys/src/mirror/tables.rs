//! The state told last, so that only differences are told.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::event::{Address, Event, LinkState, Neighbour, Route, RouteKey};
use super::message::Fact;

/// Entries a table holds; the kernel's own bounds are lower, except for routes.
const MOST: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Tables {
    links: BTreeMap<u32, LinkState>,
    addresses: BTreeMap<(u32, IpAddr, u8), Address>,
    routes: BTreeMap<RouteKey, Route>,
    neighbours: BTreeMap<(u32, IpAddr), Neighbour>,
}

impl Tables {
    /// Whether a fact about a link is news.
    pub(super) fn would_change(&self, fact: &Fact) -> bool {
        match fact.event() {
            Event::Link(link) => self.links.get(&link.interface) != Some(link),
            Event::LinkGone(link) => self.links.contains_key(&link.interface),
            _ => true,
        }
    }

    /// Takes a fact over and tells it if it is news. `replaces`: a route takes the place of those
    /// to the same network with the same metric, which go without a word.
    pub(super) fn apply(&mut self, fact: Fact, replaces: bool, tell: &mut impl FnMut(Event)) {
        match fact {
            Fact::Is(event) => self.insert(event, replaces, tell),
            Fact::Gone(event) => self.remove(event, tell),
        }
    }

    fn insert(&mut self, event: Event, replaces: bool, tell: &mut impl FnMut(Event)) {
        let news = match &event {
            Event::Link(link) => put(&mut self.links, link.interface, link),
            Event::Address(a) => put(&mut self.addresses, (a.interface, a.address, a.prefix), a),
            Event::Neighbour(n) => put(&mut self.neighbours, (n.interface, n.address), n),
            Event::Route(route) => {
                if replaces {
                    self.replaced_by(route, tell);
                }
                put(&mut self.routes, route.key(), route)
            }
            _ => false,
        };
        if news {
            tell(event);
        }
    }

    fn replaced_by(&mut self, new: &Route, tell: &mut impl FnMut(Event)) {
        let same = |old: &Route| {
            (old.network, old.prefix, old.metric) == (new.network, new.prefix, new.metric)
        };
        let gone = self.routes.extract_if(.., |key, old| same(old) && *key != new.key());
        gone.for_each(|(_, old)| tell(Event::RouteGone(old)));
    }

    /// Tells the known object, not the kernel's farewell message, which may lack fields.
    fn remove(&mut self, event: Event, tell: &mut impl FnMut(Event)) {
        let told = match event {
            Event::LinkGone(link) => self.links.remove(&link.interface).map(Event::LinkGone),
            Event::AddressGone(a) => {
                self.addresses.remove(&(a.interface, a.address, a.prefix)).map(Event::AddressGone)
            }
            Event::NeighbourGone(n) => {
                self.neighbours.remove(&(n.interface, n.address)).map(Event::NeighbourGone)
            }
            Event::RouteGone(route) => self.routes.remove(&route.key()).map(Event::RouteGone),
            _ => None,
        };
        if let Some(event) = told {
            tell(event);
        }
    }

    /// Takes over a fresh reading and tells the differences: gone objects from the neighbours to
    /// the links, then existing ones from the links to the neighbours.
    pub(super) fn become_and_tell(&mut self, now: Tables, tell: &mut impl FnMut(Event)) {
        let old = std::mem::replace(self, now);
        gone(old.neighbours.iter(), &self.neighbours, |n| tell(Event::NeighbourGone(n)));
        gone(old.routes.iter(), &self.routes, |r| tell(Event::RouteGone(r)));
        gone(old.addresses.iter(), &self.addresses, |a| tell(Event::AddressGone(a)));
        gone(old.links.iter(), &self.links, |l| tell(Event::LinkGone(l)));
        new(&old.links, &self.links, |l| tell(Event::Link(l)));
        new(&old.addresses, &self.addresses, |a| tell(Event::Address(a)));
        new(&old.routes, &self.routes, |r| tell(Event::Route(r)));
        new(&old.neighbours, &self.neighbours, |n| tell(Event::Neighbour(n)));
    }
}

/// Puts a value in and says whether that changed anything.
fn put<K: Ord, V: Clone + PartialEq>(table: &mut BTreeMap<K, V>, key: K, value: &V) -> bool {
    if table.get(&key) == Some(value) || table.len() >= MOST && !table.contains_key(&key) {
        return false;
    }
    table.insert(key, value.clone());
    true
}

fn gone<'a, K: Ord + 'a, V: Clone + 'a>(
    old: impl Iterator<Item = (&'a K, &'a V)>,
    now: &BTreeMap<K, V>,
    mut tell: impl FnMut(V),
) {
    old.filter(|(key, _)| !now.contains_key(key)).for_each(|(_, value)| tell(value.clone()));
}

fn new<K: Ord, V: Clone + PartialEq>(
    old: &BTreeMap<K, V>,
    now: &BTreeMap<K, V>,
    mut tell: impl FnMut(V),
) {
    let changed = now.iter().filter(|(key, value)| old.get(key) != Some(value));
    changed.for_each(|(_, value)| tell(value.clone()));
}
