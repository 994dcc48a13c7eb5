//! What a stack is to be: read from `weever.toml` and the command line, and checked.

mod check;
mod error;
mod host;
mod settings;
mod suggest;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use weever_net::addr::Cidr;
use weever_wire::MacAddr;

pub use error::ConfigError;
pub use settings::{NeighbourSetting, PoolSettings, RouteSetting, ServiceSettings, Settings};
pub(crate) use suggest::nearest;

/// A configuration that makes sense in itself. Whether the system allows it shows when the stack
/// is started. `examples/weever.toml` explains every setting.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The network device; for a link that is no device, the name of the stack.
    pub dev: String,
    /// The stack's address with its network.
    pub address: Cidr,
    /// The router for other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Routes to networks behind other routers.
    pub routes: Vec<Route>,
    /// Neighbours whose hardware address is fixed.
    pub neighbours: Vec<(Ipv4Addr, MacAddr)>,
    /// The VLAN to be in, 1 to 4094.
    pub vlan: Option<u16>,
    /// What weever takes from the device.
    pub share: Share,
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
    /// Whether to ask the network for another owner of the address before taking it.
    pub probe: bool,
}

/// A network behind a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network.
    pub to: Cidr,
    /// The router.
    pub via: Ipv4Addr,
}

/// UDP ports of the built-in services; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Services {
    /// Answers with what it gets (RFC 862).
    pub echo: Option<u16>,
    /// Takes and counts (RFC 863).
    pub discard: Option<u16>,
}

/// Values of a setting that is one of a few words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
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
    /// What weever takes from a device (DESIGN §4.5).
    Share {
        /// ARP and IP packets for the stack's address; the kernel has the rest.
        #[default]
        Address = "address",
        /// Everything: the kernel sees nothing of what arrives.
        None = "none",
    }
}

words! {
    /// How a worker waits for packets (DESIGN §5).
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
