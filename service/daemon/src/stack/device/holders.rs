//! The kernel's sockets on a port, and the processes that have them.
//!
//! `/proc/net` lists sockets that receive or are connected, by the calling thread's network namespace.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::Path;

/// The tables of sockets of a protocol.
const UDP: [&str; 2] = ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"];
const TCP: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
/// `TCP_TIME_WAIT`, in which a connection belongs to nobody.
const TIME_WAIT: &str = "06";

/// A socket of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::stack) struct KernelSocket {
    address: IpAddr,
    pub(in crate::stack) port: u16,
    /// The user that made it.
    pub(in crate::stack) user: u32,
    inode: u64,
}

/// The sockets with a local port in a range. Reads `/proc`.
pub(in crate::stack) fn sockets_on(stream: bool, ports: RangeInclusive<u16>) -> Vec<KernelSocket> {
    let tables = if stream { TCP } else { UDP };
    let tables = tables.iter().filter_map(|path| fs::read_to_string(path).ok());
    tables.flat_map(|table| listed(&table, &ports)).collect()
}

/// The processes that have these sockets, for messages: `dnsmasq (pid 812)`. A process that may not be looked at is
/// "another process".
pub(in crate::stack) fn names(sockets: &[KernelSocket]) -> String {
    let inodes: Vec<u64> = sockets.iter().map(|socket| socket.inode).collect();
    let mut names = processes_with(&inodes);
    if names.is_empty() {
        names.push("another process".into());
    }
    names.join(", ")
}

/// The first of the sockets on one of these addresses, or on all of them, whose port counts, with its protocol and
/// process: `TCP port 61000 of sshd (pid 7)`.
pub(in crate::stack) fn first_in(
    ports: RangeInclusive<u16>,
    addresses: &[IpAddr],
    counts: impl Fn(u16) -> bool,
) -> Option<String> {
    let is_meant = |socket: &KernelSocket| {
        let address = socket.address.to_canonical();
        counts(socket.port) && (address.is_unspecified() || addresses.contains(&address))
    };
    let (stream, socket) = [false, true].into_iter().find_map(|stream| {
        Some((stream, sockets_on(stream, ports.clone()).into_iter().find(is_meant)?))
    })?;
    let protocol = if stream { "TCP" } else { "UDP" };
    Some(format!("{protocol} port {} of {}", socket.port, names(&[socket])))
}

/// The sockets of a table as `/proc/net/udp` has them: a line each with number, local address and port in hexadecimal,
/// remote ones, state, queues, timer, retransmits, user, timeout and inode.
fn listed(table: &str, ports: &RangeInclusive<u16>) -> Vec<KernelSocket> {
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (address, local) = words.get(1)?.rsplit_once(':')?;
        let address = address_of(address)?;
        let port = u16::from_str_radix(local, 16).ok().filter(|port| ports.contains(port))?;
        let (user, inode) = (words.get(7)?.parse().ok()?, words.get(9)?.parse().ok()?);
        (words[3] != TIME_WAIT).then_some(KernelSocket { address, port, user, inode })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// An address as the tables have it: words in hexadecimal, in this machine's order of octets.
fn address_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let octets: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
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
    use std::net::{SocketAddr, TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn a_table_is_read_and_odd_lines_are_passed_over() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n\
            \x20 12: 00000000:0007 00000000:0000 07 00000000:00000000 00:00000000 00000000 5 0 4711 2 0\n\
            \x20 13: 0100007F:0009 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4712 2 0\n\
            \x20 14: 0100007F:0009 00000000:0000 06 00000000:00000000 00:00000000 00000000 0 0 0 2 0\n\
            nonsense\n 14: x:y\n";
        let inodes = |ports| -> Vec<(u32, u64)> {
            listed(table, &ports).iter().map(|socket| (socket.user, socket.inode)).collect()
        };
        assert_eq!(inodes(7..=7), [(5, 4711)]);
        assert_eq!(inodes(9..=9), [(0, 4712)], "nobody has what is in TIME-WAIT");
        assert_eq!(inodes(7..=9).len(), 2);
        assert!(inodes(8..=8).is_empty() && listed("", &(0..=9)).is_empty());
    }

    #[test]
    fn a_socket_is_found_with_its_process() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no such table.
            let Ok(udp) = UdpSocket::bind(address) else { continue };
            let tcp = TcpListener::bind(address).unwrap();
            let ports = [udp.local_addr().unwrap().port(), tcp.local_addr().unwrap().port()];
            for (stream, port) in [false, true].into_iter().zip(ports) {
                let found = sockets_on(stream, port..=port);
                let own = format!("(pid {})", std::process::id());
                assert!(names(&found).contains(&own), "{found:?}");
                assert!(!found.is_empty());
            }
            let [_, port] = ports;
            let here = [address.parse::<SocketAddr>().unwrap().ip()];
            let first = first_in(port..=port, &here, |_| true).unwrap();
            assert!(first.contains("port") && first.contains(" of "), "{first}");
            let other = ["192.0.2.1".parse().unwrap()];
            assert_eq!(first_in(port..=port, &other, |_| true), None, "on another address");
            assert_eq!(first_in(port..=port, &here, |_| false), None);
        }
    }
}
