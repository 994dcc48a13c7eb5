//! What fuzz targets share: how an input is read, the graph that they serve, and a host that sees many
//! inputs. Frames out of an input are in [`frames`].
#![forbid(unsafe_code)]

pub mod frames;

use std::cell::RefCell;
use std::thread::LocalKey;

use weever_graph::Graph;
use weever_models::{HostConfig, Service, host};

/// The rest of an input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next `N` bytes; nothing, and nothing is taken, if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next bytes, at most so many.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

/// The port of the host's echo service.
pub const ECHO_PORT: u16 = 7;

/// The graph of a host that echoes and discards.
pub fn serving() -> Graph {
    let config = HostConfig::serving(Service::Echo, ECHO_PORT).and(Service::Discard, 9);
    host(&config).expect("the graph that ships")
}

/// A host, and the number of inputs that it has seen.
pub type Slot<H> = RefCell<Option<(H, u32)>>;

/// Runs an input on a host that sees many, `lifetime` of them; then it ends, and `finish` looks for all of its
/// buffers.
///
/// Making a host takes a hundred times as long as running an input. An input that fails only after others is
/// found again by running the corpus: `cargo fuzz run frame_graph fuzz/corpus/frame_graph -- -runs=0`.
pub fn on_host<H>(
    slot: &'static LocalKey<Slot<H>>,
    lifetime: u32,
    make: impl FnOnce() -> H,
    run: impl FnOnce(&mut H),
    finish: impl FnOnce(H),
) {
    slot.with_borrow_mut(|slot| {
        let (mut host, age) = slot.take().unwrap_or_else(|| (make(), 0));
        run(&mut host);
        if age == lifetime {
            finish(host);
        } else {
            *slot = Some((host, age + 1));
        }
    });
}
