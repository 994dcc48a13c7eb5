//! A web server of one page: `web PORT TEXT`.
#![forbid(unsafe_code)]

use std::error::Error;

use weever_app_library::{QueueConfig, Stack};
use weever_examples_apps::web;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, text] = &args[..] else { return Err("PORT TEXT".into()) };
    let queue = Stack::open(&QueueConfig::default())?.queue()?;
    Ok(web::serve(&queue, port.parse()?, text.as_bytes(), || true)?)
}
