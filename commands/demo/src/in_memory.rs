//! Without privileges: a memory link, and smoltcp at the other end.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use weever_daemon::Stack;
use weever_daemon::config::Config;
use weever_link::Link;
use weever_link::memory::{MemoryConfig, pair};
use weever_packet::{Pool, PoolConfig};

use crate::error::DemoError;
use crate::peer::Ends;
use crate::smoltcp_peer::{SmoltcpPeer, UDP_PORT};
use crate::stage::{LINK_LOCAL, PORT, Stage};

const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const STACK6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2);
const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1);

/// A memory link with a stack on one end. `why`: what keeps us from a device.
pub(crate) fn stage(control: &Path, why: &str) -> Result<Stage, DemoError> {
    let memory = MemoryConfig::default();
    let (left, right) = pair(&memory).map_err(DemoError::start)?;
    let ends = Ends {
        stack_mac: right.info().mac,
        stack: STACK,
        stack6: STACK6,
        stack_ll: LINK_LOCAL,
        peer_mac: left.info().mac,
        peer: PEER,
        peer6: PEER6,
        peer_port: UDP_PORT,
    };
    let prefix = format!("{STACK}/24").parse().map_err(DemoError::start)?;
    let mut config = Config::new(right.info().name.clone(), prefix);
    for six in [STACK6, LINK_LOCAL] {
        let prefix = format!("{six}/64").parse().map_err(DemoError::start)?;
        config.interfaces[0].addresses.push(prefix);
    }
    config.services.echo = Some(PORT);
    config.control = Some(control.into());
    let pool = || Pool::new(PoolConfig::default()).map_err(DemoError::start);
    let stack =
        Stack::start_on(vec![Box::new(right)], pool()?, config).map_err(DemoError::start)?;
    let mut left = left;
    let queue = left.take_queues().pop();
    let queue = queue.ok_or_else(|| DemoError::start("the link has no queue"))?;
    let peer = SmoltcpPeer::new(queue, pool()?.cache(), ends, PORT);
    let setup = vec![
        format!("{why}: a memory link stands in for the device"),
        format!("left:  {PEER} and {PEER6}, smoltcp"),
        format!("right: {STACK} and {STACK6}, weever"),
    ];
    Ok(Stage { stack, peer: Box::new(peer), setup, _network: None })
}
