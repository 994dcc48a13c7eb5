//! Congestion control: the limit on octets in flight.
//!
//! Recovery decides *when* something was lost and how a reduction is carried out (proportional rate
//! reduction); a [`CongestionControl`] decides how the window grows and how far it falls.

mod control;
mod cubic;
mod dctcp;
#[cfg(test)]
mod tests;
mod validation;

pub(crate) use control::initial_window;
pub use control::{Acked, Congestion, CongestionControl, Reno, Window};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub(crate) use validation::{Prr, Validation};

/// The algorithms that ship.
#[derive(Clone, Copy, Debug)]
pub enum Algorithm {
    /// RFC 5681 and RFC 6582.
    Reno,
    /// RFC 9438 with RFC 9406.
    Cubic,
    /// RFC 8257.
    Dctcp,
    /// One's own.
    Custom(fn() -> Box<dyn CongestionControl + Send>),
}

/// The algorithm of a connection, kept in place.
pub(crate) enum Controller {
    Reno(Reno),
    Cubic(Cubic),
    Dctcp(Dctcp),
    Custom(Box<dyn CongestionControl + Send>),
}

impl Controller {
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Reno => Self::Reno(Reno::default()),
            Algorithm::Cubic => Self::Cubic(Cubic::default()),
            Algorithm::Dctcp => Self::Dctcp(Dctcp::default()),
            Algorithm::Custom(make) => Self::Custom(make()),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Reno(control) => control.name(),
            Self::Cubic(control) => control.name(),
            Self::Dctcp(control) => control.name(),
            Self::Custom(control) => control.name(),
        }
    }

    /// Whether an acknowledgement by which the window may not grow means nothing to it.
    #[inline]
    pub(crate) fn only_grows(&self) -> bool {
        matches!(self, Self::Reno(_) | Self::Cubic(_))
    }

    pub(crate) fn get(&mut self) -> &mut dyn CongestionControl {
        match self {
            Self::Reno(control) => control,
            Self::Cubic(control) => control,
            Self::Dctcp(control) => control,
            Self::Custom(control) => control.as_mut(),
        }
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reno(control) => control.fmt(f),
            Self::Cubic(control) => control.fmt(f),
            Self::Dctcp(control) => control.fmt(f),
            Self::Custom(control) => f.write_str(control.name()),
        }
    }
}
