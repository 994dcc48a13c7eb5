//! A rule as the kernel has it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ANY_LOCATION;
use super::layout::{put_u32, put_u64, spec, u32_at, u64_at};

/// The destination of a rule's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To a queue.
    Queue(u32),
    /// Nowhere.
    Drop,
    /// To the queues of a context: the context's entry is added to the queue's number.
    Context {
        /// The context.
        context: u32,
        /// The queue.
        queue: u32,
    },
}

/// `struct ethtool_rx_flow_spec`, and the context that belongs to it.
#[derive(Clone, PartialEq, Eq)]
pub struct RuleSpec {
    pub(super) bytes: [u8; spec::SIZE],
    pub(super) context: u32,
}

impl RuleSpec {
    /// A rule of this flow type number that tests nothing.
    pub(super) fn new(flow_type: u32) -> RuleSpec {
        let mut rule = RuleSpec { bytes: [0; spec::SIZE], context: 0 };
        put_u32(&mut rule.bytes, 0, flow_type);
        rule.at(ANY_LOCATION)
    }

    /// Its location; [`ANY_LOCATION`] if the driver is to choose.
    pub fn location(&self) -> u32 {
        u32_at(&self.bytes, spec::LOCATION)
    }

    /// The same rule at another location.
    #[must_use]
    pub fn at(mut self, location: u32) -> RuleSpec {
        put_u32(&mut self.bytes, spec::LOCATION, location);
        self
    }

    /// The destination of its packets.
    pub fn action(&self) -> Action {
        let cookie = u64_at(&self.bytes, spec::COOKIE);
        match u32_at(&self.bytes, 0) & spec::CONTEXT {
            0 if cookie == spec::DROP => Action::Drop,
            // The upper half is for virtual functions.
            0 => Action::Queue(cookie as u32),
            _ => Action::Context { context: self.context, queue: cookie as u32 },
        }
    }

    /// The same rule with another action.
    #[must_use]
    pub fn sending(mut self, action: Action) -> RuleSpec {
        let flow_type = u32_at(&self.bytes, 0) & !spec::CONTEXT;
        let (flag, cookie, context) = match action {
            Action::Queue(queue) => (0, queue.into(), 0),
            Action::Drop => (0, spec::DROP, 0),
            Action::Context { context, queue } => (spec::CONTEXT, queue.into(), context),
        };
        put_u32(&mut self.bytes, 0, flow_type | flag);
        put_u64(&mut self.bytes, spec::COOKIE, cookie);
        self.context = context;
        self
    }

    /// Whether it matches the same packets and does the same with them, wherever it is.
    pub fn says_the_same(&self, other: &RuleSpec) -> bool {
        self.clone().at(0) == other.clone().at(0)
    }

    /// Whether a rule that a device shows carries out the one that was `asked` for: the same type and tests,
    /// and the same action. Values of bits that the mask leaves out may differ, and so may the location:
    /// drivers normalise these.
    pub fn carries_out(&self, asked: &RuleSpec) -> bool {
        let matches = self.matches();
        matches.is_some() && matches == asked.matches() && self.action() == asked.action()
    }

    /// Its masks, for drivers that have one set for all rules.
    pub(super) fn masks(&self) -> Vec<u8> {
        self.bytes[spec::MASKS..spec::COOKIE].to_vec()
    }
}

impl fmt::Debug for RuleSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.to_options(), self.location())
    }
}

/// Bytes as hexadecimal digits, and the context.
#[derive(Serialize, Deserialize)]
struct Text {
    spec: String,
    context: u32,
}

impl Serialize for RuleSpec {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let spec = self.bytes.iter().map(|b| format!("{b:02x}")).collect();
        Text { spec, context: self.context }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RuleSpec {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RuleSpec, D::Error> {
        let text = Text::deserialize(deserializer)?;
        let digits = text.spec.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        let bytes = bytes.ok_or_else(|| serde::de::Error::custom("no rule of a device"))?;
        Ok(RuleSpec { bytes, context: text.context })
    }
}
