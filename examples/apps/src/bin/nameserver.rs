//! Answers for one name: `nameserver PORT NAME ADDRESS`.
#![forbid(unsafe_code)]

use std::error::Error;

use weever_app_library::{QueueConfig, Stack};
use weever_examples_apps::nameserver;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, name, address] = &args[..] else { return Err("PORT NAME ADDRESS".into()) };
    let queue = Stack::open(&QueueConfig::default())?.queue()?;
    Ok(nameserver::serve(&queue, port.parse()?, (name, address.parse()?), || true)?)
}
