//! Settings as they are written: every one of them optional, from the file or the command line.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use weever_net::addr::Cidr;
use weever_wire::MacAddr;

use super::{ConfigError, Mode, Share};

/// In bytes. Nobody writes so much: it is a device, or some other file by mistake.
const LONGEST: u64 = 16 << 20;

/// What a file or a command line says. What it does not say is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Settings {
    /// The network device.
    pub dev: Option<String>,
    /// The stack's address with its network.
    #[serde(deserialize_with = "optional_cidr")]
    pub addr: Option<Cidr>,
    /// The router for other networks.
    pub gateway: Option<Ipv4Addr>,
    /// The VLAN to be in; 0 or nothing: untagged.
    pub vlan: Option<u16>,
    /// What weever takes from the device.
    pub share: Option<Share>,
    /// How workers wait for packets.
    pub mode: Option<Mode>,
    /// The cores that workers are bound to.
    pub cores: Option<Vec<usize>>,
    /// The control socket.
    pub control: Option<PathBuf>,
    /// Whether to ask the network for another owner of the address.
    pub probe: Option<bool>,
    /// The built-in services.
    pub services: ServiceSettings,
    /// The buffer pool.
    pub pool: PoolSettings,
    /// Routes to networks behind other routers.
    #[serde(rename = "route")]
    pub routes: Vec<RouteSetting>,
    /// Neighbours whose hardware address is fixed.
    #[serde(rename = "neighbour")]
    pub neighbours: Vec<NeighbourSetting>,
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
    pub to: Cidr,
    /// The router, which must be in the stack's own network.
    pub via: Ipv4Addr,
}

/// One of the tables `neighbour`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourSetting {
    /// The neighbour's address.
    pub addr: Ipv4Addr,
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
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|e| serde::de::Error::custom(format!("`{text}` is {e}")))
}

fn optional_cidr<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cidr>, D::Error> {
    text(deserializer).map(Some)
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
            addr: over.addr.or(self.addr),
            gateway: over.gateway.or(self.gateway),
            vlan: over.vlan.or(self.vlan),
            share: over.share.or(self.share),
            mode: over.mode.or(self.mode),
            cores: over.cores.or(self.cores),
            control: over.control.or(self.control),
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
            routes: either(over.routes, self.routes),
            neighbours: either(over.neighbours, self.neighbours),
        }
    }
}

fn either<T>(over: Vec<T>, under: Vec<T>) -> Vec<T> {
    if over.is_empty() { under } else { over }
}
