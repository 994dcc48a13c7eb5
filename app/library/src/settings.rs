//! A stack described by a line of text, and the reasons why it cannot be started.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use weever_app_sockets::{Error, Geometry};
use weever_host::{HostBuilder, HostError, InterfaceConfig, Prefix, Route};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, OpenError, Queues, Share, Steering};
use weever_packet::{Pool, PoolConfig, PoolError};

/// The most frames of packets in which queues work.
const MOST_LENT: usize = 32_768;
/// The prefix of a stack's text, to tell it from a path.
pub(crate) const SCHEME: &str = "library:";

/// Frames of packets in which the queues work at each of so many workers: those of a channel to each queue with a
/// worker, up to 64 MiB in all.
pub(crate) fn lent_for_each(workers: usize) -> usize {
    let each = Geometry::default().frames as usize;
    (each * workers).min(MOST_LENT / workers)
}

/// A stack on one device, as `KEY=VALUE` joined by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `dev`: the device.
    pub dev: String,
    /// `addr`, any number of times: an address and the length of its prefix.
    pub addresses: Vec<Prefix>,
    /// `via`, at most one of each family: the default router.
    pub routers: Vec<IpAddr>,
    /// `threads`: how many queues turn a worker, one on each of as many of the device's queues. 1
    /// unless given.
    pub threads: u16,
    /// `share`: `address` leaves all packets for other addresses to the kernel, `none` takes the whole
    /// device. `address` unless given.
    pub whole_device: bool,
    /// `patience`, in milliseconds: how long a worker is left alone before its keeper takes over. 10
    /// unless given.
    pub patience: Duration,
    /// `frames`: how many packets can be in the stack at once, besides those in the queues' own frames. 8,192 unless
    /// given.
    pub frames: u32,
}

impl FromStr for Settings {
    type Err = LibraryError;

    fn from_str(text: &str) -> Result<Settings, LibraryError> {
        let wrong = |why: String| LibraryError::Settings { text: text.into(), why };
        let mut settings = Settings {
            dev: String::new(),
            addresses: Vec::new(),
            routers: Vec::new(),
            threads: 1,
            whole_device: false,
            patience: Duration::from_millis(10),
            frames: 8192,
        };
        let body = text.strip_prefix(SCHEME).unwrap_or(text);
        for part in body.split(',').filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| wrong(format!("{part:?} has no value")))?;
            let bad = |what: &str| wrong(format!("{key}={value}: not {what}"));
            match key {
                "dev" => settings.dev = value.into(),
                "addr" => {
                    settings.addresses.push(value.parse().map_err(|_| bad("an address/length"))?);
                }
                "via" => settings.routers.push(value.parse().map_err(|_| bad("an address"))?),
                "threads" => {
                    let threads = value.parse().ok().filter(|threads| (1..=64).contains(threads));
                    settings.threads = threads.ok_or_else(|| bad("a number from 1 to 64"))?;
                }
                "share" => {
                    settings.whole_device = match value {
                        "none" => true,
                        "address" => false,
                        _ => return Err(bad("address or none")),
                    };
                }
                "patience" => {
                    let millis = value.parse().map_err(|_| bad("a number of milliseconds"))?;
                    settings.patience = Duration::from_millis(millis);
                }
                "frames" => settings.frames = value.parse().map_err(|_| bad("a number"))?,
                _ => {
                    let keys = "dev, addr, via, threads, share, patience and frames";
                    return Err(wrong(format!("there is no key {key:?}: there are {keys}")));
                }
            }
        }
        if settings.dev.is_empty() || settings.addresses.is_empty() {
            return Err(wrong("it needs a device and an address".into()));
        }
        Ok(settings)
    }
}

/// The entrance of a stack: packets for its addresses are the kernel's until it is opened.
#[derive(Debug)]
pub struct Entrance {
    dev: String,
    steering: Arc<Steering>,
    /// None where the whole device is the stack's: its packets come from the beginning.
    addresses: Vec<IpAddr>,
}

