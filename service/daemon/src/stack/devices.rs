//! The configuration's devices as links: one for each device, however many interfaces it has.

use weever_link::Link;
use weever_link_sys::af_xdp::{self, AfXdp, AfXdpConfig};
use weever_packet::Pool;

use super::StartError;
use crate::config::{Config, Interface, Share};

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
pub(super) fn open(config: &Config, pool: &Pool) -> Result<Vec<Box<dyn Link>>, StartError> {
    names(config).into_iter().map(|dev| open_one(config, dev, pool)).collect()
}

fn open_one(config: &Config, dev: &str, pool: &Pool) -> Result<Box<dyn Link>, StartError> {
    let interfaces: Vec<&Interface> = config.interfaces.iter().filter(|i| i.dev == dev).collect();
    let own = interfaces.iter().flat_map(|i| &i.addresses).map(|address| address.addr());
    let share = match interfaces.first().map(|i| i.share).unwrap_or_default() {
        Share::Address => af_xdp::Share::Address(own.collect()),
        Share::None => af_xdp::Share::None,
    };
    let settings = AfXdpConfig { share, ..AfXdpConfig::new(dev, pool.clone()) };
    Ok(Box::new(AfXdp::open(&settings)?))
}
