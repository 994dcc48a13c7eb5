//! Ports that applications bind where the addresses are the kernel's.
//!
//! Three things keep the kernel from answering for a port: a kernel socket that is bound to it on each of the devices'
//! addresses and never used, so that no program of the kernel's gets it; the steering program, which takes its packets;
//! and the lease of that program, which drops them while no stack runs. The reservation comes first and goes last.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use socket2::{Domain, Protocol, Socket, Type};
use weever_app_server::{PortKeeper, TransportPort};
use weever_device::name_of;
use weever_link_sys::af_xdp::{Port, Steering};

use super::holders::{names, sockets_on};

/// The most ports that are kept from the kernel for connections alone, each with a socket on each address.
const MOST_LEFT: usize = 128;

/// A device whose addresses are the kernel's.
#[derive(Clone, Debug)]
pub(in crate::stack) struct SharedDevice {
    /// Its index.
    pub(in crate::stack) device: u32,
    pub(in crate::stack) steering: Arc<Steering>,
}

/// The ports of applications. Clones are of the same.
#[derive(Clone)]
pub(in crate::stack) struct ApplicationPorts(Arc<Inner>);

struct Inner {
    devices: Vec<SharedDevice>,
    /// How long ports stay closed to the kernel without a stack.
    keep: Duration,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reserved: BTreeMap<TransportPort, Reservation>,
    /// The stack ends: ports stay as they are.
    ends: bool,
    /// Ports of the stack before were given up.
    settled: bool,
}

/// What keeps the kernel's programs from a port.
enum Reservation {
    /// A socket of the application's own.
    Own,
    /// Sockets that do nothing, by their address.
    Sockets(BTreeMap<SocketAddr, Socket>),
    /// Such that let programs bind the port with `SO_REUSEADDR`: only connections need it.
    Left(BTreeMap<SocketAddr, Socket>),
}

impl ApplicationPorts {
    pub(in crate::stack) fn new(devices: Vec<SharedDevice>, keep: Duration) -> ApplicationPorts {
        let state = Mutex::default();
        let ports =
            ApplicationPorts(Arc::new(Inner { devices, keep, started: Instant::now(), state }));
        ports.extend_lease();
        ports.each("listed", tell_held);
        ports
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves the ports on addresses that the kernel has got, and forgets those that it has given up.
    pub(in crate::stack) fn follow_addresses(&self) {
        self.reserve_again(|port, address, error| {
            tracing::warn!(%port, %address, "it is not reserved: {error}; it is tried again");
        });
    }

    fn reserve_again(&self, failed: impl Fn(&TransportPort, &SocketAddr, io::Error)) {
        if self.state().reserved.is_empty() {
            return;
        }
        let addresses = self.addresses();
        for (port, reservation) in &mut self.state().reserved {
            let (sockets, left) = match reservation {
                Reservation::Own => continue,
                Reservation::Sockets(sockets) => (sockets, false),
                Reservation::Left(sockets) => (sockets, true),
            };
            sockets.retain(|address, _| addresses.contains(address));
            for address in &addresses {
                if sockets.contains_key(address) {
                    continue;
                }
                match reserve(*port, *address, left) {
                    Ok(socket) => drop(sockets.insert(*address, socket)),
                    // The application has its own socket still, or a program has bound the port with `SO_REUSEADDR`.
                    Err(_) if left => {}
                    Err(error) => failed(port, address, error),
                }
            }
        }
    }

    /// To be called every second: while this is not done, the lease ends.
    pub(in crate::stack) fn tend(&self) {
        self.extend_lease();
        // Of addresses on which a program had a port for a moment.
        self.reserve_again(|_, _, _| {});
        let mut state = self.state();
        if !state.settled && self.0.started.elapsed() >= self.0.keep {
            state.settled = true;
            self.each("given up", give_up);
        }
    }

    /// The stack ends: nothing is given back from now on, and the lease runs.
    pub(in crate::stack) fn end(&self) {
        let mut state = self.state();
        state.ends = !self.0.keep.is_zero();
        let kept: Vec<String> = state.reserved.keys().map(ToString::to_string).collect();
        if state.ends && !kept.is_empty() {
            let (ports, seconds) = (kept.join(", "), self.0.keep.as_secs());
            tracing::info!(seconds, "closed to the kernel for now: {ports}; see `weever release`");
        }
        drop(state);
        self.extend_lease();
    }

    fn extend_lease(&self) {
        if !self.0.keep.is_zero() {
            self.each("kept", |steering| {
                let ports = steering.ports().map_err(|error| error.to_string())?;
                ports.extend_lease(self.0.keep).map_err(|error| error.to_string())
            });
        }
    }

    fn each(&self, what: &str, act: impl Fn(&Steering) -> Result<(), String>) {
        for there in &self.0.devices {
            if let Err(error) = act(&there.steering) {
                let device = name_of(there.device).unwrap_or_default();
                tracing::warn!(device, "ports cannot be {what}: {error}");
            }
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let devices = self.0.devices.iter().filter_map(|there| name_of(there.device));
        addresses_of(&devices.collect::<Vec<_>>())
    }
}

/// The ports that the stack before had, and that no application has bound since.
fn held(steering: &Steering) -> Result<Vec<Port>, String> {
    steering.ports().and_then(|ports| ports.held()).map_err(|error| error.to_string())
}

/// Logs how many ports the stack before had.
fn tell_held(steering: &Steering) -> Result<(), String> {
    let ports = held(steering)?.len();
    if ports > 0 {
        tracing::info!(ports, "ports of the stack before stay closed until applications bind them");
    }
    Ok(())
}

/// Leaves the ports of the stack before to the kernel, if no application has bound them.
fn give_up(steering: &Steering) -> Result<(), String> {
    for port in held(steering)? {
        steering.remove_port(port).map_err(|error| error.to_string())?;
        let Port { protocol, port } = port;
        tracing::info!(
            protocol,
            port,
            "no application has bound the port again: it is the kernel's"
        );
    }
    Ok(())
}

/// The kernel's addresses on devices, with port 0.
pub(in crate::stack) fn addresses_of(devices: &[String]) -> Vec<SocketAddr> {
    let all = getifaddrs().into_iter().flatten();
    let here = all.filter(|there| devices.contains(&there.interface_name));
    let address = |storage: nix::sys::socket::SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::from((v4.ip(), 0)));
        let v6 = storage.as_sockaddr_in6();
        v4.or_else(|| v6.map(|v6| SocketAddrV6::new(v6.ip(), 0, 0, v6.scope_id()).into()))
    };
    here.filter_map(|there| address(there.address?)).collect()
}

