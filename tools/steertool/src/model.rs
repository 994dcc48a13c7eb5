//! Which model a device has.

use weever_device::ethtool::{Driver, EthtoolError};

/// Drivers and the models of what they drive. The first of a driver's NICs stands for all.
const DRIVERS: [(&str, &str); 9] = [
    ("ixgbe", "82599"),
    ("sfc", "sfc9020"),
    ("sfc-siena", "sfc9020"),
    ("i40e", "x710"),
    ("ice", "e810"),
    ("mlx5_core", "connectx5"),
    ("ena", "ena"),
    ("gve", "gvnic"),
    ("igb", "82576"),
];

/// The model of a device by its driver's name, and `xdp` for those that have no filters.
pub(crate) fn of(driver: &mut dyn Driver) -> Result<&'static str, EthtoolError> {
    let name = match driver.identity() {
        Err(e) if e.is_unsupported() => return Ok("xdp"),
        identity => identity?.driver,
    };
    let known = DRIVERS.iter().find(|(driver, _)| *driver == name);
    match (known, driver.table()) {
        (Some((_, model)), Ok(_)) => Ok(model),
        (_, Err(e)) if e.is_gone() => Err(e),
        _ => Ok("xdp"),
    }
}

/// Whether frames of this machine's own kernel come over the device with unfinished checksums.
pub(crate) fn may_have_partial_checksums(driver: &mut dyn Driver) -> bool {
    driver
        .identity()
        .is_ok_and(|identity| ["veth", "virtio_net", "tun"].contains(&&*identity.driver))
}
