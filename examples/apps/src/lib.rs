//! The work of the servers, without their surroundings: a queue, and a loop that ends when told to.
//!
//! The echo server and the listener are a function each; the others have a file.
#![forbid(unsafe_code)]

pub mod bulk;
mod conversation;
pub mod keyvalue;
pub mod nameserver;
pub mod web;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use weever_app_sockets::{AppQueue, Error, Event, RxBuf, Share};

/// How often a server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// Has `handle` see every datagram, as long as `running` says so.
///
/// # Errors
/// Those of [`AppQueue::wait`] and of `handle`, but not that there is no room to send: then the client
/// sends faster than the link takes, and that answer is lost.
pub fn serve<'q>(
    queue: &'q AppQueue,
    running: impl Fn() -> bool,
    mut handle: impl FnMut(RxBuf<'q>) -> Result<(), Error>,
) -> Result<(), Error> {
    while running() {
        // Hands over the answers, and sleeps until there is more.
        queue.wait(Some(LOOK))?;
        while let Some(event) = queue.next()? {
            let Event::Datagram(datagram) = event else { continue };
            match handle(datagram) {
                Ok(()) | Err(Error::WouldBlock) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Echoes on a port that other queues may share.
///
/// # Errors
/// Those of opening the socket and of [`serve`].
pub fn echo(queue: &AppQueue, port: u16, running: impl Fn() -> bool) -> Result<(), Error> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    queue.bind_udp_shared(any, Share::ByFlow)?;
    serve(queue, running, RxBuf::reply)
}

/// Joins a group, and has `hear` see the datagrams that come to it at a port.
///
/// # Errors
/// Those of opening the socket, of joining and of [`serve`].
pub fn listen(
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
    serve(queue, running, |datagram| {
        // The port is open for the host's own datagrams, too.
        if datagram.info().local().ip() == group {
            hear(&datagram);
        }
        Ok(())
    })
}
