//! Ports of services, on devices where the rest is the kernel's, and the processes whose kernel sockets lose
//! them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use weever_link_sys::af_xdp::{Port, Steering};

use super::holders::{names, sockets_on};
use crate::config::Services;

/// The ports taken from devices that are shared by port.
#[derive(Debug, Default)]
pub(in crate::stack) struct TakenPorts {
    devices: Vec<Arc<Steering>>,
    taken: Mutex<BTreeSet<Port>>,
}

/// The ports that services are bound to.
pub(in crate::stack) fn of(services: &Services) -> BTreeSet<Port> {
    let of = |(_, protocol, port)| match protocol {
        "tcp" => Port::tcp(port),
        _ => Port::udp(port),
    };
    services.running().map(of).collect()
}

impl TakenPorts {
    /// Devices from which the ports of `services` have been taken.
    pub(in crate::stack) fn new(devices: Vec<Arc<Steering>>, services: &Services) -> TakenPorts {
        let taken = of(services);
        if !devices.is_empty() {
            taken.iter().for_each(|port| drop(warn_of_holders(*port)));
        }
        TakenPorts { devices, taken: Mutex::new(taken) }
    }

    /// Takes and gives back the ports that differ. Returns complaints of devices that refused, which
    /// are tried again the next time, and ports that the kernel's sockets lose.
    pub(in crate::stack) fn follow(&self, services: &Services) -> Vec<String> {
        let wanted = of(services);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut complaints, mut warnings) = (Vec::new(), Vec::new());
        let mut note = |port: Port, done: Result<(), String>| match done {
            Ok(()) => true,
            Err(why) => {
                let complaint = format!("port {} stays as it was: {why}", port.port);
                tracing::warn!("{complaint}");
                complaints.push(complaint);
                false
            }
        };
        let gone: Vec<Port> = taken.difference(&wanted).copied().collect();
        let new: Vec<Port> = wanted.difference(&taken).copied().collect();
        for port in gone {
            if note(port, self.each(|device| device.remove_port(port).map(drop))) {
                taken.remove(&port);
            }
        }
        for port in new {
            if !self.devices.is_empty() {
                warnings.extend(warn_of_holders(port));
            }
            if note(port, self.each(|device| device.add_port(port))) {
                taken.insert(port);
            }
        }
        complaints.extend(warnings);
        complaints
    }

    fn each<E: ToString>(&self, change: impl Fn(&Steering) -> Result<(), E>) -> Result<(), String> {
        self.devices.iter().try_for_each(|device| change(device)).map_err(|e| e.to_string())
    }
}

/// Warns of sockets of the kernel that get nothing more from the devices.
fn warn_of_holders(port: Port) -> Option<String> {
    let sockets = sockets_on(false, port.port..=port.port);
    if sockets.is_empty() {
        return None;
    }
    let holders = names(&sockets);
    let warning = format!(
        "UDP port {} is taken from {holders}: its socket receives nothing from the shared devices \
         while this service runs; give one of them another port",
        port.port
    );
    tracing::warn!("{warning}");
    Some(warning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_run_have_ports() {
        let services = Services { echo: Some(7), tcp_echo: Some(8), ..Services::default() };
        assert_eq!(of(&services), [Port::udp(7), Port::tcp(8)].into());
        assert!(TakenPorts::default().follow(&services).is_empty(), "there is no device to ask");
        assert!(of(&Services::default()).is_empty());
    }
}
