//! Which model a device has.

use crate::ethtool::{Driver, EthtoolError};

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
///
/// # Errors
/// [`EthtoolError::Gone`].
pub fn model_of(driver: &mut dyn Driver) -> Result<&'static str, EthtoolError> {
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

/// Whether frames of this machine's own kernels come over the device with unfinished checksums, which
/// a program in the driver makes the kernel forget. (virtio-net has the host finish them when a program
/// is attached, or does not let one be attached.)
pub fn hands_over_partial_checksums(driver: &mut dyn Driver) -> bool {
    driver.identity().is_ok_and(|identity| ["veth", "tun"].contains(&&*identity.driver))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::Simulated;

    #[test]
    fn a_driver_that_is_known_has_a_model_if_it_takes_rules() {
        let mut device = Simulated::new("sim0", 4, 16);
        for (driver, model) in [("ixgbe", "82599"), ("mlx5_core", "connectx5"), ("veth", "xdp")] {
            device.driver = driver.into();
            assert_eq!(model_of(&mut device).unwrap(), model);
            assert_eq!(hands_over_partial_checksums(&mut device), driver == "veth");
        }
        device.driver = "ixgbe".into();
        device.size = 0;
        assert_eq!(model_of(&mut device).unwrap(), "xdp", "it takes no rules");
        device.gone = true;
        assert!(model_of(&mut device).unwrap_err().is_gone());
    }

    #[test]
    fn every_driver_has_a_model_that_ships() {
        for (driver, model) in DRIVERS {
            assert!(weever_models::nic(model).is_ok(), "{driver}");
        }
    }
}
