//! The configuration's devices as links: one for each device, however many interfaces it has.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weever_device::claim::{Claim, ClaimError};
use weever_device::{ifindex, name_of};
use weever_link::{Link, LinkInfo, LinkQueue};
use weever_link_sys::af_xdp::{
    self, AfXdp, AfXdpConfig, OpenError, Pins, ReceiveThreads, Steering,
};
use weever_link_sys::overhear::overhear;
use weever_link_sys::tap::{Tap, TapConfig};
use weever_packet::Pool;

use super::applications::addresses_of;
use super::{ephemeral, ports, replay};
use crate::config::{Config, Interface, LinkKind, Share};
use crate::stack::steward::{self, PolicySetup, PreparedNic, SharedNicSteering, Steward};
use crate::stack::{PolicyError, StartError};

/// A device that was opened.
pub(in crate::stack) struct Device {
    pub(in crate::stack) link: Box<dyn Link>,
    /// The addresses whose packets come from it; `None` if all packets do.
    pub(in crate::stack) filter: Option<AddressFilter>,
    /// The steward of the policy, if there is one and the device takes filters.
    pub(in crate::stack) steward: Option<Steward>,
    /// How many workers receive from each of its queues, if that can be changed.
    pub(in crate::stack) threads: Option<Arc<ReceiveThreads>>,
}

/// The addresses taken from a device that the kernel uses too.
#[derive(Debug)]
pub(in crate::stack) struct AddressFilter {
    pub(in crate::stack) steering: Arc<Steering>,
    pub(in crate::stack) addresses: BTreeSet<IpAddr>,
    /// Whether only some ports of them are taken.
    pub(in crate::stack) by_port: bool,
    /// The device's index.
    pub(in crate::stack) device: u32,
}

impl From<Box<dyn Link>> for Device {
    fn from(link: Box<dyn Link>) -> Device {
        Device { link, filter: None, steward: None, threads: None }
    }
}

/// The devices' names, in the order in which links are numbered.
pub(in crate::stack) fn names(config: &Config) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for interface in &config.interfaces {
        if !names.contains(&interface.dev.as_str()) {
            names.push(&interface.dev);
        }
    }
    names
}

/// The number of a device's link. The device is one of the configuration's.
pub(in crate::stack) fn number_of(config: &Config, dev: &str) -> u16 {
    names(config).iter().position(|name| *name == dev).unwrap_or_default() as u16
}

/// Opens every device; those opened are closed again if one cannot be.
pub(in crate::stack) fn open(
    config: &Config,
    policy: Option<&PolicySetup>,
    pool: &Pool,
) -> Result<Vec<Device>, StartError> {
    names(config).into_iter().map(|dev| open_one(config, policy, dev, pool)).collect()
}

fn open_one(
    config: &Config,
    policy: Option<&PolicySetup>,
    dev: &str,
    pool: &Pool,
) -> Result<Device, StartError> {
    let of_device = || config.interfaces.iter().filter(|i| i.dev == dev);
    let Some(first) = of_device().next() else {
        return Err(StartError::Setting(format!("no interface is on {dev}")));
    };
    if policy.is_some() && first.link != LinkKind::AfXdp {
        tracing::warn!(device = dev, "it takes no filters: the policy is not followed there");
    }
    match first.link {
        LinkKind::Tap => open_tap(config, first),
        LinkKind::Pcap => replay::open(first, config.aids.station).map(Device::from),
        LinkKind::AfXdp => {
            let own = of_device().flat_map(|i| &i.addresses).map(|address| address.addr());
            open_af_xdp(config, first, own.collect(), policy, pool)
        }
    }
}