/// A kernel socket that has the port and does nothing with it; with `left`, programs may bind it with `SO_REUSEADDR`.
fn reserve(port: TransportPort, mut address: SocketAddr, left: bool) -> io::Result<Socket> {
    let (kind, protocol) = match port.stream {
        true => (Type::STREAM, Protocol::TCP),
        false => (Type::DGRAM, Protocol::UDP),
    };
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    match address.ip() {
        IpAddr::V4(_) => socket.set_freebind_v4(true)?,
        // The address may be tentative.
        IpAddr::V6(_) => {
            socket.set_only_v6(true)?;
            socket.set_freebind_v6(true)?;
        }
    }
    socket.set_reuse_address(left)?;
    address.set_port(port.port);
    socket.bind(&address.into())?;
    if !port.stream {
        // What comes by other devices is never read.
        socket.set_recv_buffer_size(1)?;
    }
    Ok(socket)
}

impl PortKeeper for ApplicationPorts {
    fn reserve(&mut self, port: TransportPort, own: Option<u32>) -> Result<(), String> {
        let there = sockets_on(port.stream, port.port..=port.port);
        let is_own = own.is_some_and(|user| {
            !there.is_empty() && there.iter().all(|socket| user == 0 || socket.user == user)
        });
        let mut state = self.state();
        if is_own {
            state.reserved.insert(port, Reservation::Own);
            return Ok(());
        }
        match state.reserved.get(&port) {
            Some(Reservation::Sockets(_)) => return Ok(()),
            // Closes its sockets.
            Some(Reservation::Left(_)) => drop(state.reserved.remove(&port)),
            Some(Reservation::Own) | None => {}
        }
        let (mut sockets, mut has_own) = (BTreeMap::new(), false);
        for address in self.addresses() {
            match reserve(port, address, false) {
                Ok(socket) => drop(sockets.insert(address, socket)),
                Err(error) if error.kind() != ErrorKind::AddrInUse => {
                    return Err(format!("it cannot be reserved in the kernel: {error}"));
                }
                // A socket that is bound, and neither listens nor is connected, is not listed.
                Err(_) if own.is_some() && there.is_empty() => has_own = true,
                Err(_) => {
                    let holders = match there.is_empty() {
                        true => {
                            "a program, or a connection that has ended a short while ago,".into()
                        }
                        false => names(&there),
                    };
                    return Err(format!(
                        "{holders} has it in the kernel, whose addresses are shared; stop that, or use \
                         another port"
                    ));
                }
            }
        }
        // Its own is left alone: the program may bind another address of the same port.
        let reservation = if has_own { Reservation::Own } else { Reservation::Sockets(sockets) };
        state.reserved.insert(port, reservation);
        Ok(())
    }

    fn keep(&mut self, port: TransportPort) {
        let mut state = self.state();
        let left = |there: &&Reservation| matches!(there, Reservation::Left(_));
        if !matches!(state.reserved.get(&port), Some(Reservation::Own))
            || state.reserved.values().filter(left).count() >= MOST_LEFT
        {
            return;
        }
        let mut sockets = BTreeMap::new();
        for address in self.addresses() {
            // Where the application's own is still there, it is done later.
            reserve(port, address, true).ok().map(|socket| sockets.insert(address, socket));
        }
        state.reserved.insert(port, Reservation::Left(sockets));
    }

    fn take(&mut self, port: TransportPort) {
        let taken = device_port(port);
        // Held ports are given up by another thread, which may have listed this one.
        let _state = self.state();
        self.each("taken", |steering| steering.add_port(taken).map_err(|error| error.to_string()));
    }

    fn give_back(&mut self, port: TransportPort) {
        let mut state = self.state();
        if state.ends {
            return;
        }
        let given = device_port(port);
        let remove = |steering: &Steering| steering.remove_port(given).map(drop);
        self.each("given back", |steering| remove(steering).map_err(|error| error.to_string()));
        state.reserved.remove(&port);
    }
}

fn device_port(TransportPort { stream, port }: TransportPort) -> Port {
    if stream { Port::tcp(port) } else { Port::udp(port) }
}
