//! Where everything lies in a channel's memory.

use std::mem::size_of;

/// The version of this layout. Both sides must have the same.
pub const VERSION: u32 = 6;

/// Bytes at the start of each frame that hold its packet info; payloads come after them.
pub const INFO_SIZE: u16 = 64;

/// Where a payload begins in a frame of the stack's memory that the application is to fill: before it is room for the
/// packet info and for all headers, so that the frame itself can be sent.
pub const ROOM_SIZE: u16 = 256;

/// Bytes that the stack needs between packet info and payload for headers, and for what a device wants to know.
pub(crate) const HEADERS: u16 = 128;

/// Marks a channel: "weeverch" in ASCII.
pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"weeverch");

/// Bytes of all frames of a channel. The memory counts as the application's and as the stack's, and an
/// application is not to take all that the machine has.
const MAX_FRAME_BYTES: u64 = 256 << 20;

const PAGE: usize = 4096;
/// The first page: magic, version and geometry in its first 64 bytes, then a line of 128 bytes for
/// each index and doorbell, so that the two sides never write to the same line.
const FIRST_INDEX: usize = 512;
const LINE: usize = 128;
const ENTRY: usize = size_of::<[u64; 2]>();

/// Why a channel cannot be made, mapped or used any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The geometry asked for is out of bounds.
    #[error("application queue: {what} is {value}, but must be {allowed}")]
    Geometry {
        /// The parameter.
        what: &'static str,
        /// The value asked for.
        value: u64,
        /// The values that can be had.
        allowed: &'static str,
    },
    /// The descriptor does not lead to a channel.
    #[error("application queue: the descriptor is no channel: {0}")]
    NotAChannel(&'static str),
    /// The other side speaks another version.
    #[error(
        "application queue: the stack speaks version {theirs} of the ring protocol, this library \
         version {VERSION}; use the library that came with the running weever"
    )]
    Version {
        /// The version in the header.
        theirs: u32,
    },
    /// A system call failed.
    #[error("application queue: {call} failed: {reason}")]
    System {
        /// The call.
        call: &'static str,
        /// The system's message.
        reason: String,
    },
    /// The other side broke the protocol so that the channel cannot go on; close it.
    #[error("application queue: the other side wrote an impossible {0}; the channel is closed")]
    Corrupt(&'static str),
}

/// The offset of the word that says how many frames the stack's memory has, if the frames are there; else 0.
pub(crate) const ELSEWHERE: usize = 24;
/// The most frames of a memory of the stack's.
pub(crate) const MOST_ELSEWHERE: u64 = 1 << 24;

/// The size of a channel's rings and frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Entries in each of the four rings: a power of two, 64 to 65,536.
    pub ring_len: u32,
    /// Frames: 2 to 1,048,576.
    pub frames: u32,
    /// Bytes of a frame, its packet info included: a multiple of 64, 256 to 65,472.
    pub frame_size: u32,
}

impl Default for Geometry {
    /// 1,024 entries and 2,048 frames of 2,048 bytes: 4 MiB.
    fn default() -> Geometry {
        Geometry { ring_len: 1024, frames: 2048, frame_size: 2048 }
    }
}

/// The rings of a channel, in the order in which they lie in memory.
#[derive(Clone, Copy)]
pub(crate) enum Ring {
    Fill,
    Receive,
    Transmit,
    Completion,
}

impl Geometry {
    /// Checks the bounds that the fields' documentation states.
    ///
    /// # Errors
    /// [`ChannelError::Geometry`] names the first field that is out of bounds.
    pub fn check(&self) -> Result<(), ChannelError> {
        let fail = |what, value: u32, allowed| {
            Err(ChannelError::Geometry { what, value: u64::from(value), allowed })
        };
        if !self.ring_len.is_power_of_two() || !(64..=1 << 16).contains(&self.ring_len) {
            return fail("ring_len", self.ring_len, "a power of two from 64 to 65536");
        }
        if !(2..=1 << 20).contains(&self.frames) {
            return fail("frames", self.frames, "2 to 1048576");
        }
        let size = self.frame_size;
        if !size.is_multiple_of(64) || !(256..=65472).contains(&size) {
            return fail("frame_size", size, "a multiple of 64 from 256 to 65472");
        }
        if u64::from(self.frames) * u64::from(size) > MAX_FRAME_BYTES {
            return fail("frames", self.frames, "no more than 256 MiB of them together");
        }
        Ok(())
    }

    /// The longest payload that a frame holds, in bytes.
    pub fn payload_size(&self) -> u16 {
        (self.frame_size - u32::from(INFO_SIZE)) as u16
    }

