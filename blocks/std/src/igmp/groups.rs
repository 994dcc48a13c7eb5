//! What a host's interfaces listen to.

use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weever_blocks_api::Nanos;
use weever_net::group::{Config, Filter, GroupError, Memberships, Version};
use weever_net::iface::{IfaceId, Interface};
use weever_net::state::NetState;

use crate::host::Secret;

/// The user of every group that the host's network names.
const HOST: u64 = 0;

/// One interface's.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) iface: IfaceId,
    pub(super) groups: Memberships<Ipv4Addr>,
}

/// Group memberships, interface by interface. Blocks find it in their
/// [`Env`](weever_blocks_api::Env); the timer's block follows the host's network.
#[derive(Debug, Default)]
pub struct Groups(Mutex<Inner>);

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub(super) list: Vec<Own>,
    /// The generation of the network that the list is of.
    seen: u64,
}

/// What one interface listens to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The interface.
    pub iface: IfaceId,
    /// The protocol version that it speaks.
    pub version: Version,
    /// The groups, ascending, and which sources of them.
    pub groups: Vec<(Ipv4Addr, Filter<Ipv4Addr>)>,
}

impl Groups {
    /// Says which sources `user` wants to hear of a group on an interface, beside what the host's
    /// network joins; [`Filter::none`] takes it back. `user` is not 0.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn set(
        &self,
        iface: IfaceId,
        user: u64,
        group: Ipv4Addr,
        filter: Filter<Ipv4Addr>,
        now: Nanos,
    ) -> Result<(), GroupError> {
        let mut inner = self.lock();
        inner.of(iface, 0).set(user.max(1), group, filter, now)
    }

    /// What each interface listens to.
    pub fn listed(&self, now: Nanos) -> Vec<Listening> {
        let inner = self.lock();
        let one = |own: &Own| {
            let groups = own.groups.groups().map(|(group, filter)| (group, filter.clone()));
            let (iface, version) = (own.iface, own.groups.version(now));
            Listening { iface, version, groups: groups.collect() }
        };
        inner.list.iter().map(one).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The memberships of an interface, which begin here if there are none.
    pub(super) fn of(&mut self, iface: IfaceId, seed: u64) -> &mut Memberships<Ipv4Addr> {
        let at = match self.list.iter().position(|own| own.iface == iface) {
            Some(at) => at,
            None => {
                let seed = seed ^ u64::from(iface.0) << 48;
                let groups = Memberships::new(Config { seed, ..Config::default() });
                self.list.push(Own { iface, groups });
                self.list.len() - 1
            }
        };
        &mut self.list[at].groups
    }

    /// Joins and leaves as the network says, if it has changed.
    pub(super) fn follow(&mut self, state: &NetState, secret: Secret, now: Nanos) {
        if state.generation() == self.seen {
            return;
        }
        self.seen = state.generation();
        let up: Vec<&Interface> = state.config().interfaces().iter().filter(|i| i.up).collect();
        self.list.retain(|own| up.iter().any(|iface| iface.id == own.iface));
        for iface in up {
            // More groups than are listened to at a time stay unreported.
            let _ = self.of(iface.id, secret.0).set_all(HOST, &iface.groups, now);
        }
    }
}
