//! The effects of a node's implementation on the buffer of a task (design/0000 §4.2).
//!
//! Branches of one task share one buffer, so the verifier rejects two nodes with conflicting effects
//! that no path of edges orders.

/// A set of effects. The empty set touches neither buffer nor state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effects(u8);

impl Effects {
    /// Touches nothing.
    pub const NONE: Effects = Effects(0);
    /// Reads packet bytes or metadata.
    pub const READS: Effects = Effects(1);
    /// Writes packet bytes.
    pub const WRITES: Effects = Effects(1 << 1);
    /// Changes where the packet starts or ends. Recorded header offsets stay valid.
    pub const MOVES_HEAD: Effects = Effects(1 << 2);
    /// Records a disposition: takes the buffer away when the task ends.
    pub const CONSUMES: Effects = Effects(1 << 3);
    /// Has state that outlives the batch.
    pub const STATEFUL: Effects = Effects(1 << 4);
    /// May block its task until a notify.
    pub const BLOCKS: Effects = Effects(1 << 5);
    /// Cannot run in a task without a buffer.
    pub const NEEDS_BUFFER: Effects = Effects(1 << 6);
    /// Writes metadata (recorded offsets, next hop, match id).
    pub const MARKS: Effects = Effects(1 << 7);

    /// All effects.
    pub const ALL: Effects = Effects(u8::MAX);

    const NAMES: [(&'static str, Effects); 8] = [
        ("reads", Effects::READS),
        ("writes", Effects::WRITES),
        ("moves_head", Effects::MOVES_HEAD),
        ("consumes", Effects::CONSUMES),
        ("stateful", Effects::STATEFUL),
        ("blocks", Effects::BLOCKS),
        ("needs_buffer", Effects::NEEDS_BUFFER),
        ("marks", Effects::MARKS),
    ];

    /// The effects of either set.
    #[must_use]
    pub const fn union(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }

    /// Whether every effect of `other` is in this set.
    pub const fn contains(self, other: Effects) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the sets share an effect.
    pub const fn intersects(self, other: Effects) -> bool {
        self.0 & other.0 != 0
    }

    /// The effect called `name` in Unicorn text.
    pub fn from_name(name: &str) -> Option<Effects> {
        Self::NAMES.iter().find(|(n, _)| *n == name).map(|(_, e)| *e)
    }

    /// The names of the effects in this set, as Unicorn writes them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.iter().filter(move |(_, e)| self.contains(*e)).map(|(n, _)| *n)
    }

    /// Whether two nodes with these effects must be ordered by an edge when one task may run both: one
    /// changes bytes or bounds that the other reads, or both take the buffer away.
    pub fn conflicts(self, other: Effects) -> bool {
        let changes = Effects::WRITES.union(Effects::MOVES_HEAD);
        let looks = changes.union(Effects::READS);
        (self.intersects(changes) && other.intersects(looks))
            || (other.intersects(changes) && self.intersects(looks))
            || (self.contains(Effects::CONSUMES) && other.contains(Effects::CONSUMES))
    }
}

impl std::ops::BitOr for Effects {
    type Output = Effects;
    fn bitor(self, other: Effects) -> Effects {
        self.union(other)
    }
}
