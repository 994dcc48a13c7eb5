//! The group memberships of a host's interfaces, of either family: the blocks of IGMP and MLD keep them
//! and report them to routers.

pub(crate) mod timer;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use weever_block::Nanos;
use weever_net::group::{Filter, GroupError, MembershipConfig, Memberships, Version};
use weever_net::iface::{IfaceId, Interface};
use weever_net::random::{Key, Random};
use weever_net::state::{Family, NetConfig, NetState};

use crate::host::Network;

/// The user of every group that the host's network names.
const HOST: u64 = 0;

/// One interface's.
#[derive(Debug)]
pub(crate) struct Own<A> {
    pub(crate) iface: IfaceId,
    pub(crate) groups: Memberships<A>,
    /// How often the interface had gone down when it was last seen up.
    downs: Option<u32>,
}

/// Group memberships of one family, interface by interface. Blocks find it in their
/// [`Env`](weever_block::Env); the timer's block follows the host's network.
#[derive(Debug)]
pub struct GroupsOf<A>(Mutex<Inner<A>>);

/// IPv4 groups.
pub type Groups = GroupsOf<Ipv4Addr>;
/// IPv6 groups.
pub type Groups6 = GroupsOf<Ipv6Addr>;

impl<A> Default for GroupsOf<A> {
    fn default() -> Self {
        Self(Mutex::new(Inner { list: Vec::new(), seen: 0, changed: false, key: [0; 2] }))
    }
}

#[derive(Debug)]
pub(crate) struct Inner<A> {
    pub(crate) list: Vec<Own<A>>,
    /// The generation of the network that the list is of.
    seen: u64,
    /// Whether users may want something else than the network was told.
    changed: bool,
    /// For the random delays of reports.
    pub(crate) key: Key,
}

/// The memberships of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening<A> {
    /// The interface.
    pub iface: IfaceId,
    /// The protocol version that it speaks.
    pub version: Version,
    /// The groups, ascending, and which sources of them.
    pub groups: Vec<(A, Filter<A>)>,
}

