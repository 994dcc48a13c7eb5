//! A listener of a multicast group.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weever_app_sockets::{AppQueue, Error, RxBuf};

/// Joins a group, and has `hear` see the datagrams that come to it at a port.
///
/// # Errors
/// Those of opening the socket, of joining and of [`serve`](crate::serve).
pub fn serve(
    queue: &AppQueue,
    (group, port): (IpAddr, u16),
    running: impl Fn() -> bool,
    mut hear: impl FnMut(&RxBuf<'_>),
) -> Result<(), Error> {
    let any = match group {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = queue.bind_udp(SocketAddr::new(any, port))?;
    queue.join(socket, group, None)?;
    crate::serve(queue, running, |datagram| {
        // The port is open for the host's own datagrams, too.
        if datagram.info().local().ip() == group {
            hear(&datagram);
        }
        Ok(())
    })
}
