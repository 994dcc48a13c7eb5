//! Many octets over TCP: `bulk receive PORT`, `bulk send ADDRESS:PORT OCTETS`.
#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Instant;

use weever_app_library::{QueueConfig, Stack};
use weever_examples_apps::bulk::{self, Sent};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let queue =
        || -> Result<_, Box<dyn Error>> { Ok(Stack::open(&QueueConfig::default())?.queue()?) };
    match words[..] {
        ["receive", port] => {
            let port = port.parse()?;
            bulk::receive(&queue()?, port, || true, |carried| print!("{}", carried.line()))?;
        }
        ["send", to, octets] => {
            let (to, octets): (_, u64) = (to.parse()?, octets.parse()?);
            let (queue, began) = (queue()?, Instant::now());
            match bulk::send(&queue, to, octets, || true)? {
                Sent::Answered(line) => {
                    let gigabits = octets as f64 * 8.0 / 1e9 / began.elapsed().as_secs_f64();
                    println!("{} at {gigabits:.3} Gbit/s", line.trim_end());
                }
                Sent::Failed(errno) => {
                    return Err(std::io::Error::from_raw_os_error(errno.into()).into());
                }
                Sent::Stopped => {}
            }
        }
        _ => return Err("receive PORT, or send ADDRESS:PORT OCTETS".into()),
    }
    Ok(())
}
