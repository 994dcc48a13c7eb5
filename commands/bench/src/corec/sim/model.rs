//! The systems that are compared, and their latency.

/// How long a server is busy with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Exponentially distributed around one.
    Exponential,
    /// Always one.
    Deterministic,
}

/// Where packets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queues {
    /// In one queue, from which every server takes the first (COREC).
    Shared,
    /// In one queue per server, each packet in a random one (RSS, scale-out).
    PerServer,
}

/// Latency of a packet: waiting and service together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) mean: f64,
    pub(super) p99: f64,
}

impl Latency {
    /// The larger of the two relative differences to `truth`.
    pub(super) fn error(self, truth: Latency) -> f64 {
        let of = |value: f64, truth: f64| (value / truth - 1.0).abs();
        of(self.mean, truth.mean).max(of(self.p99, truth.p99))
    }
}

impl Service {
    /// The word in names of rows and files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Service::Exponential => "exponential",
            Service::Deterministic => "deterministic",
        }
    }
}
