//! A plan on any device: a generated program sorts frames into software queues.
//!
//! [`XdpSteering`] takes the changes that a search collects ([`DeviceChange`](weever_plan::search::DeviceChange)) and brings them into a
//! [`Classifier`](weever_ebpf::xdp::classify::Classifier): rules of tables in which the more specific one wins become entries of hash maps,
//! one update each; rules of tables with priorities become the program's ordered filters. Nothing is
//! lost while that happens. It goes with the process, however that ends.

mod counter;
mod counts;
mod cpus;
mod error;
mod exact;
mod ordered;
mod outcome;
mod rules;
mod steering;
#[cfg(test)]
mod tests;

pub use counter::FlowCounter;
pub use cpus::cpu_map;
pub use error::XdpError;
pub use outcome::ProgramReport;
pub use steering::XdpSteering;
/// The place in the receive path where a program runs.
pub use weever_ebpf::sys::AttachMode;
