//! Help for tests: frames to send, an independent look at them, and a host in a box. For this
//! crate, fuzz targets and tests of graphs.

pub mod frames;
pub mod frames6;
#[cfg(feature = "testing")]
pub mod host;
#[cfg(feature = "testing")]
pub mod link;
#[cfg(feature = "testing")]
pub use {host::HostBox, link::LinkBox};

use weever_graph::Field;
use weever_wire::fields::Parsed;

/// The value of a field in a frame that was walked over.
pub fn field_of(parsed: &Parsed, field: Field) -> Option<u128> {
    crate::table::fields::field_of(parsed, field)
}
