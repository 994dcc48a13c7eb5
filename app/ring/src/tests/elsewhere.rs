//! Channels whose frames are in a memory of the stack's.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::*;

const FRAMES: u32 = 32;
const SIZE: u32 = 2048;

fn memory(frames: u32, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = memfd_create(c"test", flags).unwrap();
    ftruncate(&fd, (frames * SIZE).into()).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// The stack's end of a channel in such a memory, which the application has these frames of.
fn over(first: &[u32]) -> Result<(StackEnd, Arc<()>), ChannelError> {
    let kept = Arc::new(());
    let keep = Box::new(Arc::clone(&kept));
    let memfd = memory(FRAMES, SealFlags::SHRINK);
    let geometry = Geometry { ring_len: 64, frames: 1, frame_size: SIZE };
    let memory = FrameMemory { memfd, frames: FRAMES, keep };
    Ok((StackEnd::create_over(geometry, memory, first)?, kept))
}

fn pair_over(first: &[u32]) -> (StackEnd, AppEnd, Arc<()>) {
    let (stack, kept) = over(first).unwrap();
    let app = AppEnd::map(stack.fd().try_clone_to_owned().unwrap()).unwrap();
    (stack, app, kept)
}

/// Writes to a frame as the stack does that has it, by a mapping of its own.
fn write(stack: &StackEnd, frame: u32, offset: u16, bytes: &[u8]) {
    let at = u64::from(frame * SIZE) + u64::from(offset);
    rustix::io::pwrite(stack.frames_fd().unwrap(), bytes, at).unwrap();
}

#[test]
fn a_datagram_is_read_and_sent_where_it_lies() {
    let (mut stack, mut app, _) = pair_over(&[3, 5, 7, 9]);
    assert!(app.frames().is_trusted());
    // A packet has come in frame 20; the application gives an empty one for it.
    write(&stack, 20, 300, b"question");
    let empty = stack.take_empty().unwrap().unwrap();
    assert!([3, 5, 7, 9].contains(&empty));
    stack.swap(1, &info(9), (20, 300, 8)).unwrap();
    let _ = stack.publish();
    let received = app.receive().unwrap().unwrap();
    assert_eq!(app.payload(&received), b"question");
    let frame = received.frame.unwrap();
    assert_eq!((frame.index(), app.info(&frame)), (20, info(9)));
    // It goes back in the same frame, for which the application gets frame 11.
    app.submit(frame, 1, &info(9), (300, 8, 0)).unwrap();
    let _ = app.commit().unwrap();
    let transmit = stack.next_transmit().unwrap().unwrap();
    assert_eq!((transmit.len, stack.in_place()), (8, Some((20, 300, 8))));
    stack.complete_with(11).unwrap();
    let _ = stack.publish();
    app.reap().unwrap();
    let mine: Vec<u32> = std::iter::from_fn(|| app.alloc().unwrap()).map(|f| f.index()).collect();
    assert!(mine.contains(&11) && !mine.contains(&20), "{mine:?}");
    assert_eq!(stack.misuse(), Misuse::default());
    assert_eq!(stack.held().0 + stack.held().1, 4);
}

#[test]
fn a_payload_without_room_for_headers_or_in_several_frames_is_copied() {
    let (mut stack, mut app, _) = pair_over(&[0, 1, 2, 3, 4, 5]);
    let room = app.frames().room();
    assert_eq!((room, app.payload_size()), (ROOM_SIZE, SIZE as u16 - ROOM_SIZE));
    for (offset, more) in [(INFO_SIZE, 0), (room, 1), (room, 0)] {
        let mut frame = app.alloc().unwrap().unwrap();
        app.frames().space(&mut frame, offset)[..2].copy_from_slice(b"ok");
        app.submit(frame, 1, &info(1), (offset, 2, more)).unwrap();
    }
    let _ = app.commit().unwrap();
    let mut out = [0; 8];
    for len in [2, 4] {
        let transmit = stack.next_transmit().unwrap().unwrap();
        assert_eq!((transmit.len, stack.in_place()), (len, None));
        assert_eq!(stack.copy_payload(&mut out), len);
        stack.complete().unwrap();
    }
    // The stack's own copies go into frames that the application has lent.
    assert_eq!(stack.deliver(1, &info(1), &[7; 3000]).unwrap(), Delivery::Delivered);
    let _ = stack.publish();
    let (first, second) = (app.receive().unwrap().unwrap(), app.receive().unwrap().unwrap());
    assert_eq!((first.len + second.len, first.more), (3000, 1));
}

#[test]
fn the_frames_are_kept_while_either_end_can_reach_them() {
    let (stack, app, kept) = pair_over(&[1, 2]);
    let frames = app.frames().clone();
    drop(stack);
    drop(app);
    assert_eq!(Arc::strong_count(&kept), 2, "a buffer may still be read");
    drop(frames);
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[test]
fn memories_that_are_none_are_refused() {
    let refused = |memfd, frames, first: &[u32]| {
        let geometry = Geometry { ring_len: 64, frames: 1, frame_size: SIZE };
        let memory = FrameMemory { memfd, frames, keep: Box::new(()) };
        StackEnd::create_over(geometry, memory, first).map(|_| ()).unwrap_err().to_string()
    };
    let sealed = SealFlags::SHRINK;
    assert!(refused(memory(FRAMES, SealFlags::GROW), FRAMES, &[1, 2]).contains("sealed"));
    assert!(refused(memory(FRAMES, sealed), FRAMES + 1, &[1, 2]).contains("too short"));
    assert!(refused(memory(FRAMES, sealed), 1, &[0, 1]).contains("impossible number"));
    assert!(refused(memory(FRAMES, sealed), FRAMES, &[0, FRAMES]).contains("no such frame"));
    assert!(refused(memory(FRAMES, sealed), FRAMES, &[0]).contains("2 to 1048576"));
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(refused(reader.into(), FRAMES, &[1, 2]).contains("no memfd"));
}

proptest! {
    /// An application that names frames at random, in both directions, never gets hold of one that it was not given.
    #[test]
    fn frames_of_others_stay_theirs(entries in proptest::collection::vec((any::<bool>(), 0..40u32), 1..60)) {
        let first = [2, 4, 6, 8, 10, 12];
        let (mut stack, app, _) = pair_over(&first);
        // SAFETY: the memory is kept by `app` and outlives the parts.
        let parts = unsafe { app.memory_of_tests().parts() };
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        let mut free: Vec<u32> = (0..FRAMES).filter(|frame| !first.contains(frame)).collect();
        let mut given: std::collections::HashSet<u32> = first.into();
        let before = parts.fill.produced.load(relaxed);
        for (number, (fills, frame)) in (before..).zip(entries) {
            let ring = if fills { parts.fill } else { parts.transmit };
            let next = ring.produced.load(relaxed);
            let offset = ROOM_SIZE;
            let entry = Entry { frame, socket: 1, offset, len: 4, kind: Kind::Data, more: 0 };
            let slot = &ring.slots[next as usize % ring.slots.len()];
            let [head, tail] = entry.to_words();
            slot[0].store(head, relaxed);
            slot[1].store(tail, relaxed);
            ring.produced.store(next.wrapping_add(1), std::sync::atomic::Ordering::Release);
            let Ok(sent) = stack.next_transmit() else { break };
            if sent.is_some() {
                let (sent, ..) = stack.in_place().unwrap();
                prop_assert!(given.remove(&sent), "frame {} is not the application's", sent);
                let other = free.remove(0);
                stack.complete_with(other).unwrap();
                given.insert(other);
                free.push(sent);
            }
            let Ok(empty) = stack.take_empty() else { break };
            if let Ok(empty) = empty {
                prop_assert!(given.remove(&empty), "frame {} is not the application's", empty);
                let packet = free.remove(0);
                stack.swap(1, &info(number as u16), (packet, 300, 4)).unwrap();
                given.insert(packet);
                free.push(empty);
            }
            let _ = stack.publish();
            prop_assert_eq!(given.len(), first.len());
            let (theirs, ours) = stack.held();
            prop_assert_eq!(theirs + ours, first.len());
        }
    }
}
