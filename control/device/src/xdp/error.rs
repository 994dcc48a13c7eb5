//! The reasons why a program cannot carry out a plan.

use weever_ebpf::sys::BpfError;
use weever_graph::Field;
use weever_plan::search::Refused;

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
