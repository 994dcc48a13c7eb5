//! The configuration of a stack: read from `weever.toml` and the command line, and checked.

mod aids;
mod check;
mod error;
mod file;
mod settings;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use weever_suggest::nearest;
use weever_wire::MacAddr;

pub use aids::{Aids, FaultWords, Station};
pub(crate) use check::shortest_mtu;
pub use error::{ConfigError, Origin};
pub use settings::Settings;
pub use weever_host::{ParsePrefixError, Prefix, Route};
pub use weever_net::demux::PortRange;

/// A configuration that makes sense in itself. Whether the system allows it shows when the stack
/// is started. `docs/settings.md` explains every setting.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The stack's interfaces, one or more; each has a name of its own.
    pub interfaces: Vec<Interface>,
    /// Routes beside those to the interfaces' own networks.
    pub routes: Vec<Route>,
    /// Neighbours whose hardware address is fixed.
    pub neighbours: Vec<(IpAddr, MacAddr)>,
    /// Whether packets for others are passed on between interfaces.
    pub forwarding: bool,
    /// Whether senders of packets to pass on are told of better first hops.
    pub redirects: bool,
    /// How the source addresses of packets to pass on are checked.
    pub reverse_path: ReversePath,
    /// The built-in services.
    pub services: Services,
    /// How workers wait for packets.
    pub mode: Mode,
    /// The cores that workers are bound to, in the order of the workers. Empty: one worker on the
    /// last core that the process may use.
    pub cores: Vec<usize>,
    /// The buffer pool.
    pub pool: weever_packet::PoolConfig,
    /// The control socket. None: the first of the usual places where one can be made.
    pub control: Option<PathBuf>,
    /// The directory of the state that outlives the process: the secret that IPv6 addresses are
    /// made with. None: `$STATE_DIRECTORY` or `/var/lib/weever` for a stack that opens its devices,
    /// and no secret for one on links.
    pub state: Option<PathBuf>,
    /// The address where Prometheus reads counters, if any.
    pub metrics: Option<SocketAddr>,
    /// The socket where applications are served, if they are.
    pub apps: Option<PathBuf>,
    /// Users whose applications may connect, beside root and the user of this process.
    pub apps_users: Vec<u32>,
    /// Groups whose applications may connect.
    pub apps_groups: Vec<u32>,
    /// Users whose applications work in the frames of packets.
    pub apps_trusted: Vec<u32>,
    /// The first port that applications of others than root may bind.
    pub apps_first_port: u16,
    /// The most memory of applications' queues together, in MiB.
    pub apps_memory: u32,
    /// The ports that applications get where they ask for none; [`ephemeral_ports`](Self::ephemeral_ports) without.
    pub apps_ephemeral: Option<PortRange>,
    /// For how many seconds ports of applications stay closed to the kernel without a stack, where the addresses are
    /// the kernel's.
    pub apps_keep: u32,
    /// The policy by which flows are given to workers, if not every worker has device queues of its
    /// own.
    pub policy: Option<PathBuf>,
    /// Flows that are registered in advance.
    pub flows: Option<PathBuf>,
    /// Whether to ask the network for other owners of the addresses before taking them.
    pub probe: bool,
    /// Whether `weever up` gives up, once started, privileges that a running stack does not need. A [`Stack`](crate::Stack)
    /// that a program starts leaves the program's privileges alone,
    /// and says false here.
    pub drop_privileges: bool,
    /// Debugging aids: on the command line only.
    pub aids: Aids,
}

/// Beyond the ports that Linux chooses by itself, and below those that programs choose which know RFC 6335.
const SHARED_EPHEMERAL: PortRange = PortRange { first: 61_000, last: 63_999 };

impl Config {
    /// Whether applications have ports of the kernel's addresses.
    pub fn applications_share_ports(&self) -> bool {
        self.apps.is_some() && self.interfaces.iter().any(|one| one.share == Share::Ports)
    }

    /// The ports that applications get where they ask for none.
    pub fn ephemeral_ports(&self) -> PortRange {
        let shares = self.applications_share_ports();
        let usual = if shares { SHARED_EPHEMERAL } else { PortRange::default() };
        self.apps_ephemeral.unwrap_or(usual)
    }
}

/// An interface of the stack: a device, or a VLAN on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Its name: the device, with the VLAN if there is one (`eth0.5`), unless the configuration
    /// says otherwise.
    pub name: String,
    /// The network device, or the path of a capture file; for another link that is no device, the
    /// link's name.
    pub dev: String,
    /// The kind of link.
    pub link: LinkKind,
    /// The VLAN it is in, 1 to 4094.
    pub vlan: Option<u16>,
    /// Its addresses with their networks.
    pub addresses: Vec<Prefix>,
    /// Whether it gets an IPv4 address and routes from a DHCP server.
    pub dhcp: bool,
    /// Whether it makes IPv6 addresses from router advertisements (RFC 4862).
    pub slaac: bool,
    /// Longest IP packet to send; `None`: the device's limit.
    pub mtu: Option<u16>,
    /// The multicast groups it is in.
    pub groups: Vec<IpAddr>,
    /// How fast a capture file is replayed.
    pub pace: Pace,
    /// The packets that weever takes from the device. Interfaces of one device have the same.
    pub share: Share,
    /// The place where its packets are sorted, if there is a policy. Interfaces of one device have
    /// the same.
    pub nic: NicChoice,
    /// How many workers receive together from each queue of the device, if their number may change.
    /// Interfaces of one device have the same.
    pub threads: Option<u16>,
    /// Whether these workers send packets in the order in which they came. Interfaces of one device have the same.
    pub ordered: bool,
}

