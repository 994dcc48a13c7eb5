//! The real thing: AF_XDP on one end of a veth pair, the kernel's stack on the other.

use std::net::Ipv6Addr;
use std::path::Path;

use weever_daemon::Stack;
use weever_daemon::config::Config;
use weever_testbed::Fixture;

use crate::error::DemoError;
use crate::kernel::KernelPeer;
use crate::peer::Ends;
use crate::stage::{LINK_LOCAL, PORT, Stage};

/// Queues of the veth pair. The kernel spreads its flows over them.
const QUEUES: u32 = 4;
const LEFT6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1);
const RIGHT6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2);

/// Two namespaces, a veth pair, and a stack on the right end of it.
pub(crate) fn stage(control: &Path) -> Result<Stage, DemoError> {
    let fixture = Fixture::pair(QUEUES)?;
    fixture.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX)?;
    fixture.veth.left.speak_ipv6(LEFT6, 64)?;
    let (left, right) = (fixture.veth.left.info()?, fixture.veth.right.info()?);
    let config = config(&right.name, control)?;
    let stack = fixture.right.run(|| Stack::start(config)).map_err(DemoError::start)?;
    let ends = Ends {
        stack_mac: right.mac,
        stack: Fixture::RIGHT,
        stack6: RIGHT6,
        stack_ll: LINK_LOCAL,
        peer_mac: left.mac,
        peer: Fixture::LEFT,
        peer6: LEFT6,
        // Known when the peer has opened its sockets.
        peer_port: 0,
    };
    let peer = KernelPeer::open(&fixture.left, (&left.name, left.index), ends, PORT)?;
    let status = stack.status();
    let setup = vec![
        format!("two network namespaces joined by a veth pair of {QUEUES} queues, gone with us"),
        format!("left:  {} and {LEFT6}, the Linux kernel's stack on {}", Fixture::LEFT, left.name),
        format!(
            "right: {} and {RIGHT6}, weever on {} ({})",
            Fixture::RIGHT,
            right.name,
            status.mode
        ),
    ];
    Ok(Stage { stack, peer: Box::new(peer), setup, _network: Some(fixture) })
}

fn config(device: &str, control: &Path) -> Result<Config, DemoError> {
    let address = format!("{}/{}", Fixture::RIGHT, Fixture::PREFIX);
    let mut config = Config::new(device, address.parse().map_err(DemoError::start)?);
    for six in [RIGHT6, LINK_LOCAL] {
        let prefix = format!("{six}/64").parse().map_err(DemoError::start)?;
        config.interfaces[0].addresses.push(prefix);
    }
    config.services.echo = Some(PORT);
    config.control = Some(control.into());
    Ok(config)
}
