//! Anonymous network namespaces.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::LinkAttribute;
use netlink_sys::protocols::NETLINK_ROUTE;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::link::{self, LinkInfo};
use crate::netlink::{self, Netlink};
use crate::{Error, Mac, ethtool};

/// A network namespace that lives as long as this value, its clones, and the sockets and threads
/// inside it. Cloning shares the namespace.
///
/// IPv6 is switched off inside (its autoconfiguration would send frames that nobody asked for)
/// until [`speak_ipv6`](Self::speak_ipv6), and `lo` is up.
#[derive(Debug, Clone)]
pub struct Namespace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    handle: OwnedFd,
    netlink: Mutex<Netlink>,
}

impl Namespace {
    /// Makes an empty namespace.
    ///
    /// # Errors
    /// [`Error::CreateNamespace`] if the process lacks the capabilities.
    pub fn new() -> Result<Self, Error> {
        // unshare() changes the calling thread, so a helper makes the move and ends; the
        // descriptor it opened keeps the namespace alive.
        let made = thread::spawn(|| -> io::Result<Inner> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let handle = File::open("/proc/thread-self/ns/net")?.into();
            silence_ipv6();
            Ok(Inner { handle, netlink: Mutex::new(Netlink::open(NETLINK_ROUTE)?) })
        });
        let inner = made.join().unwrap_or_else(|panic| resume_unwind(panic));
        let inner = Arc::new(inner.map_err(Error::CreateNamespace)?);
        let namespace = Self { inner };
        namespace.set_up("lo")?;
        Ok(namespace)
    }

    /// Runs `work` on a fresh thread inside the namespace and returns its result. Blocks until
    /// `work` is done. Sockets which `work` opens stay in the namespace wherever they go.
    ///
    /// # Panics
    /// With the panic of `work`, or if no thread can be started.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                self.enter();
                work()
            });
            inside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Starts `work` on a named thread inside the namespace.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let namespace = self.clone();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            namespace.enter();
            drop(namespace);
            work()
        })
    }

    /// Moves the calling thread into the namespace, for good.
    ///
    /// # Panics
    /// If the process has lost the capabilities with which it made the namespace.
    pub fn enter(&self) {
        setns(&self.inner.handle, CloneFlags::CLONE_NEWNET)
            .expect("a process may enter the network namespace that it made");
    }

    /// Writes `value` to `/proc/sys/<path>` inside the namespace, for example
    /// `("net/ipv4/icmp_ratelimit", "0")`.
    ///
    /// # Errors
    /// [`Error::Sysctl`] if the setting does not exist or refuses the value.
    pub fn sysctl(&self, path: &str, value: &str) -> Result<(), Error> {
        self.run(|| fs::write(format!("/proc/sys/{path}"), value)).map_err(|source| Error::Sysctl {
            path: path.to_owned(),
            value: value.to_owned(),
            source,
        })
    }

    /// Switches IPv6 on for every link there is and comes to be: they get link-local addresses.
    ///
    /// # Errors
    /// [`Error::Sysctl`] if the kernel has no IPv6.
    pub fn speak_ipv6(&self) -> Result<(), Error> {
        self.sysctl("net/ipv6/conf/all/disable_ipv6", "0")
    }

    /// Has the kernel's stack process a link's received packets on `core` (receive packet
    /// steering), or with `None` on the core where they happen to arrive: for veth, that of the
    /// sender.
    ///
    /// # Errors
    /// [`Error::Sysctl`] if there is no such link or core.
    pub fn process_received_on(&self, link: &str, core: Option<usize>) -> Result<(), Error> {
        let path = format!("class/net/{link}/queues/rx-0/rps_cpus");
        let mask = core.map_or(0, |core| 1u128.checked_shl(core as u32).unwrap_or(u128::MAX));
        let value = format!("{mask:x}");
        self.run(|| write_in_own_sysfs(&path, &value)).map_err(|source| Error::Sysctl {
            path,
            value,
            source,
        })
    }

    /// The kernel's state of a link.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link.
    pub fn link(&self, name: &str) -> Result<LinkInfo, Error> {
        let action = format!("read link {name}");
        let answers = self.request(&action, link::get(name), 0)?;
        answers
            .iter()
            .find_map(|answer| match answer {
                RouteNetlinkMessage::NewLink(message) => Some(LinkInfo::from_message(message)),
                _ => None,
            })
            .ok_or(Error::Unanswered { action })
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, or its driver refuses.
    pub fn set_up(&self, name: &str) -> Result<(), Error> {
        let index = self.link(name)?.index;
        self.change(&format!("set link {name} up"), link::set_up(index, true), 0)
    }

    /// Sets a link down.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link.
    pub fn set_down(&self, name: &str) -> Result<(), Error> {
        let index = self.link(name)?.index;
        self.change(&format!("set link {name} down"), link::set_up(index, false), 0)
    }

    /// Gives a link another name.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, or another one of that name.
    pub fn rename(&self, name: &str, to: &str) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("rename link {name} to {to}");
        self.change(&action, link::set(index, LinkAttribute::IfName(to.to_owned())), 0)
    }

    /// Moves a link to another namespace, where it keeps its name.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, or another one of that name there.
    pub fn move_link(&self, name: &str, to: &Namespace) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("move link {name} to another namespace");
        self.change(&action, link::set(index, LinkAttribute::NetNsFd(to.raw_handle())), 0)
    }

    /// Sets a link's MTU, in bytes of payload.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, or its driver refuses the size.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("set the MTU of link {name} to {mtu}");
        self.change(&action, link::set(index, LinkAttribute::Mtu(mtu)), 0)
    }

    /// Sets a link's hardware address.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, or the address is not a unicast one.
    pub fn set_mac(&self, name: &str, mac: Mac) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("set the hardware address of link {name}");
        self.change(&action, link::set(index, LinkAttribute::Address(mac.to_vec())), 0)
    }

    /// Switches an offload of a link on or off, by the name that `ethtool -k` uses for its parts:
    /// `tx-checksum-ip-generic`, `tx-tcp-segmentation`, `rx-gro`, … Offloads that depend on it
    /// follow.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link or no such offload.
    pub fn set_feature(&self, name: &str, feature: &str, on: bool) -> Result<(), Error> {
        self.run(|| ethtool::set_feature(name, feature, on)).map_err(|source| {
            let action =
                format!("switch {feature} of link {name} {}", if on { "on" } else { "off" });
            Error::Request { action, source }
        })
    }

    /// Lets packets leave a link at so many megabits a second, as a link of that rate would; what comes faster waits.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, the rate is 0 or above 34,000, or the kernel has no token bucket.
    pub fn set_rate(&self, name: &str, megabits: u32) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("limit link {name} to {megabits} Mbit/s");
        let Some(octets_per_second) = megabits.checked_mul(125_000).filter(|rate| *rate > 0) else {
            return Err(Error::Request { action, source: io::ErrorKind::InvalidInput.into() });
        };
        let request = netlink::rate(index, octets_per_second);
        self.change(&action, request, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Removes a link, and its peer if it has one.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link.
    pub fn delete_link(&self, name: &str) -> Result<(), Error> {
        let index = self.link(name)?.index;
        self.change(&format!("delete link {name}"), link::delete(index), 0)
    }

    /// Gives a link an IPv4 address; the kernel adds the route to its network by itself.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, or it has the address already.
    pub fn add_address(&self, name: &str, address: Ipv4Addr, prefix: u8) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("add address {address}/{prefix} to link {name}");
        self.change(&action, netlink::address(index, address, prefix), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route to `network/prefix` through `gateway`; `0.0.0.0/0` is the default route.
    ///
    /// # Errors
    /// [`Error::Request`] if the gateway cannot be reached, or there is such a route.
    pub fn add_route(&self, network: Ipv4Addr, prefix: u8, gateway: Ipv4Addr) -> Result<(), Error> {
        let action = format!("add a route to {network}/{prefix} through {gateway}");
        let request = netlink::route(IpAddr::V4(network), prefix, IpAddr::V4(gateway));
        self.change(&action, request, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Gives a link an IPv6 address: at once, or after the kernel has `asked` the network for another
    /// owner (RFC 4862 §5.4).
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, it does not speak IPv6, or has the address.
    pub fn add_address6(
        &self,
        name: &str,
        address: Ipv6Addr,
        prefix: u8,
        asked: bool,
    ) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("add address {address}/{prefix} to link {name}");
        let request = netlink::address6(index, address, prefix, asked);
        self.change(&action, request, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a route to `network/prefix` through `gateway`; `::/0` is the default route.
    ///
    /// # Errors
    /// [`Error::Request`] if the gateway cannot be reached, or there is such a route.
    pub fn add_route6(
        &self,
        network: Ipv6Addr,
        prefix: u8,
        gateway: Ipv6Addr,
    ) -> Result<(), Error> {
        let action = format!("add a route to {network}/{prefix} through {gateway}");
        let request = netlink::route(IpAddr::V6(network), prefix, IpAddr::V6(gateway));
        self.change(&action, request, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Adds a permanent neighbour, so that the kernel does not ask for it, or replaces it.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link.
    pub fn add_neighbour(&self, name: &str, address: Ipv4Addr, mac: Mac) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("add neighbour {address} to link {name}");
        let request = netlink::neighbour(index, address.into(), mac);
        self.change(&action, request, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// [`add_neighbour`](Self::add_neighbour) for IPv6.
    ///
    /// # Errors
    /// [`Error::Request`] if there is no such link, or it does not speak IPv6.
    pub fn add_neighbour6(&self, name: &str, address: Ipv6Addr, mac: Mac) -> Result<(), Error> {
        let index = self.link(name)?.index;
        let action = format!("add neighbour {address} to link {name}");
        let request = netlink::neighbour(index, address.into(), mac);
        self.change(&action, request, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// The raw descriptor number, for netlink attributes that name a namespace.
    pub(crate) fn raw_handle(&self) -> i32 {
        self.inner.handle.as_raw_fd()
    }

    /// Sends a request of which only success is of interest.
    pub(crate) fn change(
        &self,
        action: &str,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), Error> {
        self.request(action, request, flags).map(drop)
    }

    fn request(
        &self,
        action: &str,
        request: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>, Error> {
        let mut netlink = self.inner.netlink.lock().unwrap_or_else(PoisonError::into_inner);
        netlink
            .request(request, flags)
            .map_err(|source| Error::Request { action: action.to_owned(), source })
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.handle.as_fd()
    }
}

/// Best effort: a kernel without IPv6 has nothing to switch off.
fn silence_ipv6() {
    for which in ["all", "default"] {
        drop(fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1"));
    }
}

/// `/sys` shows the network namespace of the thread that mounted it, so the calling thread mounts
/// one that only it can see.
fn write_in_own_sysfs(path: &str, value: &str) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), nothing)?;
    fs::write(format!("/sys/{path}"), value)
}
