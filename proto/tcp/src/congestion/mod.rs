//! Congestion control: the limit on octets in flight.
//!
//! Recovery decides *when* something was lost and how a reduction is carried out (proportional rate
//! reduction); a [`CongestionControl`] decides how the window grows and how far it falls.

mod algorithm;
mod control;
mod cubic;
mod dctcp;
mod hystart;
mod prr;
mod reno;
mod validation;

pub use algorithm::Algorithm;
pub(crate) use algorithm::Controller;
pub(crate) use control::initial_window;
pub use control::{Acked, Congestion, CongestionControl, Window};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub(crate) use prr::Prr;
pub use reno::Reno;
pub(crate) use validation::Validation;

#[cfg(test)]
mod tests;
