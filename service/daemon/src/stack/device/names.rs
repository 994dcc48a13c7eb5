//! The current names of devices: they can be renamed while a stack runs on them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weever_device::{ifindex, name_of};
use weever_link::LinkInfo;

use super::links;
use crate::config::{Config, LinkKind};

/// The names of a stack's links, by their number.
#[derive(Debug)]
pub(in crate::stack) struct DeviceNames(Mutex<Vec<DeviceName>>);

#[derive(Debug)]
struct DeviceName {
    name: String,
    /// The index, which survives a renaming; `None` for a link that is no network device.
    ifindex: Option<u32>,
}

impl DeviceNames {
    /// The names with which the links were opened, in the network namespace of the calling thread.
    pub(in crate::stack) fn new(config: &Config, links: &[LinkInfo]) -> DeviceNames {
        let opened = |link: &LinkInfo| DeviceName { name: link.name.clone(), ifindex: None };
        let mut names: Vec<DeviceName> = links.iter().map(opened).collect();
        for interface in &config.interfaces {
            if matches!(interface.link, LinkKind::AfXdp | LinkKind::Tap) {
                let number = usize::from(links::number_of(config, &interface.dev));
                names[number].ifindex = ifindex(&interface.dev);
            }
        }
        DeviceNames(Mutex::new(names))
    }

    /// Asks the kernel, in the same namespace. A device that is gone keeps its last name.
    pub(super) fn refresh(&self) {
        for device in self.lock().iter_mut() {
            let now = device.ifindex.and_then(name_of);
            if let Some(now) = now.filter(|now| *now != device.name) {
                tracing::info!("device {} is called {now} now", device.name);
                device.name = now;
            }
        }
    }

    pub(in crate::stack) fn all(&self) -> Vec<String> {
        self.lock().iter().map(|device| device.name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<DeviceName>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
