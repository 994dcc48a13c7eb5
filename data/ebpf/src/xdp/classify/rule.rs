//! Rules: tests of a packet's fields, and the target of a match.

use crate::sys::BpfError;

/// Queues are numbered up to here; the numbers above stand for other targets.
pub(super) const LAST_QUEUE: u32 = 0xffff;

/// A field of a packet, as far as the program looks into it.
///
/// A packet without the field matches no test of it. Transport fields are those of TCP, UDP and
/// SCTP that directly follow the IP header; of fragments nothing behind that header is looked at,
/// since all but the first lack it and all should go the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// EtherType behind an 802.1Q tag, if there is one; 16 bits.
    EtherType,
    /// VLAN identifier of the outer tag; 12 bits.
    Vlan,
    /// IPv4 source.
    Src4,
    /// IPv4 destination.
    Dst4,
    /// IPv6 source.
    Src6,
    /// IPv6 destination.
    Dst6,
    /// IPv4 protocol, or IPv6 next header; 8 bits.
    Protocol,
    /// Source port.
    SrcPort,
    /// Destination port.
    DstPort,
    /// TCP flags, low byte.
    TcpFlags,
}

impl Field {
    /// Every field.
    pub const ALL: [Field; 10] = [
        Field::EtherType,
        Field::Vlan,
        Field::Src4,
        Field::Dst4,
        Field::Src6,
        Field::Dst6,
        Field::Protocol,
        Field::SrcPort,
        Field::DstPort,
        Field::TcpFlags,
    ];

    /// Its width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Field::Src4 | Field::Dst4 => 32,
            Field::Src6 | Field::Dst6 => 128,
            Field::Vlan => 12,
            Field::EtherType | Field::SrcPort | Field::DstPort => 16,
            Field::Protocol | Field::TcpFlags => 8,
        }
    }

    /// The mask that covers all of it.
    pub fn full(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }
}

/// One condition; numbers are the field's value read big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// `field & mask == value`.
    Mask {
        /// The field.
        field: Field,
        /// The bits that count.
        mask: u128,
        /// Their values; no bit outside the mask.
        value: u128,
    },
    /// `lo <= field <= hi`.
    Range {
        /// The field.
        field: Field,
        /// The least value.
        lo: u128,
        /// The greatest value.
        hi: u128,
    },
}

impl Test {
    /// `field == value`.
    pub fn exact(field: Field, value: u128) -> Test {
        Test::Mask { field, mask: field.full(), value }
    }

    /// The field it is about.
    pub fn field(self) -> Field {
        match self {
            Test::Mask { field, .. } | Test::Range { field, .. } => field,
        }
    }

    /// Whether a packet with this value of the field passes.
    pub fn holds(self, of: u128) -> bool {
        match self {
            Test::Mask { mask, value, .. } => of & mask == value,
            Test::Range { lo, hi, .. } => lo <= of && of <= hi,
        }
    }

    /// Whether it holds of every value without comparing anything.
    pub(super) fn is_always_true(self) -> bool {
        matches!(self, Test::Mask { mask: 0, .. })
    }

    fn check(self) -> Result<(), BpfError> {
        let (field, full) = (self.field(), self.field().full());
        let sound = match self {
            Test::Mask { mask, value, .. } => mask <= full && value & !mask == 0,
            Test::Range { lo, hi, .. } => lo <= hi && hi <= full,
        };
        if sound { Ok(()) } else { setting(format!("{field:?}: {self:?} is no test of it")) }
    }
}

/// Where a matching packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A software queue.
    Queue(u32),
    /// To the kernel's stack.
    Pass,
    /// Nowhere.
    Drop,
}

/// A filter: all its tests have to hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    /// The tests, one for a field at most.
    pub tests: Vec<Test>,
    /// The target of packets that match.
    pub target: Target,
}

impl Rule {
    /// Checks the rule by itself; the error is its first fault.
    ///
    /// # Errors
    /// [`BpfError::Setting`]: a field is tested twice, a value does not fit its field, or the
    /// fields belong to both versions of IP.
    pub fn check(&self) -> Result<(), BpfError> {
        for (i, test) in self.tests.iter().enumerate() {
            test.check()?;
            if self.tests[..i].iter().any(|other| other.field() == test.field()) {
                return setting(format!("{:?} is tested twice: join the tests", test.field()));
            }
        }
        let tests = |fields: [Field; 2]| self.tests.iter().any(|t| fields.contains(&t.field()));
        if tests([Field::Src4, Field::Dst4]) && tests([Field::Src6, Field::Dst6]) {
            return setting("addresses of both versions of IP are tested; no packet has them");
        }
        match self.target {
            Target::Queue(queue) if queue > LAST_QUEUE => {
                setting(format!("queue {queue}: the last one is {}", LAST_QUEUE))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn setting<T>(what: impl Into<String>) -> Result<T, BpfError> {
    Err(BpfError::Setting { what: what.into() })
}
