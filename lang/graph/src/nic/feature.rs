//! Work that a device does on packets beside sorting them into queues: checksums, segmentation, tags.

use super::FlowType;
use super::check::{Part, Problem, Problems};
use crate::{Field, Predicate};

/// A feature of a device: a step of its receive or send side that is on or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureModel {
    /// The names by which Linux switches it (`ethtool -k`, `netdev_features_strings`). Without any, it is
    /// always as it starts.
    pub ethtool: Vec<String>,
    /// Whether a device starts with it on.
    pub starts_on: bool,
    /// What it does while it is on.
    pub work: Vec<Work>,
}

/// What a feature does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// On the receive side: it has looked, and says of packets that the predicate is true of them.
    Vouches {
        /// Of every packet. Otherwise it says packet by packet whether it is.
        always: bool,
        /// The predicate.
        predicate: Predicate,
    },
    /// On the receive side: packets of which the predicate is true do not arrive.
    Drops(Predicate),
    /// On the send side: the predicate is true of packets behind it, whatever software left to it.
    Fills(Predicate),
    /// On the send side: long segments and datagrams of these types are cut into packets.
    Cuts(Vec<FlowType>),
    /// On the receive side: packets of these types that follow each other arrive as one.
    Joins(Vec<FlowType>),
    /// On the receive side: the field is taken out of the frame, before the rules of a program see it.
    Takes(Field),
    /// On the send side: the field is put into the frame.
    Puts(Field),
    /// Packets get the time at which they passed.
    Stamps,
}

impl Work {
    /// Whether a receive side can do it; the others belong to a send side.
    pub fn receives(&self) -> bool {
        !matches!(self, Work::Fills(_) | Work::Cuts(_) | Work::Puts(_))
    }

    /// Whether a send side can do it.
    pub fn sends(&self) -> bool {
        !self.receives() || *self == Work::Stamps
    }

    /// The word with which its line begins.
    pub fn word(&self) -> &'static str {
        match self {
            Work::Vouches { .. } => "vouches",
            Work::Drops(_) => "drops",
            Work::Fills(_) => "fills",
            Work::Cuts(_) => "cuts",
            Work::Joins(_) => "joins",
            Work::Takes(_) => "takes",
            Work::Puts(_) => "puts",
            Work::Stamps => "stamps",
        }
    }
}

impl FeatureModel {
    /// Everything that is impossible about the feature.
    pub fn check(&self) -> Vec<Problem> {
        let mut found = Problems::default();
        if self.work.is_empty() {
            let help = "add for instance `vouches each \"pred(udp.checksum,right)\"`";
            found.add(Part::Whole, "the feature does nothing", help);
        }
        let sides = (self.work.iter().all(Work::receives), self.work.iter().all(Work::sends));
        if sides == (false, false) {
            let message = "it works on packets that are received and on packets that are sent";
            found.add(Part::Whole, message, "make two features of it");
        }
        for (at, work) in self.work.iter().enumerate() {
            if self.work[..at].contains(work) {
                found.add(Part::Work(at), "this was said before", "keep one of the two");
            }
            if let Work::Takes(field) | Work::Puts(field) = work
                && *field != Field::VlanId
            {
                let help = "the only one is `vlan.id`";
                found.add(Part::Work(at), format!("devices do not move {field}"), help);
            }
        }
        for name in &self.ethtool {
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || !name.chars().all(is_name) {
                let help = "names are those of `ethtool -k`, as `rx-checksum`";
                found.add(Part::Linux, format!("`{name}` is no name of a feature"), help);
            }
        }
        found.into()
    }
}
