//! A UDP echo server with a queue for each of its threads, which share one port (Dragonet thesis
//! §4.3.1).
//!
//! ```text
//! weever up --dev eth0 --addr 192.0.2.10/24 --apps /run/weever/apps.sock
//! cargo run --release -p weever-app-sockets --example fancyecho -- 7777 2
//! ```

use std::net::{Ipv6Addr, SocketAddr};

use weever_app_sockets::{AppQueue, Config, Error, Event, Share};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().map_or(Ok(7777), |port| port.parse())?;
    let threads: usize = args.next().map_or(Ok(1), |count| count.parse())?;
    std::thread::scope(|scope| {
        let servers: Vec<_> = (0..threads).map(|_| scope.spawn(move || serve(port))).collect();
        servers.into_iter().try_for_each(|server| match server.join() {
            Ok(ended) => ended.map_err(Into::into),
            Err(_) => Err("a thread has panicked".into()),
        })
    })
}

/// One thread: a queue, a socket, and all there is to do.
fn serve(port: u16) -> Result<(), Error> {
    let queue = AppQueue::connect(&Config::default())?;
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    queue.bind_udp_shared(any, Share::ByFlow)?;
    loop {
        // Hands over what was answered, and sleeps until there is more.
        queue.wait(None)?;
        while let Some(event) = queue.next()? {
            if let Event::Datagram(datagram) = event {
                match datagram.reply() {
                    // The ring is full: the client sends faster than the link takes.
                    Ok(()) | Err(Error::WouldBlock) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}
