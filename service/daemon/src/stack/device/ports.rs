//! Ports of services, on devices where the rest is the kernel's, and the processes whose kernel sockets lose
//! them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use weever_link_sys::af_xdp::{Port, Steering};

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
    let holders = holders_of_udp(port.port)?;
    let warning = format!(
        "UDP port {} is taken from {holders}: its socket receives nothing from the shared devices \
         while this service runs; give one of them another port",
        port.port
    );
    tracing::warn!("{warning}");
    Some(warning)
}

/// The tables of UDP sockets in the calling thread's network namespace.
const TABLES: [&str; 2] = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];

/// The processes that have a kernel socket on a UDP port of this network namespace, for messages:
/// `dnsmasq (pid 812)`. `None` if there is no such socket. Reads `/proc`; a process that may not be
/// looked at is "another process".
pub(in crate::stack) fn holders_of_udp(port: u16) -> Option<String> {
    let tables = TABLES.iter().filter_map(|path| fs::read_to_string(path).ok());
    let inodes: Vec<u64> = tables.flat_map(|table| inodes_on(&table, port)).collect();
    if inodes.is_empty() {
        return None;
    }
    let mut names: Vec<String> = processes_with(&inodes);
    if names.is_empty() {
        names.push("another process".into());
    }
    Some(names.join(", "))
}

/// The inodes of the sockets on a local port, of a table as `/proc/net/udp` has them: a line each with
/// number, local address and port in hexadecimal, remote ones, state, queues, timer, retransmits, user,
/// timeout and inode.
fn inodes_on(table: &str, port: u16) -> Vec<u64> {
    let inode = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (_, local) = words.nth(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(local, 16).ok()? == port;
        words.nth(7)?.parse().ok().filter(|_| is_it)
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn processes_with(inodes: &[u64]) -> Vec<String> {
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let has_one = |process: &Path| {
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let targets = descriptors.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        targets.into_iter().any(|target| links.iter().any(|link| target == Path::new(link)))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, entry.path()))
    });
    let holding = numbered.filter(|(_, path)| has_one(path));
    let named = holding.map(|(pid, path)| {
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        format!("{} (pid {pid})", name.trim_end())
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn services_that_run_have_ports() {
        let services = Services { echo: Some(7), tcp_echo: Some(8), ..Services::default() };
        assert_eq!(of(&services), [Port::udp(7), Port::tcp(8)].into());
        assert!(TakenPorts::default().follow(&services).is_empty(), "there is no device to ask");
        assert!(of(&Services::default()).is_empty());
    }

    #[test]
    fn a_table_is_read_and_odd_lines_are_passed_over() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
            \x20 12: 00000000:0007 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4711 2 0\n\
            \x20 13: 0100007F:0009 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4712 2 0\n\
            nonsense\n 14: x:y\n";
        assert_eq!(inodes_on(table, 7), [4711]);
        assert_eq!(inodes_on(table, 9), [4712]);
        assert!(inodes_on(table, 8).is_empty() && inodes_on("", 7).is_empty());
    }

    #[test]
    fn a_socket_is_found_with_its_process() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no such table.
            let Ok(socket) = UdpSocket::bind(address) else { continue };
            let port = socket.local_addr().unwrap().port();
            let holders = holders_of_udp(port).expect("it is bound");
            assert!(holders.contains(&format!("(pid {})", std::process::id())), "{holders}");
        }
    }
}
