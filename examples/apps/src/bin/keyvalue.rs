//! A key-value store that speaks memcached's text protocol over UDP and TCP, and redis' over TCP: `keyvalue [PORT]`.
#![forbid(unsafe_code)]

use std::error::Error;

use weever_app_library::{QueueConfig, Stack};
use weever_examples_apps::keyvalue;

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).map_or(Ok(11211), |port| port.parse())?;
    let queue = Stack::open(&QueueConfig::default())?.queue()?;
    Ok(keyvalue::serve(&queue, port, || true)?)
}
