//! The requests that a device answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weever_graph::nic::{FlowType, RssFields};
use weever_plan::config::Rss;

use super::{Announced, EthtoolError, RuleSpec};

/// The driver of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The driver's name, as `ixgbe`.
    pub driver: String,
    /// The device's PCI address.
    pub bus: String,
}

/// The numbers of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// Queues that only receive.
    pub rx: u32,
    /// Queues that only send.
    pub tx: u32,
    /// Queues for everything else.
    pub other: u32,
    /// Queues that receive and send.
    pub combined: u32,
    /// How many of each kind there can be, in the same order.
    pub most: [u32; 4],
}

impl Channels {
    /// The number of receiving queues.
    pub fn receiving(&self) -> u32 {
        self.rx.saturating_add(self.combined)
    }

    /// The same with `count` queues that receive, of the kind that the device has.
    #[must_use]
    pub fn with_receiving(mut self, count: u32) -> Channels {
        match self.most[3] {
            0 => self.rx = count,
            _ => self.combined = count.saturating_sub(self.rx),
        }
        self
    }
}

/// The table of rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// The number of rules.
    pub rules: u32,
    /// The number of locations, if the driver reports it.
    pub locations: Option<u32>,
    /// Whether the driver chooses locations on request.
    pub chooses: bool,
}

/// The spreading of packets that no rule takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spreading {
    /// The queue for each value of the hash.
    pub table: Vec<u32>,
    /// The hash's key; empty if there is none to set.
    pub key: Vec<u8>,
}

impl Spreading {
    /// The same with a table of so many entries, over the same queues.
    #[must_use]
    pub fn fitted(&self, entries: usize) -> Spreading {
        let mut fitted = self.clone();
        if entries != self.table.len() {
            fitted.table = Rss::table_over(&Rss::queues_of(&self.table), entries);
        }
        fitted
    }

    /// Whether the table is as drivers fill it for so many queues, if nobody sets one.
    pub fn is_even_over(&self, queues: u32) -> bool {
        self.table.iter().copied().eq((0..queues).cycle().take(self.table.len()))
    }
}

/// How packets are hashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hashing {
    /// The function's name.
    pub function: String,
    /// Whether both directions of a connection have the same hash.
    pub symmetric: bool,
}

/// The descriptors of rings: how many there are, and how many there can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rings {
    /// Of a receive queue.
    pub receive: [u32; 2],
    /// Of a send queue.
    pub send: [u32; 2],
}

/// The fields that are hashed of a flow type: bits `RXH_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashFields(pub u64);

impl HashFields {
    const ADDRESSES: u64 = 1 << 4 | 1 << 5;
    const PORTS: u64 = 1 << 6 | 1 << 7;

    /// In the words of models; nothing if these have none for it.
    pub(crate) fn as_model(self) -> Option<RssFields> {
        let all = [RssFields::FourTuple, RssFields::Addresses, RssFields::None];
        all.into_iter().find(|fields| HashFields::from(*fields) == self)
    }

    /// `sdfn`, as `ethtool` calls them.
    pub fn letters(self) -> String {
        let bits = "mvtsdfn".chars().enumerate();
        let set = bits.filter(|(i, _)| self.0 >> (i + 1) & 1 == 1);
        set.map(|(_, letter)| letter).collect()
    }
}

impl From<RssFields> for HashFields {
    fn from(fields: RssFields) -> HashFields {
        HashFields(match fields {
            RssFields::FourTuple => HashFields::ADDRESSES | HashFields::PORTS,
            RssFields::Addresses => HashFields::ADDRESSES,
            RssFields::None => 0,
        })
    }
}

