//! Errors found before a device is touched, in namespaces of its own.

use std::net::Ipv4Addr;

use weever_daemon::config::Config;
use weever_daemon::preflight::{PreflightError, check, probe};
use weever_testbed::{Fixture, require_net_admin};

fn config(dev: &str, address: Ipv4Addr) -> Config {
    Config::new(dev, format!("{address}/24").parse().unwrap())
}

#[test]
fn a_free_address_on_a_device_that_is_up_is_fine() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let config = config("left0", Fixture::LEFT);
    net.left.run(|| check(&config)).unwrap();
    net.left.run(|| probe(&config)).unwrap();
}

#[test]
fn a_device_that_is_not_there_or_down_is_named() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let error = net.left.run(|| check(&config("left1", Fixture::LEFT))).unwrap_err();
    assert!(matches!(error, PreflightError::NoDevice { .. }), "{error}");
    assert!(error.to_string().contains("did you mean left0?"), "{error}");
    net.left.set_down("left0").unwrap();
    let error = net.left.run(|| check(&config("left0", Fixture::LEFT))).unwrap_err();
    assert!(matches!(error, PreflightError::Down { .. }), "{error}");
    assert!(error.to_string().contains("ip link set left0 up"), "{error}");
}

#[test]
fn an_address_of_the_kernel_is_refused_on_whatever_device_it_is() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.left.add_address("lo", Fixture::LEFT, 32).unwrap();
    let error = net.left.run(|| check(&config("left0", Fixture::LEFT))).unwrap_err();
    assert!(error.to_string().contains("ip addr del 10.77.0.1/32 dev lo"), "{error}");
}

#[test]
fn an_address_of_another_host_is_refused_unless_one_does_not_ask() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    net.veth.right.add_address(Fixture::RIGHT, 24).unwrap();
    let mut config = config("left0", Fixture::RIGHT);
    net.left.run(|| check(&config)).unwrap();
    let error = net.left.run(|| probe(&config)).unwrap_err();
    let PreflightError::HostHas { owner, .. } = &error else { panic!("{error}") };
    assert_eq!(owner.0, net.veth.right.mac);
    config.probe = false;
    net.left.run(|| probe(&config)).unwrap();
}
