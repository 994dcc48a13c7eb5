//! Plans onto devices.
//!
//! - [`ethtool`]: the kernel's interface to a NIC's settings, and a simulated NIC.
//! - [`actions`]: a plan as the steps from a NIC's settings to the desired ones, which are
//!   taken, reverted when one fails, and undone in the end.
//! - [`xdp`]: a plan on any device, by a program that sorts frames into software queues.
//! - [`nic`]: a NIC that is kept to a plan by the two above it, with a file that outlives the process.
//! - [`state`]: a device as it is now.
//! - [`claim`]: one process steers a device at a time.
//!
//! What the kernel says by netlink (announcements of changes, counters of queues) is read in `netlink`.
//!
//! Nothing here plans or reads files of policies, and nothing runs on its own: the caller decides
//! when. Calls block for as long as the device or the kernel takes.
#![allow(unsafe_code, reason = "ethtool's ioctl takes addresses")]

pub mod actions;
pub mod claim;
pub mod ethtool;
mod netlink;
pub mod nic;
pub mod state;
pub mod xdp;

use std::ffi::{CStr, CString};

use ethtool::{Channels, Driver, EthtoolError};
use weever_graph::nic::RssHash;
use weever_plan::nic::Nic;

/// The number of an interface of the calling thread's network namespace; nothing if there is none
/// of that name.
pub fn ifindex(device: &str) -> Option<u32> {
    let name = CString::new(device).ok()?;
    // SAFETY: the name is a live string that ends in a zero.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// The present name of an interface of the calling thread's network namespace; nothing if there is none
/// of that number.
pub fn name_of(ifindex: u32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: there is room for IF_NAMESIZE bytes, which is all that is written.
    let found = unsafe { libc::if_indextoname(ifindex, name.as_mut_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: the call has filled the array, which is live, with a string that ends in a zero.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().ok().map(str::to_owned)
}

/// The model of a device: the one that `by_driver` finds for its driver if the device takes rules, and
/// `xdp` otherwise.
///
/// # Errors
/// [`EthtoolError::Gone`].
pub fn model_of<'m>(
    driver: &mut dyn Driver,
    by_driver: impl FnOnce(&str) -> Option<&'m str>,
) -> Result<&'m str, EthtoolError> {
    let name = match driver.identity() {
        Err(e) if e.is_unsupported() => return Ok("xdp"),
        identity => identity?.driver,
    };
    match (by_driver(&name), driver.table()) {
        (Some(model), Ok(_)) => Ok(model),
        (_, Err(e)) if e.is_gone() => Err(e),
        _ => Ok("xdp"),
    }
}

/// A model's NIC with the sizes that this device has, and the features that are on ([`Nic::as_found`]).
///
/// # Errors
/// [`EthtoolError::Gone`]. What the driver does not tell is the model's.
pub fn as_found(driver: &mut dyn Driver, nic: Nic) -> Result<Nic, EthtoolError> {
    let told = |size: Result<Option<usize>, EthtoolError>| match size {
        Err(error) if error.is_gone() => Err(error),
        size => Ok(size.ok().flatten().and_then(|size| u32::try_from(size).ok())),
    };
    let entries = told(driver.spreading(0).map(|spreading| Some(spreading.table.len())))?;
    // With another number of queues, the table has the size that the model says.
    let is_other = |now: Channels| now.receiving() != nic.queues.count();
    let resizes = nic.resizes_with_queues() && driver.channels().is_ok_and(is_other);
    let entries = entries.filter(|_| !resizes);
    let locations = told(driver.table().map(|table| table.locations.map(|n| n as usize)))?;
    let nic = with_hash(driver, nic)?;
    let mut on = std::collections::BTreeMap::new();
    for name in nic.features.iter().flat_map(|feature| &feature.model.ethtool) {
        match driver.feature(name) {
            Err(error) if error.is_gone() => return Err(error),
            Err(_) => {}
            // A driver without the feature does no such work.
            Ok(state) => drop(on.insert(name.clone(), state == Some(true))),
        }
    }
    Ok(nic.as_found(entries, locations).with_features(&on))
}

/// The NIC with the hash that the device has. Its key counts only where function and symmetry are the model's.
fn with_hash(driver: &mut dyn Driver, nic: Nic) -> Result<Nic, EthtoolError> {
    let Some(rss) = &nic.rss else { return Ok(nic) };
    let known = |error: EthtoolError| if error.is_gone() { Err(error) } else { Ok(()) };
    let mut fields = Vec::new();
    for listed in &rss.types {
        match driver.hash_fields(listed.flow_type) {
            Ok(now) => fields.push((listed.flow_type, now.as_model())),
            Err(error) => known(error)?,
        }
    }
    let is_as_modelled = match (driver.hashing(), rss.hash) {
        // Kernels before 6.8 do not tell whether it is symmetric, and say that it is not.
        (Ok(now), RssHash::Toeplitz { symmetric, .. }) => {
            now.function == "toeplitz" && now.symmetric == symmetric
        }
        (Err(error), _) => known(error).map(|()| false)?,
        _ => false,
    };
    let key = match driver.spreading(0) {
        Ok(spreading) => Some(spreading.key).filter(|_| is_as_modelled),
        Err(error) => known(error).map(|()| None)?,
    };
    Ok(nic.with_hash(&fields, key))
}

/// Whether frames of this machine's own kernels come over the device with unfinished checksums, which
/// a program in the driver makes the kernel forget. (virtio-net has the host finish them when a program
/// is attached, or does not let one be attached.)
pub fn hands_over_partial_checksums(driver: &mut dyn Driver) -> bool {
    driver.identity().is_ok_and(|identity| ["veth", "tun"].contains(&&*identity.driver))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::{HashFields, Profile, Simulated};
    use weever_graph::nic::{FlowType, RssFields};

    #[test]
    fn a_driver_that_is_known_has_a_model_if_it_takes_rules() {
        let mut device = Simulated::new("sim0", 4, 16);
        let known = |driver: &str| (driver == "vapour").then_some("invented");
        for (driver, model) in [("vapour", "invented"), ("veth", "xdp")] {
            device.driver = driver.into();
            assert_eq!(model_of(&mut device, known).unwrap(), model);
            assert_eq!(hands_over_partial_checksums(&mut device), driver == "veth");
        }
        device.driver = "vapour".into();
        device.size = 0;
        assert_eq!(model_of(&mut device, known).unwrap(), "xdp", "it takes no rules");
        device.gone = true;
        assert!(model_of(&mut device, known).unwrap_err().is_gone());
    }

    #[test]
    fn plans_have_the_hash_of_the_device() {
        let of = |name: &str| Nic::linux_of(&weever_models::nic(name).unwrap()).unwrap();
        let mut device = Simulated::new("sim0", 4, 16);
        let key = |device: &mut Simulated, name: &str| as_found(device, of(name)).unwrap().hash_key;
        assert_eq!(key(&mut device, "virtio_net"), Some(vec![7; 40]));
        assert_eq!(key(&mut device, "connectx5"), None, "the model's hash is symmetric");
        assert_eq!(key(&mut device, "x710"), None, "the model's key is longer");
        device.symmetric = true;
        assert_eq!(key(&mut device, "virtio_net"), None);
        assert_eq!(key(&mut device, "connectx5"), Some(vec![7; 40]));
        device.symmetric = false;
        // The addresses alone are hashed of TCP, where the model begins with the ports.
        let fields = |nic: &Nic| nic.rss.as_ref().unwrap().default_fields(FlowType::Tcp4);
        assert_eq!(fields(&of("virtio_net")), RssFields::FourTuple);
        let found = as_found(&mut device, of("virtio_net")).unwrap();
        assert_eq!(fields(&found), RssFields::Addresses);
        // Fields that no plan can reckon with.
        device.set_hash_fields(FlowType::Udp6, HashFields(1 << 4)).unwrap();
        assert_eq!(key(&mut device, "virtio_net"), None);
        device.spreading.clear();
        assert_eq!(key(&mut device, "virtio_net"), None);
    }

    /// `mlx5_core` with 200 queues, for a plan with fewer.
    #[test]
    fn plans_have_the_size_that_a_table_will_have_with_their_queues() {
        let model = Nic::linux_of(&weever_models::nic("connectx5").unwrap()).unwrap();
        let mut device = Simulated::of(Profile::Mlx5, "sim0", 200, 16);
        assert_eq!(device.spreading(0).unwrap().table.len(), 512);
        for (queues, entries) in [(200, 512), (129, 512), (128, 256), (4, 256)] {
            let nic = model.with_queues(queues).unwrap();
            let found = as_found(&mut device, nic).unwrap();
            assert_eq!(found.rss.unwrap().entries, entries, "{queues} queues");
        }
    }

    #[test]
    fn plans_have_the_sizes_of_the_device() {
        let model = weever_plan::nic::Nic::linux_of(&weever_models::nic("x710").unwrap()).unwrap();
        let sizes = |nic: &Nic| (nic.rss.as_ref().unwrap().entries, nic.locations);
        let mut device = Simulated::new("sim0", 4, 16);
        let found = as_found(&mut device, model.clone()).unwrap();
        assert_eq!((sizes(&model).0, sizes(&found)), (512, (128, Some(16))));
        let vouches = |nic: &Nic| !nic.vouched(&[]).each.is_empty();
        assert!(vouches(&model) && !vouches(&found), "it has no such feature");
        for on in [true, false] {
            device.features.insert("rx-checksum".into(), on);
            assert_eq!(vouches(&as_found(&mut device, model.clone()).unwrap()), on);
        }
        device.size = 1 << 20;
        device.spreading.clear();
        let found = as_found(&mut device, model.clone()).unwrap();
        assert_eq!(sizes(&found), sizes(&model), "nothing smaller is known");
        device.gone = true;
        assert!(as_found(&mut device, model).unwrap_err().is_gone());
    }
}