/// Ports of the built-in services, UDP and TCP; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// The port of the echo service, which returns every datagram (RFC 862).
    pub echo: Option<u16>,
    /// The port of the discard service, which counts datagrams (RFC 863).
    pub discard: Option<u16>,
    /// The TCP port of the echo service, which returns every octet.
    pub tcp_echo: Option<u16>,
    /// The TCP port of the discard service, which reads and sends nothing.
    pub tcp_discard: Option<u16>,
}

impl Services {
    /// Each service that runs: its name, its protocol and its port.
    pub fn running(&self) -> impl Iterator<Item = (&'static str, &'static str, u16)> {
        let all = [
            ("echo", "udp", self.echo),
            ("discard", "udp", self.discard),
            ("tcp-echo", "tcp", self.tcp_echo),
            ("tcp-discard", "tcp", self.tcp_discard),
        ];
        all.into_iter().filter_map(|(name, protocol, port)| Some((name, protocol, port?)))
    }
}

/// Values of a setting that takes one of a few words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl $name {
            /// Every value, as written.
            pub const WORDS: &[&str] = &[$($word),+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $($name::$variant => $word),+ })
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<$name, String> {
                match text {
                    $($word => Ok($name::$variant),)+
                    _ => Err(format!("use one of {}", $name::WORDS.join(", "))),
                }
            }
        }
    };
}

words! {
    /// The packets that weever takes from a device (design/0000 §4.5).
    Share {
        /// ARP, ND and IP packets for the stack's addresses; the kernel has the rest.
        #[default]
        Address = "address",
        /// Packets for the kernel's addresses and the ports of services; the kernel has the rest,
        /// and its addresses, routes and neighbours are the stack's.
        Ports = "ports",
        /// No sharing: the kernel sees no received packet.
        None = "none",
    }
}

words! {
    /// How a worker waits for packets (design/0000 §5).
    Mode {
        /// It never sleeps: for a core of its own.
        Busy = "busy",
        /// It spins for a while after the last packet, and then sleeps.
        #[default]
        Adaptive = "adaptive",
        /// It sleeps whenever there is nothing to do.
        Interrupt = "interrupt",
    }
}

words! {
    /// The kind of a device, which decides how it is opened.
    LinkKind {
        /// A network device whose queues are taken over AF_XDP.
        #[default]
        AfXdp = "af-xdp",
        /// A TAP device, which is made unless it is there.
        Tap = "tap",
        /// A capture file: its packets are received, and sent ones are discarded.
        Pcap = "pcap",
    }
}

words! {
    /// How fast a capture file is replayed.
    Pace {
        /// With the timing with which it was recorded.
        #[default]
        Recorded = "recorded",
        /// As fast as it is received.
        Unpaced = "unpaced",
    }
}

words! {
    /// How the source address of a packet to pass on is checked (RFC 3704).
    ReversePath {
        /// Not at all.
        #[default]
        None = "none",
        /// There has to be a route to it.
        Loose = "loose",
        /// The route to it has to lead out where the packet came in.
        Strict = "strict",
    }
}

/// The place where a policy's filters are installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NicChoice {
    /// A program in front of the sockets, on any device.
    #[default]
    Xdp,
    /// The device itself if there is a model for its driver, else the program.
    Auto,
    /// The device itself, which is as this model says. The model is one that ships.
    Model(&'static str),
}

impl fmt::Display for NicChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            NicChoice::Xdp => "xdp",
            NicChoice::Auto => "auto",
            NicChoice::Model(name) => name,
        })
    }
}

impl FromStr for NicChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<NicChoice, String> {
        let named = |name: &&str| name.eq_ignore_ascii_case(text);
        match weever_models::nics().find(named) {
            Some("xdp") => Ok(NicChoice::Xdp),
            Some(model) => Ok(NicChoice::Model(model)),
            None if named(&"auto") => Ok(NicChoice::Auto),
            None => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> String {
    let mut known: Vec<&str> = weever_models::nics().filter(|name| *name != "xdp").collect();
    known.splice(0..0, ["xdp", "auto"]);
    let remedy = match nearest(text, known.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("use one of {}", known.join(", ")),
    };
    format!("there is no NIC model `{text}`; {remedy}")
}
