//! A UDP echo server with a queue for each of its threads, which share one port (Dragonet thesis
//! §4.3.1): `fancyecho [PORT [THREADS]]`.
#![forbid(unsafe_code)]

use std::error::Error;

use weever_app_library::{QueueConfig, Stack};
use weever_examples_apps::echo;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let port: u16 = args.next().map_or(Ok(7777), |port| port.parse())?;
    let threads: usize = args.next().map_or(Ok(1), |count| count.parse())?;
    let stack = Stack::open(&QueueConfig::default())?;
    std::thread::scope(|scope| {
        let serve = || echo(&stack.queue()?, port, || true);
        let servers: Vec<_> = (0..threads).map(|_| scope.spawn(serve)).collect();
        servers.into_iter().try_for_each(|server| match server.join() {
            Ok(ended) => ended.map_err(Into::into),
            Err(_) => Err("a thread has panicked".into()),
        })
    })
}
