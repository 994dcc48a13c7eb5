//! Applications that lie: descriptors that are no channels, and shared memory full of nonsense.

use std::io::Write;
use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::pwrite;

use super::*;
use crate::layout::{Ring, VERSION};

fn memfd(bytes: &[u8], size: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create(c"test", flags).unwrap();
    ftruncate(&fd, size).unwrap();
    pwrite(&fd, bytes, 0).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

fn header(words: [u64; 3]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

#[test]
fn descriptors_that_are_no_channels_are_refused_with_the_reason() {
    let geometry = Geometry { ring_len: 64, frames: 8, frame_size: 256 };
    let size = geometry.total_size() as u64;
    let sealed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let good = header(geometry.header());
    let refusal = |fd| AppEnd::map(fd).map(|_| ()).unwrap_err().to_string();

    let mut file = std::fs::File::from(memfd(&[], 0, SealFlags::empty()));
    file.write_all(b"text").unwrap();
    assert!(refusal(file.into()).contains("not sealed"));
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(refusal(reader.into()).contains("no memfd"));
    assert!(refusal(memfd(&good, size, SealFlags::GROW | SealFlags::SEAL)).contains("not sealed"));
    assert!(refusal(memfd(&good, 4096, sealed)).contains("too short"));
    assert!(refusal(memfd(&good, size + 4096, sealed)).contains("its size is not"));
    assert!(refusal(memfd(&[0; 24], size, sealed)).contains("magic"));
    let mut newer = geometry.header();
    newer[1] += 1;
    assert!(refusal(memfd(&header(newer), size, sealed)).contains(&format!("version {VERSION}")));
    let mut huge = geometry.header();
    huge[2] = u64::from(u32::MAX) | 256 << 32;
    assert!(refusal(memfd(&header(huge), size, sealed)).contains("frames"));
    AppEnd::map(memfd(&good, size, sealed)).unwrap();
}

#[test]
fn an_application_cannot_truncate_the_memory_under_the_stack() {
    let (stack, _app) = pair(8);
    assert!(ftruncate(stack.fd(), 0).is_err());
    assert!(ftruncate(stack.fd(), 1 << 30).is_err());
}

/// A raw view of a channel, as an application that does not use the library has it.
struct Raw(std::sync::Arc<SharedMemory>);

impl Raw {
    fn of(stack: &StackEnd) -> Raw {
        let fd = stack.fd().try_clone_to_owned().unwrap();
        Raw(SharedMemory::map(fd, None).unwrap())
    }

    /// Writes entries to a ring that the application produces, whatever is in them.
    fn produce(&self, ring: Ring, from: u32, entries: &[Entry]) {
        // SAFETY: `self.0` outlives the parts, which do not leave this function.
        let parts = unsafe { self.0.parts() };
        let parts = match ring {
            Ring::Fill => parts.fill,
            _ => parts.transmit,
        };
        for (i, entry) in entries.iter().enumerate() {
            let [first, second] = entry.to_words();
            let slot = &parts.slots[(from as usize + i) % parts.slots.len()];
            slot[0].store(first, std::sync::atomic::Ordering::Relaxed);
            slot[1].store(second, std::sync::atomic::Ordering::Relaxed);
        }
        let end = from.wrapping_add(entries.len() as u32);
        parts.produced.store(end, std::sync::atomic::Ordering::Release);
    }
}

#[test]
fn frames_returned_twice_or_not_held_are_counted_and_ignored() {
    let (mut stack, app) = pair(8);
    let raw = Raw::of(&stack);
    // The library has lent frames 0 to 3: entries 0 to 3 of the fill ring.
    raw.produce(
        Ring::Fill,
        4,
        &[Entry::frame(0), Entry::frame(900), Entry::frame(5), Entry::frame(5)],
    );
    assert_eq!(stack.deliver(1, &info(1), b"x").unwrap(), Delivery::Delivered);
    let misuse = stack.misuse();
    assert_eq!((misuse.not_its_frame, misuse.no_such_frame), (2, 1));
    let data =
        |frame, offset, len, more| Entry { frame, socket: 1, offset, len, kind: Kind::Data, more };
    raw.produce(
        Ring::Transmit,
        0,
        &[
            data(0, 64, 4, 0),   // lent
            data(6, 63, 4, 0),   // over the packet info
            data(6, 200, 60, 0), // beyond the frame
            Entry { kind: Kind::Closed, ..data(6, 64, 4, 0) },
            data(6, 64, 4, 3), // a chain ...
            data(7, 64, 4, 1), // ... with a hole, which ends with the entries
            data(7, 64, 4, 0),
            Entry { kind: Kind::Stream, ..data(NO_FRAME, 64, 4, 0) },
            Entry { kind: Kind::Connected, ..data(3, 64, 4, 0) }, // lent
            Entry { kind: Kind::Finished, ..data(6, 64, 4, 0) },  // with a frame
            data(6, 64, 4, 1),                                    // a datagram ...
            Entry { kind: Kind::Consumed, ..data(NO_FRAME, 64, 4, 0) }, // ... of two kinds
        ],
    );
    assert_eq!(stack.next_transmit().unwrap(), None);
    let misuse = stack.misuse();
    assert_eq!(misuse.not_its_frame, 5, "frames 0 and 3, and frame 7 twice in one chain");
    assert_eq!((misuse.no_such_frame, misuse.bad_kind), (2, 2));
    assert!(misuse.bad_range >= 3);
    assert_eq!(stack.held().1, 4, "frames taken for sending have come back: {:?}", app.held());
}

proptest! {
    /// Whatever the application writes, and wherever: the stack's end goes on or says that the
    /// channel is broken, and its own frames' state stays consistent.
    #[test]
    fn nonsense_in_shared_memory_is_survived(
        writes in proptest::collection::vec((0..6usize, any::<u32>(), any::<u64>(), any::<u64>()), 1..200),
    ) {
        let (mut stack, _app) = pair(16);
        let raw = Raw::of(&stack);
        // SAFETY: `raw` outlives the parts.
        let parts = unsafe { raw.0.parts() };
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let mut out = [0; 4096];
        let mut kept = Vec::new();
        for (what, at, first, second) in writes {
            let near = |index: &AtomicU32| index.load(relaxed).wrapping_add(at % 70);
            match what {
                0 => parts.fill.produced.store(near(parts.fill.produced), relaxed),
                1 => parts.transmit.produced.store(near(parts.transmit.produced), relaxed),
                2 => parts.receive.consumed.store(near(parts.receive.consumed), relaxed),
                3 => parts.completion.consumed.store(at, relaxed),
                _ => {
                    let ring = if what == 4 { parts.fill } else { parts.transmit };
                    let slot = &ring.slots[at as usize % ring.slots.len()];
                    slot[0].store((first % 20) | (first & (1 << 40)), relaxed);
                    slot[1].store(second & 0x070f_00ff_00ff, relaxed);
                }
            }
            let mut step = || -> Result<(), ChannelError> {
                stack.deliver(1, &info(1), &[1; 300])?;
                while let Some(transmit) = stack.next_transmit()? {
                    assert!(transmit.kind != Kind::Data || transmit.len <= 256 * 192);
                    stack.copy_payload(&mut out);
                    if transmit.kind == Kind::Stream {
                        kept.extend(stack.keep());
                    }
                    stack.complete()?;
                }
                stack.deliver_stream(3, &[2; 200], &mut Default::default())?;
                if kept.len() > 3 {
                    kept.drain(..).try_for_each(|sent| stack.give_back(sent))?;
                }
                let _ = stack.publish();
                stack.park()?;
                Ok(())
            };
            if let Err(error) = step() {
                prop_assert!(matches!(error, ChannelError::Corrupt(_)));
                break;
            }
            let (application, ours) = stack.held();
            prop_assert_eq!(application + ours, 16);
        }
    }
}
