//! The model of a device.

use crate::ethtool::{Driver, EthtoolError};

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
}
