//! A block that another program tells what to do, by a socket: it waits for a descriptor, and no thread does.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use weever_block::{Block, BlockType, Burst, Cx, Mask, PortDoc, Ports, Priority, StateKind, bits};
use weever_graph::Effects;

/// The end of a socket from which a gate reads; the program provides it in the blocks' environment.
#[derive(Debug)]
pub struct Lever {
    stream: UnixStream,
    fd: Arc<OwnedFd>,
}

impl Lever {
    /// A lever, and the end of it that the other program has: `1` opens the gate, `0` shuts it.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn new() -> io::Result<(Lever, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let fd = Arc::new(OwnedFd::from(ours.try_clone()?));
        Ok((Lever { stream: ours, fd }, theirs))
    }
}

/// A block that waits for a descriptor.
pub static GATE: BlockType = BlockType {
    spawns: &["told"],
    effects: Effects::STATEFUL,
    // One worker reads the descriptor.
    state: StateKind::SingleHomed,
    ..BlockType::new(
        "Gate",
        "Lets packets through while it is open, as a program says by a socket.",
        &[
            PortDoc { name: "open", doc: "packets that pass" },
            PortDoc { name: "shut", doc: "packets that do not" },
            PortDoc { name: "told", doc: "tasks without a packet, which have read the socket" },
        ],
        |build| {
            let lever = build.env::<Lever>("the lever of the gate")?;
            Ok(Box::new(Gate { lever, is_open: false, waits: false }))
        },
    )
};

struct Gate {
    lever: Arc<Lever>,
    is_open: bool,
    /// Whether a task waits for the descriptor.
    waits: bool,
}

impl Gate {
    /// Reads all there is, without blocking. Whether more may come.
    fn listen(&mut self) -> bool {
        let mut octets = [0; 64];
        loop {
            match (&self.lever.stream).read(&mut octets) {
                Ok(0) => return false,
                Ok(count) => self.is_open = octets[count - 1] == b'1',
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}

impl Block for Gate {
    fn run(&mut self, cx: &mut Cx<'_>, burst: &mut Burst, input: Mask, ports: &mut Ports<'_>) {
        let told = bits(input).filter(|task| burst.get(*task).is_none());
        let told: Mask = told.fold(0, |mask, task| mask | 1 << task);
        // What was said before the first packet holds for it.
        let is_first = !self.waits;
        if (told != 0 || is_first) && self.listen() {
            cx.spawn_when_readable(0, Arc::clone(&self.lever.fd), Priority::Low);
        }
        self.waits = true;
        ports.enable(if self.is_open { 0 } else { 1 }, input & !told);
        ports.enable(2, told);
    }
}
