//! Prints the datagrams that come to a multicast group: `listen GROUP PORT`.
#![forbid(unsafe_code)]

use std::error::Error;

use weever_app_library::{QueueConfig, Stack};
use weever_examples_apps::listen;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [group, port] = &args[..] else { return Err("GROUP PORT".into()) };
    let queue = Stack::open(&QueueConfig::default())?.queue()?;
    let place = (group.parse()?, port.parse()?);
    Ok(listen(
        &queue,
        place,
        || true,
        |datagram| {
            println!("{}: {}", datagram.remote(), String::from_utf8_lossy(&datagram.to_vec()));
        },
    )?)
}