impl Entrance {
    /// Lets packets come to the stack from now on.
    ///
    /// # Errors
    /// [`LibraryError::Entrance`].
    pub fn open(self) -> Result<(), LibraryError> {
        let Entrance { dev, steering, addresses } = self;
        let opened = addresses.iter().try_for_each(|address| steering.add_address(*address));
        opened.map_err(|error| LibraryError::Entrance { dev, why: error.to_string() })
    }
}

impl Settings {
    /// The host that they describe, on its device, and its entrance, which is closed.
    pub(crate) fn builder(&self) -> Result<(HostBuilder, Entrance), LibraryError> {
        let workers = usize::from(self.threads);
        let lent = (lent_for_each(workers) * workers) as u32;
        // At most half of them are lent.
        let frames = self.frames + lent.min(self.frames);
        let pool = Pool::shareable(PoolConfig { frames, ..PoolConfig::default() })?;
        let (share, addresses) = if self.whole_device {
            (Share::None, Vec::new())
        } else {
            let addresses = self.addresses.iter().map(|address| address.addr()).collect();
            (Share::Address(Vec::new()), addresses)
        };
        let config =
            AfXdpConfig { share, queues: Queues::All, ..AfXdpConfig::new(&self.dev, pool.clone()) };
        let device = AfXdp::open(&config)?;
        let steering = Arc::clone(device.steering());
        let entrance = Entrance { dev: self.dev.clone(), steering, addresses };
        let mut builder = HostBuilder::new(pool);
        builder.workers(self.threads.into());
        let link = builder.link(Box::new(device));
        let interface = InterfaceConfig::new(&self.dev, link);
        let interface =
            self.addresses.iter().fold(interface, |interface, address| interface.address(*address));
        builder.interface(interface)?;
        for router in &self.routers {
            let everything = if router.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let everything = everything.parse().expect("it is one");
            builder.route(&Route::via(everything, *router))?;
        }
        Ok((builder, entrance))
    }
}

/// Why a stack inside the application cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// The text that describes the stack cannot be read.
    #[error("{text:?} does not describe a stack: {why}; write library:dev=eth0,addr=192.0.2.10/24")]
    Settings {
        /// The text.
        text: String,
        /// The fault in it.
        why: String,
    },
    /// The device cannot be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// Packets cannot be taken from the device.
    #[error("interface {dev}: no packets come to the stack: {why}")]
    Entrance {
        /// The device.
        dev: String,
        /// The kernel's reason.
        why: String,
    },
    /// There is no memory for frames.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Addresses, routes or the graph.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A keeper's thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(std::io::Error),
    /// The queue cannot be opened.
    #[error(transparent)]
    Queue(#[from] Error),
}

impl LibraryError {
    /// Whether another process has the device, which may be a stack like this one.
    pub fn is_in_use(&self) -> bool {
        let LibraryError::Device(error) = self else { return false };
        matches!(error, OpenError::QueueBusy { .. } | OpenError::OtherProgram { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_describes_a_stack() {
        let text = "library:dev=eth0,addr=192.0.2.10/24,addr=2001:db8::1/64,via=192.0.2.1,\
                    threads=2,share=none,patience=5,frames=1024";
        let settings: Settings = text.parse().unwrap();
        assert_eq!((settings.dev.as_str(), settings.addresses.len()), ("eth0", 2));
        assert_eq!(settings.routers, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        assert_eq!((settings.threads, settings.whole_device, settings.frames), (2, true, 1024));
        assert_eq!(settings.patience, Duration::from_millis(5));
    }

    #[test]
    fn faults_of_a_line_are_named() {
        for (text, part) in [
            ("library:", "needs a device"),
            ("library:dev=eth0", "and an address"),
            ("library:dev", "no value"),
            ("library:dev=eth0,addr=192.0.2.10", "addr=192.0.2.10"),
            ("library:dev=eth0,addr=192.0.2.10/24,cores=1", "there is no key \"cores\""),
            ("library:dev=eth0,addr=192.0.2.10/24,threads=0", "1 to 64"),
            ("library:dev=eth0,addr=192.0.2.10/24,share=ports", "address or none"),
        ] {
            let error = text.parse::<Settings>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(text), "{error}");
        }
    }
}
