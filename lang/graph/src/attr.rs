//! Attributes: short texts on a node that control its treatment by the runtime.

/// An attribute of a node. Known ones have a meaning; others are kept as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attr {
    /// Packets enter the graph here.
    Source,
    /// Packets leave the graph here.
    Sink,
    /// Gets one task without a buffer when the graph starts.
    Init,
    /// Cannot be embedded in hardware.
    Software,
    /// A NIC that guarantees the predicate of one of the node's ports has done the node's whole work.
    Offload,
    /// Its result serves no user directly; may be removed when nothing depends on it.
    Unproductive,
    /// Not replicated at the inputs and outputs of a queue's graph.
    NoReplicateInOut,
    /// Not replicated at the outputs.
    NoReplicateOut,
    /// `drop PORT: REASON`. A packet that leaves by PORT and that nothing else takes is a counted
    /// drop with this reason.
    Drop {
        /// The port's name.
        port: String,
        /// The reason, as shown in a table of drops.
        reason: String,
    },
    /// `KEY=VALUE`: a parameter for the node's implementation.
    Param {
        /// The parameter's name.
        key: String,
        /// Its value, as text.
        value: String,
    },
    /// Anything else.
    Other(String),
}

impl Attr {
    /// Reads an attribute's text. Never fails: unknown ones are [`Attr::Other`].
    pub fn parse(text: &str) -> Attr {
        match text {
            "source" => Attr::Source,
            "sink" => Attr::Sink,
            "init" => Attr::Init,
            "software" => Attr::Software,
            "offload" => Attr::Offload,
            "unproductive" => Attr::Unproductive,
            "noreplicateininout" => Attr::NoReplicateInOut,
            "noreplicateout" => Attr::NoReplicateOut,
            _ => Attr::parse_structured(text),
        }
    }

    /// Whether it marks a node of a feature that a host may do without: `for applications`. The host
    /// leaves such nodes out, or starts tasks at them itself.
    pub fn marks_feature(&self) -> bool {
        matches!(self, Attr::Other(text) if text.starts_with("for "))
    }

    fn parse_structured(text: &str) -> Attr {
        let dropped = text.strip_prefix("drop ").and_then(|rest| rest.split_once(':'));
        if let Some((port, reason)) = dropped {
            return Attr::Drop { port: port.trim().into(), reason: reason.trim().into() };
        }
        match text.split_once('=') {
            Some((key, value)) if is_identifier(key.trim()) => {
                Attr::Param { key: key.trim().into(), value: value.trim().into() }
            }
            _ => Attr::Other(text.into()),
        }
    }
}

fn is_identifier(s: &str) -> bool {
    !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl std::fmt::Display for Attr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Attr::Source => f.write_str("source"),
            Attr::Sink => f.write_str("sink"),
            Attr::Init => f.write_str("init"),
            Attr::Software => f.write_str("software"),
            Attr::Offload => f.write_str("offload"),
            Attr::Unproductive => f.write_str("unproductive"),
            Attr::NoReplicateInOut => f.write_str("noreplicateininout"),
            Attr::NoReplicateOut => f.write_str("noreplicateout"),
            Attr::Drop { port, reason } => write!(f, "drop {port}: {reason}"),
            Attr::Param { key, value } => write!(f, "{key}={value}"),
            Attr::Other(text) => f.write_str(text),
        }
    }
}