/// A device, as `ethtool` sees it. Every call may wait for the device, seldom longer than some
/// milliseconds (changing channels resets most devices, which takes seconds and loses packets).
///
/// Every call fails with [`EthtoolError::Gone`] once the device is, and with
/// [`EthtoolError::Unsupported`] if its driver does not support it.
pub trait Driver {
    /// The device's name.
    fn device(&self) -> &str;
    /// The device's driver.
    fn identity(&mut self) -> Result<Identity, EthtoolError>;
    /// The numbers of queues.
    fn channels(&mut self) -> Result<Channels, EthtoolError>;
    /// Changes that.
    fn set_channels(&mut self, channels: Channels) -> Result<(), EthtoolError>;
    /// Whether rules are in force.
    fn ntuple(&mut self) -> Result<bool, EthtoolError>;
    /// Changes that. With some drivers, switching it off removes all rules.
    fn set_ntuple(&mut self, on: bool) -> Result<(), EthtoolError>;
    /// The table of rules.
    fn table(&mut self) -> Result<TableSize, EthtoolError>;
    /// The frames that each receive queue got since the driver was loaded, by queue.
    fn received(&mut self) -> Result<Vec<u64>, EthtoolError>;
    /// The locations of all rules.
    fn locations(&mut self) -> Result<Vec<u32>, EthtoolError>;
    /// The rule at a location.
    fn rule(&mut self, location: u32) -> Result<RuleSpec, EthtoolError>;
    /// Adds a rule, or replaces the one at its location, and returns its location.
    fn insert(&mut self, rule: &RuleSpec) -> Result<u32, EthtoolError>;
    /// Removes the rule at a location.
    fn remove(&mut self, location: u32) -> Result<(), EthtoolError>;
    /// The spreading of a context; context 0 is for packets that no rule takes.
    fn spreading(&mut self, context: u32) -> Result<Spreading, EthtoolError>;
    /// Changes that; `None` leaves table or key unchanged.
    fn set_spreading(
        &mut self,
        context: u32,
        table: Option<&[u32]>,
        key: Option<&[u8]>,
    ) -> Result<(), EthtoolError>;
    /// Spreads evenly over all queues, and lets the driver do so again when their number changes: a table that
    /// was set by value counts as somebody's, and stays as it is.
    fn reset_spreading(&mut self) -> Result<(), EthtoolError>;
    /// Makes a context that spreads so, for rules to choose, and returns its number.
    fn add_context(&mut self, table: &[u32]) -> Result<u32, EthtoolError>;
    /// Removes a context that no rule uses.
    fn remove_context(&mut self, context: u32) -> Result<(), EthtoolError>;
    /// The hashed fields of a flow type's packets.
    fn hash_fields(&mut self, flow_type: FlowType) -> Result<HashFields, EthtoolError>;
    /// Changes that.
    fn set_hash_fields(
        &mut self,
        flow_type: FlowType,
        fields: HashFields,
    ) -> Result<(), EthtoolError>;
    /// The hash's function, and whether it is symmetric.
    fn hashing(&mut self) -> Result<Hashing, EthtoolError>;
    /// The descriptors of its rings.
    fn rings(&mut self) -> Result<Rings, EthtoolError>;
    /// The interrupt of each receive queue, where the driver says one.
    fn interrupts(&mut self) -> BTreeMap<u32, u32>;
    /// Whether a feature is on, by the name that `ethtool -K` takes; nothing if there is no such feature.
    fn feature(&mut self, name: &str) -> Result<Option<bool>, EthtoolError>;
    /// Switches a feature on or off. The device may leave it as it is without an error: its driver decides, and other
    /// features may require this one.
    fn set_feature(&mut self, name: &str, on: bool) -> Result<(), EthtoolError>;
    /// Whether a private flag of the driver (`ethtool --show-priv-flags`) is set; nothing if it has no such flag.
    fn private_flag(&mut self, name: &str) -> Result<Option<bool>, EthtoolError>;
    /// Changes that.
    fn set_private_flag(&mut self, name: &str, on: bool) -> Result<(), EthtoolError>;
    /// Whether the kernel makes rules of its own for sockets (aRFS) once rules are in force.
    fn steers_sockets(&mut self) -> bool;
    /// Listens to announcements about the device from now on, as far as the kernel lets.
    fn listen(&mut self);
    /// What was announced since the last call. Does not wait. That nothing was is no proof that nothing changed.
    fn announced(&mut self) -> Announced;
}
