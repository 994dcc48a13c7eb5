//! The clients of a host, and the effect of a lease on its network.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use weever_block::Nanos;
use weever_net::dhcp4::{Client, ClientConfig, GatewayRoute, Lease, Probing, State};
use weever_net::iface::IfaceId;
use weever_net::random::Random;
use weever_net::route::{Origin, Route, Way};
use weever_net::state::NetConfig;
use weever_wire::MacAddr;

use crate::host::Secret;

/// The status of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its interface.
    pub iface: IfaceId,
    /// Where it stands.
    pub state: State,
    /// Its lease, if there is one.
    pub lease: Option<Lease>,
}

/// One interface's client.
#[derive(Debug)]
pub(crate) struct Own {
    pub(super) iface: IfaceId,
    /// `None` until the timer has run.
    pub(super) client: Option<Client>,
    probing: Probing,
    /// An operator's request since the timer's last run.
    wish: Option<Wish>,
    /// Started again before it had ended.
    again: Option<Probing>,
    /// The lease's changes to the interface, for whoever makes them.
    pub(super) applied: Arc<Mutex<Option<Applied>>>,
    contested: Contested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Restart,
    Stop,
}

/// An address that is being probed on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    pub(super) iface: u16,
    pub(super) ip: Ipv4Addr,
    /// The interface's own.
    pub(super) mac: MacAddr,
    pub(super) contested: Contested,
}

/// The probed address of a client that another station has or probes, from workers to the timer, which takes it at its
/// next look. One that comes late, when the client probes another address, changes nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Contested(Arc<AtomicU32>);

impl Contested {
    /// Does not wait.
    pub(super) fn note(&self, ip: Ipv4Addr) {
        self.0.store(ip.to_bits(), Ordering::Relaxed);
    }

    /// 0.0.0.0 is never probed.
    fn take(&self) -> Option<Ipv4Addr> {
        let bits = self.0.swap(0, Ordering::Relaxed);
        (bits != 0).then(|| Ipv4Addr::from_bits(bits))
    }
}

/// Whether they are of one client.
impl PartialEq for Contested {
    fn eq(&self, other: &Contested) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Contested {}

/// The DHCP clients of a host, one per interface at most. Blocks find it in their
/// [`Env`](weever_block::Env). Requests made here are carried out at the next run of the graph's
/// timer, within milliseconds.
#[derive(Debug, Default)]
pub struct Dhcp {
    clients: Mutex<Vec<Own>>,
    /// Whether there are any: the only check of a timer that has nothing to do.
    active: AtomicBool,
    watched: Arc<ArcSwap<Vec<Watched>>>,
    /// The transactions of the clients, for a check without the lock: a sender that does not know
    /// one cannot make a worker take the lock.
    open: Arc<ArcSwap<Vec<Transaction>>>,
}

/// An interface, and the transaction that its client has open.
pub(super) type Transaction = (u16, u32);

impl Dhcp {
    /// Has `iface` configured by DHCP, its offered address probed in this way. Nothing happens if a
    /// client is at work there; one that is to stop does so first.
    pub fn start(&self, iface: IfaceId, probing: Probing) {
        let mut clients = self.lock();
        match clients.iter_mut().find(|own| own.iface == iface) {
            Some(own) if own.is_ending() => own.again = Some(probing),
            Some(_) => {}
            None => {
                let (client, wish, again) = (None, None, None);
                let (applied, contested) = (Arc::default(), Contested::default());
                clients.push(Own { iface, client, probing, wish, again, applied, contested });
            }
        }
        self.active.store(true, Ordering::Release);
    }

    /// Has the lease given back, its address taken away, and the client of `iface` end.
    pub fn stop(&self, iface: IfaceId) {
        self.wish(iface, Wish::Stop);
    }

    /// Has the lease of `iface` confirmed, as after its link came back.
    pub fn restart(&self, iface: IfaceId) {
        self.wish(iface, Wish::Restart);
    }

    /// Where each client stands.
    pub fn status(&self) -> Vec<Status> {
        let state = |own: &Own| own.client.as_ref().map_or(State::Init, Client::state);
        let lease = |own: &Own| own.client.as_ref().and_then(Client::lease).cloned();
        let clients = self.lock();
        clients
            .iter()
            .map(|own| Status { iface: own.iface, state: state(own), lease: lease(own) })
            .collect()
    }

