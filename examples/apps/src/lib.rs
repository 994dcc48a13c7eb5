//! The work of the servers, without their surroundings: a queue, and a loop that ends when told to.
#![forbid(unsafe_code)]

pub mod echo;
pub mod keyvalue;
pub mod listen;
pub mod nameserver;

use std::time::Duration;

use weever_app_sockets::{AppQueue, Error, Event, RxBuf};

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
