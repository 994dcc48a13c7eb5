//! Without privileges: a memory link, and smoltcp at the other end.

use std::net::Ipv4Addr;
use std::path::Path;

use weever_daemon::Stack;
use weever_daemon::config::Config;
use weever_link::Link;
use weever_link::memory::{MemoryConfig, pair};
use weever_packet::{Pool, PoolConfig};

use crate::error::DemoError;
use crate::peer::Ends;
use crate::smoltcp_peer::{SmoltcpPeer, UDP_PORT};
use crate::stage::{PORT, Stage};

const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

fn failed<E: std::fmt::Display>(e: E) -> DemoError {
    DemoError::Start(e.to_string())
}

/// A memory link with a stack on one end. `why`: what keeps us from a device.
pub(crate) fn stage(control: &Path, why: &str) -> Result<Stage, DemoError> {
    let memory = MemoryConfig::default();
    let (left, right) = pair(&memory).map_err(failed)?;
    let ends = Ends {
        stack_mac: right.info().mac,
        stack: STACK,
        peer_mac: left.info().mac,
        peer: PEER,
        peer_port: UDP_PORT,
    };
    let mut config =
        Config::new(right.info().name.clone(), format!("{STACK}/24").parse().map_err(failed)?);
    config.services.echo = Some(PORT);
    config.control = Some(control.into());
    let pool = || Pool::new(PoolConfig::default()).map_err(failed);
    let stack = Stack::start_on(vec![Box::new(right)], pool()?, config).map_err(failed)?;
    let mut left = left;
    let queue = left.take_queues().pop().ok_or_else(|| failed("the link has no queue"))?;
    let peer = SmoltcpPeer::new(queue, pool()?.cache(), ends, PORT);
    let setup = vec![
        format!("{why}: a memory link stands in for the device"),
        format!("left:  {PEER}, smoltcp"),
        format!("right: {STACK}, weever"),
    ];
    Ok(Stage { stack, peer: Box::new(peer), setup, _network: None })
}
