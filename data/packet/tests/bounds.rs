//! A packet never leaves its frame, and its bytes are those that were put there.

use proptest::prelude::*;
use weever_packet::{Buffer, HugePages, NOWHERE, Pool, PoolConfig};

const FRAME: usize = 2048;

fn buffers(headroom: u16) -> (Buffer, Buffer) {
    let huge_pages = HugePages::Never;
    let config = PoolConfig { frames: 64, headroom, huge_pages, ..PoolConfig::default() };
    let mut cache = Pool::new(config).unwrap().cache();
    (cache.alloc().unwrap(), cache.alloc().unwrap())
}

/// An obvious packet: the whole frame, and two bounds.
struct Model {
    frame: Vec<u8>,
    start: usize,
    end: usize,
}

impl Model {
    fn packet(&self) -> &[u8] {
        &self.frame[self.start..self.end]
    }
}

#[derive(Clone, Debug)]
enum Edit {
    Prepend(u16, u8),
    Append(u16, u8),
    Strip(u16),
    Truncate(usize),
    Bounds(u16, u16),
    Received(u16, u16),
    Clear,
    Write(u16, u8),
}

fn near_the_frames_size() -> impl Strategy<Value = u16> {
    prop_oneof![4 => 0..200u16, 2 => 0..2100u16, 1 => any::<u16>()]
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let n = near_the_frames_size;
    let one = prop_oneof![
        (n(), any::<u8>()).prop_map(|(n, byte)| Edit::Prepend(n, byte)),
        (n(), any::<u8>()).prop_map(|(n, byte)| Edit::Append(n, byte)),
        n().prop_map(Edit::Strip),
        prop_oneof![(0..3000usize), any::<usize>()].prop_map(Edit::Truncate),
        (n(), n()).prop_map(|(start, end)| Edit::Bounds(start, end)),
        (n(), n()).prop_map(|(head, len)| Edit::Received(head, len)),
        Just(Edit::Clear),
        (n(), any::<u8>()).prop_map(|(from, byte)| Edit::Write(from, byte)),
    ];
    proptest::collection::vec(one, 0..60)
}

/// Does the same to both and says whether both agree that it could be done.
fn apply(edit: &Edit, buffer: &mut Buffer, model: &mut Model, headroom: usize) -> bool {
    match *edit {
        Edit::Prepend(n, byte) => {
            let fits = n as usize <= model.start;
            let room = buffer.prepend(n);
            let agreed = room.as_ref().map(|room| room.len()) == fits.then_some(n as usize);
            if let (true, Some(room)) = (fits, room) {
                room.fill(byte);
                model.start -= n as usize;
                model.frame[model.start..][..n as usize].fill(byte);
            }
            agreed
        }
        Edit::Append(n, byte) => {
            let bytes = vec![byte; n as usize];
            let fits = model.end + bytes.len() <= FRAME;
            if fits {
                model.frame[model.end..][..bytes.len()].fill(byte);
                model.end += bytes.len();
            }
            buffer.append(&bytes) == fits
        }
        Edit::Strip(n) => {
            let fits = n as usize <= model.end - model.start;
            model.start += if fits { n as usize } else { 0 };
            buffer.strip(n) == fits
        }
        Edit::Truncate(len) => {
            buffer.truncate(len);
            model.end = model.start + len.min(model.end - model.start);
            true
        }
        Edit::Bounds(start, end) => {
            let fits = start <= end && end as usize <= FRAME;
            if fits {
                (model.start, model.end) = (start as usize, end as usize);
            }
            buffer.set_bounds(start, end) == fits
        }
        Edit::Received(head, len) => {
            buffer.received(head, len);
            model.start = (head as usize).min(FRAME);
            model.end = (model.start + len as usize).min(FRAME);
            buffer.meta().l2 == NOWHERE
        }
        Edit::Clear => {
            buffer.clear();
            (model.start, model.end) = (headroom, headroom);
            true
        }
        Edit::Write(from, byte) => {
            let from = (from as usize).min(model.end);
            let tail = &mut model.frame[from..model.end];
            tail.fill(byte);
            let same = buffer.at(from as u16).len() == tail.len();
            buffer.at_mut(from as u16).fill(byte);
            same
        }
    }
}

/// Few cases under Miri, which is slow; nothing is written to files there.
fn cases(cases: u32) -> ProptestConfig {
    let few = ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() };
    if cfg!(miri) { few } else { ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_buffer_is_what_an_obvious_packet_is(edits in edits(), headroom in 0..2048u16) {
        let (mut buffer, mut neighbour) = buffers(headroom);
        for other in [&mut buffer, &mut neighbour] {
            prop_assert!(other.set_bounds(0, FRAME as u16));
            other.data_mut().fill(0xee);
            other.clear();
        }
        let start = headroom as usize;
        let mut model = Model { frame: vec![0xee; FRAME], start, end: start };
        for edit in &edits {
            prop_assert!(apply(edit, &mut buffer, &mut model, start), "{edit:?} is judged alike");
            prop_assert_eq!(buffer.data(), model.packet());
            prop_assert_eq!(buffer.head() as usize, model.start);
            prop_assert_eq!(buffer.len(), model.end - model.start);
            prop_assert_eq!(buffer.is_empty(), model.packet().is_empty());
            prop_assert_eq!(buffer.tailroom(), FRAME - model.end);
            prop_assert_eq!(buffer.at(0), &model.frame[..model.end]);
        }
        buffer.set_bounds(0, FRAME as u16);
        prop_assert_eq!(buffer.data(), &model.frame[..]);
        neighbour.set_bounds(0, FRAME as u16);
        prop_assert!(neighbour.data().iter().all(|byte| *byte == 0xee), "the neighbour is whole");
    }
}

#[test]
fn offsets_stay_when_headers_come_and_go() {
    let (mut buffer, _) = buffers(256);
    buffer.append(&[1, 2, 3, 4, 5, 6]);
    let offset = buffer.head() + 2;
    assert!(buffer.strip(4));
    assert_eq!(buffer.at(offset), [3, 4, 5, 6], "stripped headers can still be read");
    buffer.prepend(100).unwrap();
    assert_eq!(buffer.at(offset), [3, 4, 5, 6]);
    assert!(buffer.at(FRAME as u16).is_empty() && buffer.at(u16::MAX).is_empty());
}
