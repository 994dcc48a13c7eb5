//! Settings as they are written: every one of them optional, from the file or the command line.

use std::fmt;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use weever_wire::MacAddr;

use super::{ConfigError, LinkKind, Mode, NicChoice, Pace, Prefix, ReversePath, Share};

/// In bytes. Nobody writes so much: it is a device, or some other file by mistake.
const LONGEST: u64 = 16 << 20;

/// Defines settings of which some describe an interface: the first one, at the top of a file, or
/// another, in a table of its own. Serde cannot share them otherwise and still refuse unknown keys.
macro_rules! with_an_interface {
    ($(#[$meta:meta])* pub struct $name:ident { $($others:tt)* }) => {
        $(#[$meta])*
        pub struct $name {
            /// The network device.
            pub dev: Option<String>,
            /// What the device is.
            pub link: Option<LinkKind>,
            /// Its addresses with their networks.
            #[serde(deserialize_with = "texts")]
            pub addr: Vec<Prefix>,
            /// The VLAN to be in; 0 or nothing: untagged.
            pub vlan: Option<u16>,
            /// What weever takes from the device.
            pub share: Option<Share>,
            /// What sorts its packets, where there is a policy.
            pub nic: Option<NicChoice>,
            /// Whether a DHCP server gives it an address.
            pub dhcp: Option<bool>,
            /// Whether it makes IPv6 addresses from router advertisements.
            pub slaac: Option<bool>,
            /// Longest IP packet to send.
            pub mtu: Option<u16>,
            /// How fast a capture file is replayed.
            pub pace: Option<Pace>,
            /// Multicast groups to be in.
            #[serde(deserialize_with = "texts")]
            pub groups: Vec<IpAddr>,
            $($others)*
        }
    };
}

with_an_interface! {
    /// What a file or a command line says. What it does not say is `None` or empty.
    ///
    /// `dev` and what belongs to it describe the first interface, which is the only one for most;
    /// `interface` describes others.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
    pub struct Settings {
        /// The routers for other networks, one of each family at most.
        #[serde(deserialize_with = "texts")]
        pub gateway: Vec<IpAddr>,
        /// Whether packets for others are passed on.
        pub forwarding: Option<bool>,
        /// Whether their senders are told of better first hops.
        pub redirects: Option<bool>,
        /// How their source addresses are checked.
        pub reverse_path: Option<ReversePath>,
        /// How workers wait for packets.
        pub mode: Option<Mode>,
        /// The cores that workers are bound to.
        pub cores: Option<Vec<usize>>,
        /// The control socket.
        pub control: Option<PathBuf>,
        /// The directory of what outlives the process.
        pub state: Option<PathBuf>,
        /// Where counters can be had by Prometheus.
        pub metrics: Option<SocketAddr>,
        /// The policy's file.
        pub policy: Option<PathBuf>,
        /// The file of flows that are known before they are seen.
        pub flows: Option<PathBuf>,
        /// Whether to ask the network for other owners of the addresses.
        pub probe: Option<bool>,
        /// The built-in services.
        pub services: ServiceSettings,
        /// The buffer pool.
        pub pool: PoolSettings,
        /// More interfaces.
        #[serde(rename = "interface")]
        pub interfaces: Vec<InterfaceSettings>,
        /// Routes to networks behind other routers.
        #[serde(rename = "route")]
        pub routes: Vec<RouteSetting>,
        /// Neighbours whose hardware address is fixed.
        #[serde(rename = "neighbour")]
        pub neighbours: Vec<NeighbourSetting>,
    }
}

with_an_interface! {
    /// One of the tables `interface`.
    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
    pub struct InterfaceSettings {
        /// Its name, if it is not to be the device's.
        pub name: Option<String>,
    }
}

/// The table `services`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSettings {
    /// UDP port that answers with what it gets (RFC 862).
    pub echo: Option<u16>,
    /// UDP port that takes and counts (RFC 863).
    pub discard: Option<u16>,
}

/// The table `pool`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PoolSettings {
    /// How many frames.
    pub frames: Option<u32>,
    /// How many bytes each has: 2048 or 4096.
    pub frame_size: Option<u32>,
    /// Whether to try for huge pages.
    pub huge_pages: Option<bool>,
}