impl<A: Family> GroupsOf<A> {
    /// Sets the sources that `user` wants to hear of a group on an interface, beside the groups
    /// that the host's network joins; [`Filter::none`] takes it back. `user` is not 0. Heard from
    /// one of the timer's next runs on.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn set(
        &self,
        iface: IfaceId,
        user: u64,
        group: A,
        filter: Filter<A>,
        now: Nanos,
    ) -> Result<(), GroupError> {
        let mut inner = self.lock();
        inner.of(iface).groups.set(user.max(1), group, filter, now)?;
        inner.changed = true;
        Ok(())
    }

    /// The memberships of each interface.
    pub fn listed(&self, now: Nanos) -> Vec<Listening<A>> {
        let inner = self.lock();
        let one = |own: &Own<A>| {
            let groups = own.groups.groups().map(|(group, filter)| (group, filter.clone()));
            let (iface, version) = (own.iface, own.groups.version(now));
            Listening { iface, version, groups: groups.collect() }
        };
        inner.list.iter().map(one).collect()
    }

    /// As [`lock`](Self::lock), for workers; `None` while somebody else has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Inner<A>>> {
        match self.0.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(inner)) => Some(inner.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Family> Inner<A> {
    /// The memberships of an interface; `None`: it has joined no group, so there is nothing to
    /// report.
    pub(crate) fn at(&mut self, iface: u16) -> Option<&mut Memberships<A>> {
        let own = self.list.iter_mut().find(|own| own.iface == IfaceId(iface));
        own.map(|own| &mut own.groups)
    }

    /// The memberships of an interface, which begin here if there are none.
    fn of(&mut self, iface: IfaceId) -> &mut Own<A> {
        let at = match self.list.iter().position(|own| own.iface == iface) {
            Some(at) => at,
            None => {
                let [a, b] = self.key;
                let random = Random::keyed([a, b ^ u64::from(iface.0)]);
                let groups =
                    Memberships::new(MembershipConfig { random, ..MembershipConfig::default() });
                self.list.push(Own { iface, groups, downs: None });
                self.list.len() - 1
            }
        };
        &mut self.list[at]
    }
}

impl<A: InterfaceGroups> Inner<A> {
    /// Joins and leaves as the network says, if it has changed. Users' filters outlive an
    /// interface's being down; then routers and switches have yet to hear of it.
    pub(crate) fn follow(&mut self, state: &NetState, now: Nanos) {
        if state.generation() == self.seen {
            return;
        }
        (self.seen, self.changed) = (state.generation(), true);
        let interfaces = state.config().interfaces();
        self.list.retain(|own| interfaces.iter().any(|iface| iface.id == own.iface));
        for iface in interfaces.iter().filter(|iface| iface.up) {
            let own = self.of(iface.id);
            if own.downs.replace(iface.downs).is_some_and(|downs| downs != iface.downs) {
                own.groups.restart(now);
            }
            // More groups than are listened to at a time stay unreported.
            let _ = own.groups.set_all(HOST, &A::wanted(iface), now);
        }
    }

    /// Reports the users' filters to the host's network, if they differ from its own; at the next call, if somebody
    /// else changes the network now.
    pub(crate) fn publish(&mut self, host: &Network) {
        if !self.changed {
            return;
        }
        // Most changes of the network are of something else.
        let state = host.state();
        let news: Vec<_> = self.unpublished(state.config()).collect();
        if news.is_empty() {
            self.changed = false;
            return;
        }
        let Some(mut changes) = host.try_changes() else { return };
        // If the network changes meanwhile, that is followed, and compared once more.
        self.changed = false;
        changes.ask(move |net| {
            for (iface, filters) in news {
                // An interface that went meanwhile needs none.
                let _ = net.set_filters(iface, filters);
            }
        });
    }

    /// The filters, by interface, that differ from the network's.
    fn unpublished<'a>(
        &'a self,
        net: &'a NetConfig,
    ) -> impl Iterator<Item = (IfaceId, Vec<(A, Filter<A>)>)> + 'a {
        let both = net.interfaces().iter().map(|iface| (iface, self.filters(iface)));
        let news = both.filter(|(iface, filters)| *filters != A::groups(iface).filters);
        news.map(|(iface, filters)| (iface.id, filters))
    }

    fn filters(&self, iface: &Interface) -> Vec<(A, Filter<A>)> {
        let own = self.list.iter().filter(|own| own.iface == iface.id);
        let groups = own.flat_map(|own| own.groups.groups());
        let beside = groups.filter(|(group, _)| !A::is_joined(iface, *group));
        beside.map(|(group, filter)| (group, filter.clone())).collect()
    }
}

/// A family whose groups an interface may be in.
pub(crate) trait InterfaceGroups: Family + Send + 'static {
    /// The groups that the network has joined for all sources.
    fn wanted(iface: &Interface) -> Vec<Self>;
    /// Whether a group is one of them.
    fn is_joined(iface: &Interface, group: Self) -> bool;
    /// The address that reports come from.
    fn source(iface: &Interface) -> Self;
}

impl InterfaceGroups for Ipv4Addr {
    fn wanted(iface: &Interface) -> Vec<Ipv4Addr> {
        iface.groups4.joined.clone()
    }

    fn is_joined(iface: &Interface, group: Self) -> bool {
        iface.groups4.joined.binary_search(&group).is_ok()
    }

    /// RFC 3376 §4.2.13: 0.0.0.0 while there is no address yet.
    fn source(iface: &Interface) -> Ipv4Addr {
        iface.v4.iter().next().map_or(Ipv4Addr::UNSPECIFIED, |cidr| cidr.addr())
    }
}

impl InterfaceGroups for Ipv6Addr {
    /// The joined groups, and those in which neighbours ask for our addresses, tentative ones too
    /// (RFC 4862 §5.4.2). Borrowed addresses are the kernel's to report.
    fn wanted(iface: &Interface) -> Vec<Ipv6Addr> {
        if !iface.v6_settings.enabled || iface.borrowed {
            return Vec::new();
        }
        let mut all = iface.v6.groups();
        all.extend(&iface.groups6.joined);
        all.sort_unstable();
        all.dedup();
        all
    }

    fn is_joined(iface: &Interface, group: Self) -> bool {
        iface.groups6.joined.binary_search(&group).is_ok() || iface.v6.in_solicited_node(group)
    }

    /// RFC 3810 §5.2.13: the unspecified address while there is no link-local one yet.
    fn source(iface: &Interface) -> Ipv6Addr {
        iface.v6.link_local().unwrap_or(Ipv6Addr::UNSPECIFIED)
    }
}
