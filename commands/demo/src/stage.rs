//! A stack, a peer, and the link between them: AF_XDP on one end of a veth pair with the kernel's
//! stack at the other, or without privileges a memory link with smoltcp at the other end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weever_daemon::Stack;
use weever_daemon::config::Config;
use weever_link::Link;
use weever_link::memory::{MemoryConfig, pair};
use weever_packet::{Pool, PoolConfig};
use weever_service_api::{Client, ClientError};
use weever_testbed::{Fixture, Namespace};

use crate::kernel::{KernelPeer, Talk};
use crate::outcome::DemoError;
use crate::peer::{Ends, Peer};
use crate::smoltcp_peer::{SmoltcpPeer, UDP_PORT};
use crate::steps::{BOUND, Finding, Steps};

/// Where weever's UDP echo service listens.
pub(crate) const PORT: u16 = 7;

/// weever's link-local address. One that is made of the MAC address would be the kernel's just as
/// well, which has its own traffic on the device.
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x77, 2);
const STACK6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2);
const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1);

/// IPv4 addresses on the memory link.
const MEMORY_STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const MEMORY_PEER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// Queues of the veth pair. The kernel spreads its flows over them.
const QUEUES: u32 = 4;

/// The control socket keeps an idle connection for a minute; one that is older than this is not
/// used again.
const FRESH: Duration = Duration::from_secs(30);

/// A stack's control socket.
pub(crate) struct Control {
    path: PathBuf,
    client: Option<(Client, Instant)>,
}

impl Control {
    /// Connects when first used.
    pub(crate) fn new(path: PathBuf) -> Control {
        Control { path, client: None }
    }

    /// Asks the stack, over a new connection if the one there is has been idle or has failed.
    pub(crate) fn ask<T>(
        &mut self,
        call: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let kept = self.client.take().filter(|(_, used)| used.elapsed() < FRESH);
        let mut client = match kept {
            Some((client, _)) => client,
            None => Client::connect(&self.path)?,
        };
        let answer = call(&mut client);
        if matches!(answer, Ok(_) | Err(ClientError::Refused(_))) {
            self.client = Some((client, Instant::now()));
        }
        answer
    }
}

/// Everything that a demonstration needs. Dropping it leaves nothing behind.
pub(crate) struct Stage {
    pub(crate) stack: Stack,
    pub(crate) control: Control,
    pub(crate) peer: Box<dyn Peer>,
    /// Dropped last.
    pub(crate) network: Option<Fixture>,
}

/// Why IPv6 cannot be shown with this kernel, `None` if it can. Some kernels are built without it,
/// and some answer no ICMPv6, so that no host of the kernel's could be a peer.
pub(crate) fn lacks_ipv6() -> Option<String> {
    match Namespace::new().map_err(DemoError::from).and_then(|one| answers_icmpv6(&one)) {
        Ok(true) => None,
        Ok(false) => Some("this machine's kernel answers no ICMPv6 echo request to ::1".into()),
        Err(error) => Some(format!("this machine's kernel has no working IPv6: {error}")),
    }
}