/// One of the tables `route`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSetting {
    /// The network.
    #[serde(deserialize_with = "text")]
    pub to: Prefix,
    /// The router, which must be in a network of the stack's own.
    #[serde(default)]
    pub via: Option<IpAddr>,
    /// The interface's name.
    #[serde(default)]
    pub interface: Option<String>,
}

/// One of the tables `neighbour`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourSetting {
    /// The neighbour's address.
    pub addr: IpAddr,
    /// Its hardware address.
    #[serde(deserialize_with = "text")]
    pub mac: MacAddr,
}

/// Reads a value that is written as text.
fn text<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    parsed(&String::deserialize(deserializer)?)
}

/// Reads one value that is written as text, or a list of them.
fn texts<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(OneOrMany(PhantomData))
}

struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: FromStr<Err: Display>> Visitor<'de> for OneOrMany<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, or a list of texts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![parsed(text)?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            all.push(parsed(&text)?);
        }
        Ok(all)
    }
}

fn parsed<T: FromStr<Err: Display>, E: serde::de::Error>(text: &str) -> Result<T, E> {
    text.parse().map_err(|e| E::custom(format!("`{text}` is {e}")))
}

impl Settings {
    /// Reads a configuration file of at most 16 MiB.
    ///
    /// # Errors
    /// [`ConfigError::Read`], [`ConfigError::TooLong`] and [`ConfigError::Text`].
    pub fn read(path: &Path) -> Result<Settings, ConfigError> {
        let mut text = String::new();
        // A byte more than is allowed, to notice.
        let read = File::open(path).and_then(|f| f.take(LONGEST + 1).read_to_string(&mut text));
        let read = read.map_err(|source| ConfigError::Read { path: path.into(), source })?;
        if read as u64 > LONGEST {
            return Err(ConfigError::TooLong { path: path.into() });
        }
        Settings::parse(path, &text)
    }

    /// Reads a configuration from `text`; `path` is for messages.
    ///
    /// # Errors
    /// [`ConfigError::Text`].
    pub fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
        toml::from_str(text).map_err(|e| ConfigError::from_toml(path, text, &e))
    }

    /// These settings, where `over` does not say otherwise. Lists are replaced, not joined.
    #[must_use]
    pub fn overridden_by(self, over: Settings) -> Settings {
        Settings {
            dev: over.dev.or(self.dev),
            link: over.link.or(self.link),
            addr: either(over.addr, self.addr),
            vlan: over.vlan.or(self.vlan),
            share: over.share.or(self.share),
            nic: over.nic.or(self.nic),
            dhcp: over.dhcp.or(self.dhcp),
            slaac: over.slaac.or(self.slaac),
            mtu: over.mtu.or(self.mtu),
            pace: over.pace.or(self.pace),
            groups: either(over.groups, self.groups),
            gateway: either(over.gateway, self.gateway),
            forwarding: over.forwarding.or(self.forwarding),
            redirects: over.redirects.or(self.redirects),
            reverse_path: over.reverse_path.or(self.reverse_path),
            mode: over.mode.or(self.mode),
            cores: over.cores.or(self.cores),
            control: over.control.or(self.control),
            state: over.state.or(self.state),
            metrics: over.metrics.or(self.metrics),
            policy: over.policy.or(self.policy),
            flows: over.flows.or(self.flows),
            probe: over.probe.or(self.probe),
            services: ServiceSettings {
                echo: over.services.echo.or(self.services.echo),
                discard: over.services.discard.or(self.services.discard),
            },
            pool: PoolSettings {
                frames: over.pool.frames.or(self.pool.frames),
                frame_size: over.pool.frame_size.or(self.pool.frame_size),
                huge_pages: over.pool.huge_pages.or(self.pool.huge_pages),
            },
            interfaces: either(over.interfaces, self.interfaces),
            routes: either(over.routes, self.routes),
            neighbours: either(over.neighbours, self.neighbours),
        }
    }
}

fn either<T>(over: Vec<T>, under: Vec<T>) -> Vec<T> {
    if over.is_empty() { under } else { over }
}
