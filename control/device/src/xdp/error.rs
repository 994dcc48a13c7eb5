//! The results of changes of a program, and the reasons why it cannot carry out a plan.

use weever_ebpf::sys::BpfError;
use weever_graph::Field;
use weever_plan::search::{Refused, RuleId, Search};

/// Why something could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// The kernel's word, or a limit of the program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Exact rules look at too many different sets of bits.
    #[error("{0}")]
    Masks(BpfError),
    /// The program does not look at a field.
    #[error("the program does not look at {field}; leave it out of the model's tables")]
    Field {
        /// The field.
        field: Field,
    },
    /// Two rules match the same packets.
    #[error("another rule matches the same packets")]
    Duplicate,
    /// A rule names a queue that is not there.
    #[error("there is no queue {queue}: there are {queues}")]
    Queue {
        /// The queue.
        queue: u32,
        /// The number of queues.
        queues: usize,
    },
    /// A rule wants its packets spread.
    #[error(
        "the program sends all packets of a rule to one queue; leave contexts out of the model"
    )]
    Context,
    /// No CPU is named.
    #[error("no CPU to send frames to: name one")]
    NoCpu,
    /// A CPU cannot take frames.
    #[error("CPU {cpu} cannot take frames ({source}); is there such a CPU?")]
    Cpu {
        /// The number of the CPU.
        cpu: u32,
        /// The kernel's word.
        source: BpfError,
    },
}

impl XdpError {
    /// The meaning for other rules of a rule that could not be carried out.
    pub fn refusal(&self) -> Refused {
        match self {
            XdpError::Masks(_) | XdpError::Field { .. } | XdpError::Context => Refused::Kind,
            // The map has no room, or the program would be too long.
            XdpError::Bpf(
                BpfError::Call { .. } | BpfError::Setting { .. } | BpfError::Assemble(_),
            ) => Refused::Full { room: None },
            _ => Refused::Rule,
        }
    }
}

/// The result of [`XdpSteering::apply`](super::XdpSteering::apply).
#[derive(Debug, Default)]
pub struct ProgramReport {
    /// The number of new rules.
    pub inserted: usize,
    /// The number of removed rules.
    pub removed: usize,
    /// How many send their packets elsewhere.
    pub retargeted: usize,
    /// Whether the program was exchanged; otherwise only its maps changed.
    pub exchanged: bool,
    /// Rules that are not carried out, and why. Their packets go as if there were no such rule.
    pub failed: Vec<(RuleId, XdpError)>,
}

impl ProgramReport {
    /// Adds the result of a later call.
    pub fn add(&mut self, other: ProgramReport) {
        self.inserted += other.inserted;
        self.removed += other.removed;
        self.retargeted += other.retargeted;
        self.exchanged |= other.exchanged;
        self.failed.extend(other.failed);
    }

    /// Tells the search of the rules that are not carried out, so that it plans around them.
    pub fn tell(&self, search: &mut Search) {
        let refused =
            self.failed.iter().map(|(id, error)| (*id, error.refusal(), error.to_string()));
        search.refuse_all(&refused.collect::<Vec<_>>());
    }
}