/// Whether the kernel answers an echo request to `::1` in a namespace. Blocks for two seconds or so
/// if it does not.
fn answers_icmpv6(namespace: &Namespace) -> Result<bool, DemoError> {
    namespace.speak_ipv6()?;
    let mut talk = namespace.run(|| Talk::open(IpAddr::V6(Ipv6Addr::LOCALHOST), 0, PORT))?;
    // More than once: the address may have to be assigned yet.
    for _ in 0..10 {
        let reply = talk.ping(b"there?", Duration::from_millis(200));
        if reply.is_ok_and(|reply| reply.is_some()) {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(false)
}

/// Two namespaces, a veth pair, and a stack on the right end of it; `None` if a step failed.
pub(crate) fn on_kernel(steps: &mut Steps, control: PathBuf, ipv6: bool) -> Option<Stage> {
    let network = steps.attempt(BOUND, "two network namespaces and a veth pair", |_| {
        let network = Fixture::pair(QUEUES)?;
        network.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX)?;
        if ipv6 {
            network.veth.left.speak_ipv6(PEER6, 64)?;
        }
        Ok((network, Finding::ok(format!("{QUEUES} queues, gone when the demo ends"))))
    })?;
    let stack = steps.attempt(BOUND, "weever starts", |_| {
        let config = config("right0", Fixture::RIGHT, ipv6, control.clone())?;
        let stack = network.right.run(|| Stack::start(config)).map_err(DemoError::start)?;
        let mode = stack.status().mode;
        Ok((stack, Finding::ok(mode)))
    })?;
    let peer = steps.attempt(BOUND, "the kernel's sockets", |_| {
        let (left, right) = (network.veth.left.info()?, network.veth.right.info()?);
        let ends = Ends {
            stack_mac: right.mac,
            stack: Fixture::RIGHT,
            stack6: STACK6,
            stack_ll: LINK_LOCAL,
            peer_mac: left.mac,
            peer: Fixture::LEFT,
            peer6: PEER6,
            // Known when the peer has opened its sockets.
            peer_port: 0,
        };
        let peer = KernelPeer::open(&network.left, (&left.name, left.index), ends, PORT, ipv6)?;
        Ok((peer, Finding::ok("opened")))
    })?;
    let (control, network) = (Control::new(control), Some(network));
    Some(Stage { stack, control, peer: Box::new(peer), network })
}

/// A memory link with a stack on one end; `None` if a step failed.
pub(crate) fn in_memory(steps: &mut Steps, control: PathBuf) -> Option<Stage> {
    let (stack, peer) = steps.attempt(BOUND, "weever starts", |_| {
        let (mut left, right) = pair(&MemoryConfig::default()).map_err(DemoError::start)?;
        let ends = Ends {
            stack_mac: right.info().mac,
            stack: MEMORY_STACK,
            stack6: STACK6,
            stack_ll: LINK_LOCAL,
            peer_mac: left.info().mac,
            peer: MEMORY_PEER,
            peer6: PEER6,
            peer_port: UDP_PORT,
        };
        let config = config(&right.info().name, MEMORY_STACK, true, control.clone())?;
        let pool = || Pool::new(PoolConfig::default()).map_err(DemoError::start);
        let stack =
            Stack::start_on(vec![Box::new(right)], pool()?, config).map_err(DemoError::start)?;
        let queue = left.take_queues().pop();
        let queue = queue.ok_or_else(|| DemoError::start("the link has no queue"))?;
        let peer = SmoltcpPeer::new(queue, pool()?.cache(), ends, PORT);
        Ok(((stack, peer), Finding::ok("on a memory link")))
    })?;
    Some(Stage { stack, control: Control::new(control), peer: Box::new(peer), network: None })
}

fn config(device: &str, v4: Ipv4Addr, ipv6: bool, control: PathBuf) -> Result<Config, DemoError> {
    let prefix = format!("{v4}/{}", Fixture::PREFIX).parse().map_err(DemoError::start)?;
    let mut config = Config::new(device, prefix);
    for six in [STACK6, LINK_LOCAL].into_iter().filter(|_| ipv6) {
        let prefix = format!("{six}/64").parse().map_err(DemoError::start)?;
        config.interfaces[0].addresses.push(prefix);
    }
    config.services.echo = Some(PORT);
    config.control = Some(control);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_answers_no_icmpv6_is_found_out() {
        weever_testbed::require_net_admin!();
        let namespace = Namespace::new().unwrap();
        if namespace.sysctl("net/ipv6/icmp/echo_ignore_all", "1").is_err() {
            println!("skipped: this kernel has no IPv6");
            return;
        }
        assert!(!answers_icmpv6(&namespace).unwrap());
        // A kernel that answers nowhere gives no answer here either.
        namespace.sysctl("net/ipv6/icmp/echo_ignore_all", "0").unwrap();
        assert_eq!(answers_icmpv6(&namespace).unwrap(), lacks_ipv6().is_none());
    }
}
