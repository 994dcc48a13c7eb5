//! Where connections lie: in place, in chunks that never move.

use core::ops::{Index, IndexMut};

use weever_timer::{Key, Wheel};

use crate::{Connection, NEVER, Nanos};

/// A connection, and the endpoint's own records about it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) connection: Option<Connection>,
    pub(super) generation: u32,
    /// Octets that it counts for.
    pub(super) memory: u32,
    /// When the timer in the wheel fires: never later than the connection's next deadline.
    pub(super) timer_at: Nanos,
    pub(super) timer: Option<Key>,
    listener: u32,
    pub(super) in_sends: bool,
    pub(super) in_ready: bool,
}

/// Bytes that a connection takes up, whether it sends or not.
pub(super) const SLOT_LEN: usize = size_of::<Slot>();

// An idle connection is to fit in half a KiB, eight cache lines, with its place in the table.
const _: () = assert!(SLOT_LEN <= 504);

const CHUNK_BITS: u32 = 6;
const CHUNK: u32 = 1 << CHUNK_BITS;

/// Slots by index. They are allocated by chunks and stay.
#[derive(Debug, Default)]
pub(super) struct Slots {
    chunks: Vec<Box<[Slot; CHUNK as usize]>>,
    len: u32,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// One slot more, empty: its index.
    pub(super) fn push(&mut self) -> u32 {
        if self.len.is_multiple_of(CHUNK) {
            let empty: Box<[Slot]> = (0..CHUNK).map(|_| Slot::empty()).collect();
            self.chunks.extend(empty.try_into());
        }
        self.len += 1;
        self.len - 1
    }

    pub(super) fn get(&self, index: u32) -> Option<&Slot> {
        (index < self.len).then(|| &self[index])
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Slot> {
        (index < self.len).then(|| &mut self[index])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..self.len).map(|index| (index, &self[index]))
    }
}

impl Slot {
    /// Reads something of each of its cache lines at once, so that they are waited for together and not
    /// one after the other: of many connections, the next one's are in no cache.
    #[inline]
    pub(super) fn warm(&self) {
        let Some(connection) = &self.connection else { return };
        std::hint::black_box(
            connection.snd.una.0
                ^ connection.rcv.nxt.0
                ^ connection.sent.lost
                ^ connection.recovery.point.0
                ^ connection.window.cwnd
                ^ connection.timers.heard
                ^ self.memory
                ^ u32::from(connection.rtt.backoff)
                ^ u32::from(connection.settings.no_delay()),
        );
    }
}

/// No listener.
const NONE: u32 = u32::MAX;

impl Slot {
    /// The listener in whose backlog or queue it is: until it is taken from there, the application does
    /// not know of it.
    pub(super) fn listener(&self) -> Option<u32> {
        (self.listener != NONE).then_some(self.listener)
    }

    pub(super) fn set_listener(&mut self, listener: u32) {
        self.listener = listener;
    }

    /// It leaves its listener.
    pub(super) fn take_listener(&mut self) -> Option<u32> {
        let left = self.listener();
        self.listener = NONE;
        left
    }

    /// Has the wheel fire not later than the connection's next deadline. A timer that fires too early
    /// is set anew then, which costs less than moving it with each acknowledgement.
    #[inline]
    pub(super) fn set_timer(&mut self, wheel: &mut Wheel<u32>, index: u32, now: Nanos) {
        let Some(connection) = &self.connection else { return };
        // The timer that is set nearly always fires before anything can be due, which then tells the time.
        if self.timer_at > connection.earliest_deadline() {
            self.move_timer(wheel, index, now);
        }
    }

    /// The same after a segment that was [expected](Connection::is_expected). If nothing is in flight behind it, only
    /// the deadline of its acknowledgement can have become earlier.
    #[inline]
    pub(super) fn set_timer_of_ack(&mut self, wheel: &mut Wheel<u32>, index: u32, now: Nanos) {
        let Some(connection) = &self.connection else { return };
        if self.timer_at > connection.timers.ack || !connection.sent.is_empty() {
            self.set_timer(wheel, index, now);
        }
    }

    #[inline(never)]
    fn move_timer(&mut self, wheel: &mut Wheel<u32>, index: u32, now: Nanos) {
        let Some(connection) = &mut self.connection else { return };
        connection.arm_resend(now);
        let deadline = connection.next_deadline();
        if self.timer_at <= deadline {
            return;
        }
        if let Some(key) = self.timer.take() {
            wheel.cancel(key);
        }
        // Nothing is due twice at one time.
        self.timer_at = deadline.max(now + 1);
        self.timer = Some(wheel.insert(self.timer_at, index));
    }

    fn empty() -> Self {
        Self {
            connection: None,
            generation: 0,
            memory: 0,
            timer_at: NEVER,
            timer: None,
            listener: NONE,
            in_sends: false,
            in_ready: false,
        }
    }
}

impl Index<u32> for Slots {
    type Output = Slot;

    #[inline]
    fn index(&self, index: u32) -> &Slot {
        &self.chunks[(index >> CHUNK_BITS) as usize][(index & (CHUNK - 1)) as usize]
    }
}

impl IndexMut<u32> for Slots {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.chunks[(index >> CHUNK_BITS) as usize][(index & (CHUNK - 1)) as usize]
    }
}
