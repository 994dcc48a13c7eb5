//! The real thing: AF_XDP on one end of a veth pair, the kernel's stack on the other.

use std::path::Path;

use weever_daemon::Stack;
use weever_daemon::config::Config;
use weever_testbed::Fixture;

use crate::error::DemoError;
use crate::kernel::KernelPeer;
use crate::peer::Ends;
use crate::stage::{PORT, Stage};

/// Queues of the veth pair. The kernel spreads its flows over them.
const QUEUES: u32 = 4;

/// Two namespaces, a veth pair, and a stack on the right end of it.
pub(crate) fn stage(control: &Path) -> Result<Stage, DemoError> {
    let fixture = Fixture::pair(QUEUES)?;
    fixture.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX)?;
    let (left, right) = (fixture.veth.left.info()?, fixture.veth.right.info()?);
    let config = config(&right.name, control)?;
    let stack = fixture.right.run(|| Stack::start(config));
    let stack = stack.map_err(|e| DemoError::Start(e.to_string()))?;
    let ends = Ends {
        stack_mac: right.mac,
        stack: Fixture::RIGHT,
        peer_mac: left.mac,
        peer: Fixture::LEFT,
        // Known when the peer has opened its sockets.
        peer_port: 0,
    };
    let peer = KernelPeer::open(&fixture.left, &left.name, ends, PORT)?;
    let status = stack.status();
    let setup = vec![
        format!("two network namespaces joined by a veth pair of {QUEUES} queues, gone with us"),
        format!("left:  {}, the Linux kernel's stack on {}", Fixture::LEFT, left.name),
        format!("right: {}, weever on {} ({})", Fixture::RIGHT, right.name, status.mode),
    ];
    Ok(Stage { stack, peer: Box::new(peer), setup, _network: Some(fixture) })
}

fn config(device: &str, control: &Path) -> Result<Config, DemoError> {
    let address = format!("{}/{}", Fixture::RIGHT, Fixture::PREFIX);
    let address = address.parse().map_err(|e| DemoError::Start(format!("{address}: {e}")))?;
    let mut config = Config::new(device, address);
    config.services.echo = Some(PORT);
    config.control = Some(control.into());
    Ok(config)
}