    /// Bytes of a channel whose frames are elsewhere: instead of them are the numbers of those that the application has
    /// at first.
    pub(crate) fn rings_size(&self) -> usize {
        self.frames_offset() + (self.frames as usize * size_of::<u32>()).next_multiple_of(PAGE)
    }

    /// Bytes of the whole channel.
    pub fn total_size(&self) -> usize {
        self.frames_offset() + self.frames as usize * self.frame_size as usize
    }

    fn ring_size(&self) -> usize {
        (self.ring_len as usize * ENTRY).next_multiple_of(PAGE)
    }

    pub(crate) fn slots_offset(&self, ring: Ring) -> usize {
        PAGE + ring as usize * self.ring_size()
    }

    /// The offset of the index that counts produced entries of `ring`.
    pub(crate) fn produced_offset(ring: Ring) -> usize {
        FIRST_INDEX + ring as usize * 2 * LINE
    }

    /// The offset of the index that counts consumed entries of `ring`.
    pub(crate) fn consumed_offset(ring: Ring) -> usize {
        Geometry::produced_offset(ring) + LINE
    }

    pub(crate) const APP_DOORBELL: usize = FIRST_INDEX + 8 * LINE;
    pub(crate) const STACK_DOORBELL: usize = FIRST_INDEX + 9 * LINE;

    pub(crate) fn frames_offset(&self) -> usize {
        PAGE + 4 * self.ring_size()
    }

    #[cfg(test)]
    pub(crate) fn frame_offset(&self, frame: u32) -> usize {
        self.frames_offset() + frame as usize * self.frame_size as usize
    }

    /// The header's words: magic, version and entries, frames and their size.
    pub(crate) fn header(&self) -> [u64; 3] {
        [
            MAGIC,
            u64::from(VERSION) | u64::from(self.ring_len) << 32,
            u64::from(self.frames) | u64::from(self.frame_size) << 32,
        ]
    }

    /// Reads a header and checks it.
    pub(crate) fn of_header(words: [u64; 3]) -> Result<Geometry, ChannelError> {
        if words[0] != MAGIC {
            return Err(ChannelError::NotAChannel("it does not begin with the magic number"));
        }
        let theirs = words[1] as u32;
        if theirs != VERSION {
            return Err(ChannelError::Version { theirs });
        }
        let geometry = Geometry {
            ring_len: (words[1] >> 32) as u32,
            frames: words[2] as u32,
            frame_size: (words[2] >> 32) as u32,
        };
        geometry.check()?;
        Ok(geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        for geometry in [
            Geometry::default(),
            Geometry { ring_len: 64, frames: 2, frame_size: 256 },
            Geometry { ring_len: 1 << 16, frames: 1 << 10, frame_size: 65472 },
        ] {
            geometry.check().unwrap();
            let rings = [Ring::Fill, Ring::Receive, Ring::Transmit, Ring::Completion];
            const { assert!(Geometry::STACK_DOORBELL + LINE <= PAGE) };
            for pair in rings.windows(2) {
                let end = geometry.slots_offset(pair[0]) + geometry.ring_len as usize * ENTRY;
                assert!(end <= geometry.slots_offset(pair[1]));
                assert!(
                    Geometry::consumed_offset(pair[0]) + LINE <= Geometry::produced_offset(pair[1])
                );
            }
            let last = geometry.slots_offset(Ring::Completion) + geometry.ring_len as usize * ENTRY;
            assert!(last <= geometry.frames_offset());
            assert_eq!(geometry.frame_offset(geometry.frames), geometry.total_size());
            assert_eq!(Geometry::of_header(geometry.header()), Ok(geometry));
        }
    }

    #[test]
    fn a_wrong_header_is_refused_by_its_first_fault() {
        let good = Geometry::default().header();
        let [_, second, third] = good;
        assert!(matches!(
            Geometry::of_header([1, second, third]),
            Err(ChannelError::NotAChannel(_))
        ));
        assert_eq!(
            Geometry::of_header([MAGIC, second + 1, third]),
            Err(ChannelError::Version { theirs: VERSION + 1 })
        );
        for (what, second, third) in [
            ("ring_len", u64::from(VERSION) | 1000 << 32, third),
            ("frames", second, 1 | 2048 << 32),
            ("frame_size", second, 64 | 100 << 32),
            ("frames", second, 1 << 20 | 512 << 32),
        ] {
            let error = Geometry::of_header([MAGIC, second, third]).unwrap_err();
            assert!(matches!(error, ChannelError::Geometry { what: named, .. } if named == what));
        }
    }
}