    fn wish(&self, iface: IfaceId, wish: Wish) {
        if let Some(own) = self.lock().iter_mut().find(|own| own.iface == iface) {
            match wish {
                Wish::Stop => (own.wish, own.again) = (Some(wish), None),
                // A client that is stopping goes on stopping; a restart makes a new one.
                Wish::Restart if own.is_ending() => {}
                Wish::Restart => own.wish = Some(wish),
            }
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Own>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`lock`](Self::lock), for workers; `None` while somebody else has it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Vec<Own>>> {
        match self.clients.try_lock() {
            Ok(clients) => Some(clients),
            Err(TryLockError::Poisoned(clients)) => Some(clients.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A reader of the transactions that are open.
    pub(super) fn open(
        &self,
    ) -> arc_swap::Cache<Arc<ArcSwap<Vec<Transaction>>>, Arc<Vec<Transaction>>> {
        arc_swap::Cache::new(Arc::clone(&self.open))
    }

    /// A reader of the addresses that are being probed.
    pub(super) fn watched(&self) -> arc_swap::Cache<Arc<ArcSwap<Vec<Watched>>>, Arc<Vec<Watched>>> {
        arc_swap::Cache::new(Arc::clone(&self.watched))
    }

    /// Publishes the addresses being probed and the transactions, if they have changed, and forgets
    /// clients that have ended.
    pub(super) fn publish(
        &self,
        clients: &mut Vec<Own>,
        mac_of: impl Fn(IfaceId) -> Option<MacAddr>,
    ) {
        let probed = |own: &Own| {
            let ip = own.client.as_ref()?.probed()?;
            let (iface, mac) = (own.iface.0, mac_of(own.iface)?);
            Some(Watched { iface, ip, mac, contested: own.contested.clone() })
        };
        let now: Vec<Watched> = clients.iter().filter_map(probed).collect();
        if **self.watched.load() != now {
            self.watched.store(Arc::new(now));
        }
        let open = |own: &Own| Some((own.iface.0, own.client.as_ref()?.transaction()));
        let open: Vec<Transaction> = clients.iter().filter_map(open).collect();
        if **self.open.load() != open {
            self.open.store(Arc::new(open));
        }
        clients.retain_mut(|own| !own.has_ended() || own.begin_again());
        self.active.store(!clients.is_empty(), Ordering::Release);
    }
}

impl Own {
    /// The client, made if it is new, after a conflict and the operator's request were dealt with.
    pub(super) fn ready(&mut self, mac: MacAddr, secret: Secret, now: Nanos) -> &mut Client {
        let [a, b] = secret.key("dhcp client");
        let random = Random::keyed([a ^ now, b ^ u64::from(self.iface.0)]);
        let config = ClientConfig { mac, random, probing: self.probing };
        let client = self.client.get_or_insert_with(|| Client::new(config, now));
        if let Some(ip) = self.contested.take() {
            client.conflict(ip, now);
        }
        match self.wish.take() {
            Some(Wish::Stop) => client.release(now),
            Some(Wish::Restart) => client.restart(now),
            None => {}
        }
        client
    }

    fn is_ending(&self) -> bool {
        let stopped = |client: &Client| client.state() == State::Stopped;
        self.wish == Some(Wish::Stop) || self.client.as_ref().is_some_and(stopped)
    }

    /// Whether one that has ended was started again meanwhile.
    fn begin_again(&mut self) -> bool {
        let Some(probing) = self.again.take() else { return false };
        (self.client, self.probing) = (None, probing);
        true
    }

    fn has_ended(&self) -> bool {
        let ended =
            |client: &Client| client.state() == State::Stopped && client.poll_at().is_none();
        self.client.as_ref().is_some_and(ended)
    }
}

/// Routes of operators without a metric of their own come first.
const METRIC: u32 = 100;

/// The changes that a lease made to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    /// Whether the address is there because of the lease, and not because of an operator.
    added: bool,
    /// The interface's own MTU.
    full: u16,
    /// The value set. A different one found later is an operator's.
    set: u16,
}

/// Applies the lease, in place of its earlier contents.
pub(super) fn bind(
    net: &mut NetConfig,
    iface: IfaceId,
    lease: &Lease,
    applied: &Mutex<Option<Applied>>,
) {
    let mut applied = applied.lock().unwrap_or_else(PoisonError::into_inner);
    let before = applied.take();
    let Some(old) = net.interface(iface).map(|iface| iface.mtu) else { return };
    net.remove_routes_of(iface, Origin::Dhcp);
    let added = address(net, iface, lease, before.is_some_and(|before| before.added));
    let full = before.filter(|b| b.set == old).map_or(old, |before| before.full);
    let set = lease.mtu.map_or(full, |said| said.min(full));
    let _ = net.set_mtu(iface, set);
    routes(net, iface, lease);
    *applied = Some(Applied { added, full, set });
}

/// Gives the interface the lease's address, in place of the same one with another prefix if that
/// was an earlier lease's; whether the address is the lease's.
fn address(net: &mut NetConfig, iface: IfaceId, lease: &Lease, added: bool) -> bool {
    let wanted = lease.address;
    let held = net.interface(iface).and_then(|i| i.v4.iter().find(|c| c.addr() == wanted.addr()));
    match held {
        Some(held) if !added || held == wanted => return added,
        Some(_) => drop(net.remove_address(iface, wanted.addr())),
        None => {}
    }
    // Taken by an operator on another interface: then that is how it is.
    net.add_address(iface, wanted).is_ok()
}

/// Removes everything that the lease gave.
pub(super) fn unbind(
    net: &mut NetConfig,
    iface: IfaceId,
    lease: &Lease,
    applied: &Mutex<Option<Applied>>,
) {
    let applied = applied.lock().unwrap_or_else(PoisonError::into_inner).take();
    net.remove_routes_of(iface, Origin::Dhcp);
    if applied.is_some_and(|applied| applied.added) {
        let _ = net.remove_address(iface, lease.address.addr());
    }
    let now = net.interface(iface).map(|iface| iface.mtu);
    if let Some(applied) = applied.filter(|applied| Some(applied.set) == now) {
        let _ = net.set_mtu(iface, applied.full);
    }
}

/// Each that the network takes: a server may send routes that contradict others. Routes on the link
/// come first, since gateways may be there.
fn routes(net: &mut NetConfig, iface: IfaceId, lease: &Lease) {
    let on_link = |route: &&GatewayRoute| route.gateway.is_unspecified();
    let (near, far): (Vec<&GatewayRoute>, Vec<_>) = lease.routes.iter().partition(on_link);
    for route in near.into_iter().chain(far) {
        let way = match route.gateway.is_unspecified() {
            true => Way::OnLink,
            false => Way::Via(route.gateway),
        };
        let route = Route::new(route.to, way).by(iface).with_metric(METRIC).from(Origin::Dhcp);
        let _ = net.add_route(route);
    }
}
