//! Echo.

use std::net::{Ipv6Addr, SocketAddr};

use weever_app_sockets::{AppQueue, Error, RxBuf, Share};

/// Echoes on a port that other queues may share.
///
/// # Errors
/// Those of opening the socket and of [`serve`](crate::serve).
pub fn serve(queue: &AppQueue, port: u16, running: impl Fn() -> bool) -> Result<(), Error> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    queue.bind_udp_shared(any, Share::ByFlow)?;
    crate::serve(queue, running, RxBuf::reply)
}
