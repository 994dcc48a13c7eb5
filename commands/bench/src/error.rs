//! Why a benchmark could not run.

use weever_ebpf::sys::BpfError;

/// An error of a benchmark.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The benchmark needs rights that the process has not.
    #[error("bench {0} needs CAP_NET_ADMIN and CAP_BPF: run it as root")]
    Rights(&'static str),
    /// The benchmark needs more cores.
    #[error("bench {bench} needs two cores, this process may use {cores}")]
    Cores {
        /// Which benchmark.
        bench: &'static str,
        /// How many there are.
        cores: usize,
    },
    /// The test network could not be built.
    #[error("test network: {0}")]
    Network(#[from] weever_testbed::Error),
    /// A BPF program or map was refused.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A contender could not be set up or failed on the way.
    #[error("{contender}: {problem}")]
    Contender {
        /// Which one.
        contender: &'static str,
        /// The failure.
        problem: String,
    },
}

impl BenchError {
    /// Wraps a contender's error.
    pub(crate) fn of<E: std::fmt::Display>(contender: &'static str) -> impl Fn(E) -> BenchError {
        move |e| BenchError::Contender { contender, problem: e.to_string() }
    }
}
