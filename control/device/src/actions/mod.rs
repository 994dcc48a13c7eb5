//! Applies a plan's configuration to a device.
//!
//! [`DesiredConfiguration`] is a plan's configuration in the kernel's terms.
//! [`ConfigurationSteps::between`] compares it with the device and with the [`Record`] of our changes,
//! and is a list of [`Step`]s, each with the command that does the same. [`ConfigurationSteps::apply`]
//! takes them: when one fails, those before it are reverted. [`undo`] restores the device as it was
//! found. [`bring`] does all of it for a search's plan, and has the search plan around rules that the
//! device refuses.
//!
//! Rules that are not in the record belong to others: they are never touched, and their locations are
//! never used. A rule of ours that others changed since belongs to them, too.

mod bring;
mod desired;
mod diff;
mod persist;
mod record;
mod settings;
mod step;
#[cfg(test)]
mod tests;
mod undo;

pub use bring::{AboutTo, ApplyReport, BringError, bring};
pub(crate) use bring::{Ahead, bring_noting, rule_of_plan, take};
pub use desired::{DesiredConfiguration, switches};
pub use diff::ConfigurationSteps;
pub use persist::{PersistError, StateFile};
pub use record::Record;
pub use settings::Setting;
pub(crate) use settings::Settings;
pub use step::Step;
pub use undo::ApplyError;
pub use undo::undo;

use crate::ethtool::EthtoolError;

/// Why a plan cannot be brought onto a device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The device's answer.
    #[error(transparent)]
    Device(#[from] EthtoolError),
    /// A rule that the kernel cannot express.
    #[error(
        "{table}: rules of type {flow_type} cannot say anything about {field}; does the model fit \
         this device?"
    )]
    Field {
        /// The model's table.
        table: String,
        /// The flow type.
        flow_type: weever_graph::nic::FlowType,
        /// The field.
        field: weever_graph::Field,
    },
    /// A table that the kernel does not expose.
    #[error("{table}: Linux does not expose this table; plan for its exposed part (Nic::linux_of)")]
    Hidden {
        /// The model's table.
        table: String,
    },
    /// The device has fewer queues than the plan.
    #[error("{device} can have {most} receive queues, and the plan has {wanted}; plan for fewer")]
    Queues {
        /// The device.
        device: String,
        /// The largest possible number.
        most: u32,
        /// The wanted number.
        wanted: u32,
    },
    /// There are not enough locations.
    #[error(
        "{device} has {locations} locations for rules, {others} of them taken by rules that are not \
         ours; {wanted} rules do not fit"
    )]
    NoRoom {
        /// The device.
        device: String,
        /// The number of locations.
        locations: u32,
        /// The number of locations that others use.
        others: usize,
        /// The number of wanted rules.
        wanted: usize,
    },
    /// The device does not spread as the plan needs it.
    #[error(
        "{device} cannot be told how to spread ({source}), and the plan keeps some queues free of \
         other traffic"
    )]
    Spreading {
        /// The device.
        device: String,
        /// The device's answer.
        source: EthtoolError,
    },
}
