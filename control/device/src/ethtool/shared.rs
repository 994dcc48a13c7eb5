//! A device that several look at.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_graph::nic::FlowType;

use super::{
    Announced, Channels, Driver, EthtoolError, HashFields, Hashing, Identity, Rings, RuleSpec,
    Simulated, Spreading, TableSize,
};

/// A handle on a simulated device: one handle steers it, another inspects the result or makes it fail.
#[derive(Clone, Debug)]
pub struct SharedDevice {
    name: String,
    device: Arc<Mutex<Simulated>>,
}

impl SharedDevice {
    /// A first handle.
    pub fn new(device: Simulated) -> SharedDevice {
        SharedDevice { name: device.device.clone(), device: Arc::new(Mutex::new(device)) }
    }

    /// The device itself, while this is held.
    pub fn lock(&self) -> MutexGuard<'_, Simulated> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for SharedDevice {
    fn device(&self) -> &str {
        &self.name
    }

    fn identity(&mut self) -> Result<Identity, EthtoolError> {
        self.lock().identity()
    }

    fn channels(&mut self) -> Result<Channels, EthtoolError> {
        self.lock().channels()
    }

    fn set_channels(&mut self, channels: Channels) -> Result<(), EthtoolError> {
        self.lock().set_channels(channels)
    }

    fn received(&mut self) -> Result<Vec<u64>, EthtoolError> {
        self.lock().received()
    }

    fn ntuple(&mut self) -> Result<bool, EthtoolError> {
        self.lock().ntuple()
    }

    fn set_ntuple(&mut self, on: bool) -> Result<(), EthtoolError> {
        self.lock().set_ntuple(on)
    }

    fn table(&mut self) -> Result<TableSize, EthtoolError> {
        self.lock().table()
    }

    fn locations(&mut self) -> Result<Vec<u32>, EthtoolError> {
        self.lock().locations()
    }

    fn rule(&mut self, location: u32) -> Result<RuleSpec, EthtoolError> {
        self.lock().rule(location)
    }

    fn insert(&mut self, rule: &RuleSpec) -> Result<u32, EthtoolError> {
        self.lock().insert(rule)
    }

    fn remove(&mut self, location: u32) -> Result<(), EthtoolError> {
        self.lock().remove(location)
    }

    fn spreading(&mut self, context: u32) -> Result<Spreading, EthtoolError> {
        self.lock().spreading(context)
    }

    fn set_spreading(
        &mut self,
        context: u32,
        table: Option<&[u32]>,
        key: Option<&[u8]>,
    ) -> Result<(), EthtoolError> {
        self.lock().set_spreading(context, table, key)
    }

    fn reset_spreading(&mut self) -> Result<(), EthtoolError> {
        self.lock().reset_spreading()
    }

    fn add_context(&mut self, table: &[u32]) -> Result<u32, EthtoolError> {
        self.lock().add_context(table)
    }

    fn remove_context(&mut self, context: u32) -> Result<(), EthtoolError> {
        self.lock().remove_context(context)
    }

    fn hash_fields(&mut self, flow_type: FlowType) -> Result<HashFields, EthtoolError> {
        self.lock().hash_fields(flow_type)
    }

    fn set_hash_fields(
        &mut self,
        flow_type: FlowType,
        fields: HashFields,
    ) -> Result<(), EthtoolError> {
        self.lock().set_hash_fields(flow_type, fields)
    }

    fn hashing(&mut self) -> Result<Hashing, EthtoolError> {
        self.lock().hashing()
    }

    fn rings(&mut self) -> Result<Rings, EthtoolError> {
        self.lock().rings()
    }

    fn interrupts(&mut self) -> BTreeMap<u32, u32> {
        self.lock().interrupts()
    }

    fn feature(&mut self, name: &str) -> Result<Option<bool>, EthtoolError> {
        self.lock().feature(name)
    }

    fn set_feature(&mut self, name: &str, on: bool) -> Result<(), EthtoolError> {
        self.lock().set_feature(name, on)
    }

    fn private_flag(&mut self, name: &str) -> Result<Option<bool>, EthtoolError> {
        self.lock().private_flag(name)
    }

    fn set_private_flag(&mut self, name: &str, on: bool) -> Result<(), EthtoolError> {
        self.lock().set_private_flag(name, on)
    }

    fn steers_sockets(&mut self) -> bool {
        self.lock().steers_sockets()
    }

    fn listen(&mut self) {
        self.lock().listen();
    }

    fn announced(&mut self) -> Announced {
        self.lock().announced()
    }
}
