//! The configuration's devices as links: one for each device, however many interfaces it has.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use weever_link::Link;
use weever_link_sys::af_xdp::{self, AfXdp, AfXdpConfig, Steering};
use weever_link_sys::tap::{Tap, TapConfig};
use weever_packet::Pool;

use super::{StartError, ports};
use crate::config::{Config, Interface, LinkKind, Services, Share};

/// A device that was opened.
pub(super) struct Device {
    pub(super) link: Box<dyn Link>,
    /// Which addresses' packets come from it; `None` if all do.
    pub(super) grip: Option<Grip>,
}

/// What has been taken from a device that the kernel uses too.
#[derive(Debug)]
pub(super) struct Grip {
    pub(super) steering: Arc<Steering>,
    pub(super) addresses: BTreeSet<IpAddr>,
    /// Whether only some ports of them are taken.
    pub(super) by_port: bool,
}

impl From<Box<dyn Link>> for Device {
    fn from(link: Box<dyn Link>) -> Device {
        Device { link, grip: None }
    }
}

/// The devices' names, in the order in which links are numbered.
pub(super) fn names(config: &Config) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for interface in &config.interfaces {
        if !names.contains(&interface.dev.as_str()) {
            names.push(&interface.dev);
        }
    }
    names
}

/// The number of a device's link. The device is one of the configuration's.
pub(super) fn number_of(config: &Config, dev: &str) -> u16 {
    names(config).iter().position(|name| *name == dev).unwrap_or_default() as u16
}

/// Opens every device; those opened are closed again if one cannot be.
pub(super) fn open(config: &Config, pool: &Pool) -> Result<Vec<Device>, StartError> {
    names(config).into_iter().map(|dev| open_one(config, dev, pool)).collect()
}

fn open_one(config: &Config, dev: &str, pool: &Pool) -> Result<Device, StartError> {
    let of_device = || config.interfaces.iter().filter(|i| i.dev == dev);
    let Some(first) = of_device().next() else {
        return Err(StartError::Setting(format!("no interface is on {dev}")));
    };
    match first.link {
        LinkKind::Tap => open_tap(config, first),
        LinkKind::AfXdp => {
            let own = of_device().flat_map(|i| &i.addresses).map(|address| address.addr());
            open_af_xdp(first, own.collect(), &config.services, pool)
        }
    }
}

fn open_af_xdp(
    interface: &Interface,
    addresses: BTreeSet<IpAddr>,
    services: &Services,
    pool: &Pool,
) -> Result<Device, StartError> {
    let share = match interface.share {
        Share::Address => af_xdp::Share::Address(addresses.iter().copied().collect()),
        // The addresses are the kernel's, which has not been asked yet.
        Share::Ports => af_xdp::Share::Ports(Vec::new(), ports::of(services).into_iter().collect()),
        Share::None => af_xdp::Share::None,
    };
    let settings = AfXdpConfig { share, ..AfXdpConfig::new(&interface.dev, pool.clone()) };
    let link = AfXdp::open(&settings)?;
    let by_port = interface.share == Share::Ports;
    let grip = (interface.share != Share::None).then(|| Grip {
        steering: Arc::clone(link.steering()),
        addresses,
        by_port,
    });
    Ok(Device { link: Box::new(link), grip })
}

/// A queue for each worker. The kernel's stack is at the other end, so nothing is shared.
fn open_tap(config: &Config, interface: &Interface) -> Result<Device, StartError> {
    let queues = config.cores.len().max(1) as u16;
    let settings = TapConfig { queues, mtu: interface.mtu, ..TapConfig::new(&interface.dev) };
    let link: Box<dyn Link> = Box::new(Tap::open(&settings)?);
    Ok(link.into())
}