fn open_af_xdp(
    config: &Config,
    interface: &Interface,
    mut addresses: BTreeSet<IpAddr>,
    policy: Option<&PolicySetup>,
    pool: &Pool,
) -> Result<Device, StartError> {
    let by_port = interface.share == Share::Ports;
    let has_applications = by_port && config.apps.is_some();
    if has_applications {
        // From the first packet on, as those of the stack before were.
        addresses.extend(addresses_of(slice::from_ref(&interface.dev)).iter().map(SocketAddr::ip));
    }
    let share = match interface.share {
        Share::Address => af_xdp::Share::Address(addresses.iter().copied().collect()),
        // Those that the kernel gets later are followed.
        Share::Ports => af_xdp::Share::Ports(
            addresses.iter().copied().collect(),
            ports::of(&config.services).into_iter().collect(),
        ),
        Share::None => af_xdp::Share::None,
    };
    let mut settings = AfXdpConfig { share, ..AfXdpConfig::new(&interface.dev, pool.clone()) };
    // The host sets the number of its frames, once it knows all devices.
    settings.lend_first = 64;
    if let (Some(threads), true) = (interface.threads, policy.is_some_and(PolicySetup::shares)) {
        let dev = &interface.dev;
        return Err(StartError::Setting(format!(
            "`threads = {threads}` of {dev}: the policy decides by `[sharing]`; leave one of them out"
        )));
    }
    let claim = claim(&interface.dev)?;
    let device = ifindex(&interface.dev).unwrap_or_default();
    if has_applications {
        let range = config.ephemeral_ports();
        settings.ephemeral = Some((range.first, range.last));
    }
    if has_applications {
        settings.lease = Duration::from_secs(config.apps_keep.into());
    }
    settings.pins = pins(&interface.dev, device, has_applications && config.apps_keep > 0);
    let workers = config.cores.len().max(1) as u16;
    let prepared = policy.map(|policy| prepare(&interface.dev, workers, policy));
    let prepared = prepared.transpose()?.flatten();
    match prepared {
        // Its queues belong to the workers; the program only counts.
        Some(_) => settings.classifies = true,
        // One for each worker, on every queue.
        None if policy.is_some() => settings.sockets_per_queue = workers,
        None if interface.threads.is_some() => {
            (settings.sockets_per_queue, settings.rotated) = (workers, true);
        }
        None => {}
    }
    settings.threads_per_queue = interface.threads.unwrap_or(1);
    settings.ordered = interface.ordered;
    let nic = prepared.as_ref().map(|prepared| prepared.steering.clone());
    let link = AfXdp::open(&settings)?;
    let steward = policy.map(|policy| start_steward(&link, prepared, workers, policy));
    let steward = steward.transpose()?.flatten();
    let threads = Some(Arc::clone(link.threads())).filter(|threads| threads.most() > 1);
    let filter = (interface.share != Share::None).then(|| AddressFilter {
        steering: Arc::clone(link.steering()),
        addresses,
        by_port,
        device,
    });
    let link: Box<dyn Link> = match interface.share {
        Share::Address => Box::new(overhear(link).map_err(OpenError::from)?),
        Share::Ports | Share::None => Box::new(link),
    };
    let link = holding(link, nic, claim);
    Ok(Device { link, filter, steward, threads })
}

/// Where the device's ports outlive the stack, if they are to; else those of a stack before are the kernel's.
fn pins(dev: &str, device: u32, keeps: bool) -> Option<Pins> {
    let pins = Pins::of(device).ok()?;
    if !keeps {
        if pins.exist() {
            tracing::info!(device = dev, "ports that a stack has kept are the kernel's again");
            ephemeral::release(&pins).unwrap_or_else(|error| {
                tracing::warn!(device = dev, "they cannot be given back: {error}");
            });
        }
        return None;
    }
    match pins.prepare() {
        Ok(()) => Some(pins),
        Err(error) => {
            tracing::warn!(
                device = dev,
                "the kernel will answer for applications' ports while no stack runs: /sys/fs/bpf: {error}; \
                 `mount -t bpf bpf /sys/fs/bpf`, or `apps-keep = 0`"
            );
            None
        }
    }
}

/// The device with a queue for each worker, if it sorts packets itself and there are several.
fn prepare(
    dev: &str,
    workers: u16,
    policy: &PolicySetup,
) -> Result<Option<PreparedNic>, PolicyError> {
    let model = policy.model(dev).filter(|model| model.is_hardware && workers > 1);
    model.map(|model| PreparedNic::open(dev, policy, model)).transpose()
}

fn start_steward(
    link: &AfXdp,
    prepared: Option<PreparedNic>,
    workers: u16,
    policy: &PolicySetup,
) -> Result<Option<Steward>, PolicyError> {
    let LinkInfo { name, queues, .. } = link.info();
    let (link, queues) = (link.steering(), *queues);
    match (prepared, policy.model(name)) {
        (Some(_), _) if queues < workers => {
            Err(PolicyError::Queues { link: name.clone(), queues, workers: workers.into() })
        }
        (Some(prepared), _) => steward::on_nic(name, prepared, Some(link)).map(Some),
        (None, Some(model)) => steward::on_program(name, link, policy, model),
        (None, None) => Ok(None),
    }
}

/// A queue for each worker. The kernel's stack is at the other end, so nothing is shared.
fn open_tap(config: &Config, interface: &Interface) -> Result<Device, StartError> {
    let queues = config.cores.len().max(1) as u16;
    let settings = TapConfig { queues, mtu: interface.mtu, ..TapConfig::new(&interface.dev) };
    let link: Box<dyn Link> = Box::new(Tap::open(&settings)?);
    Ok(link.into())
}

/// A link with the claim on its device, which is given up with it. The policy's changes to the
/// device are undone after the link is closed, since drivers keep queues that have sockets.
struct Held {
    link: Box<dyn Link>,
    _nic: Option<SharedNicSteering>,
    _claim: Option<Claim>,
}

impl Link for Held {
    fn info(&self) -> &LinkInfo {
        self.link.info()
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        self.link.take_queues()
    }
}

/// Claims a device of the calling thread's network namespace; `None` if there is no such device,
/// which opening it will report.
pub(in crate::stack) fn claim(dev: &str) -> Result<Option<Claim>, ClaimError> {
    ifindex(dev).map(|index| Claim::of(dev, index, "`weever up`")).transpose()
}

/// The link, which keeps the claim and the policy's changes to the device as long as it exists.
pub(in crate::stack) fn holding(
    link: Box<dyn Link>,
    nic: Option<SharedNicSteering>,
    claim: Option<Claim>,
) -> Box<dyn Link> {
    if nic.is_none() && claim.is_none() {
        return link;
    }
    Box::new(Held { link, _nic: nic, _claim: claim })
}

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
                let number = usize::from(number_of(config, &interface.dev));
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
