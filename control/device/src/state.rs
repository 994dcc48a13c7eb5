//! A device as it is now: what plans rely on and what they may change, for people and programs.

use std::collections::BTreeMap;

use serde::Serialize;
use weever_graph::nic::FlowType;
use weever_plan::nic::Nic;

use crate::actions::Record;
use crate::ethtool::{Driver, EthtoolError, Hashing, Rings, Spreading};

/// Numbers of contexts that are asked for: drivers count from 1, and have few.
const CONTEXTS: std::ops::RangeInclusive<u32> = 1..=32;
/// Flow types whose hashed fields are asked for.
const TYPES: [FlowType; 8] = [
    FlowType::Tcp4,
    FlowType::Udp4,
    FlowType::Sctp4,
    FlowType::Ip4,
    FlowType::Tcp6,
    FlowType::Udp6,
    FlowType::Sctp6,
    FlowType::Ip6,
];
/// More rules are not shown one by one to people.
const MAX_RULES: usize = 200;
/// Features that are asked for, beside those that a model names.
const FEATURES: [&str; 5] = ["ntuple", "rxhash", "rxvlan", "gro-hw", "lro"];

/// A device as it is now. What its driver does not tell is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceState {
    /// The device's name.
    pub device: String,
    /// The name of its driver.
    pub driver: String,
    /// Its PCI address; empty if it has none.
    pub bus: String,
    /// How many queues receive, and how many could.
    pub queues: Option<[u32; 2]>,
    /// The descriptors of its rings.
    pub rings: Option<Rings>,
    /// The interrupt of each receive queue, with the CPUs that may get it.
    pub interrupts: BTreeMap<u32, Interrupt>,
    /// The node of its memory; nothing on machines that have one only.
    pub numa_node: Option<u32>,
    /// The hash's function, and whether both directions of a connection have the same hash.
    pub hashing: Option<Hashing>,
    /// The table and the key of the hash.
    pub spreading: Option<Spreading>,
    /// The hashed fields by flow type, in the letters of `ethtool -N … rx-flow-hash`.
    pub fields: BTreeMap<String, String>,
    /// Further tables of the hash, by their numbers.
    pub contexts: BTreeMap<u32, Vec<u32>>,
    /// Whether features and private flags are on, by their names.
    pub features: BTreeMap<String, bool>,
    /// The features and private flags that weever switched, with what they were before.
    pub switched: BTreeMap<String, bool>,
    /// Whether the kernel makes rules of its own for sockets (aRFS).
    pub steers_sockets: bool,
    /// How many rules fit, if the driver says so.
    pub locations: Option<u32>,
    /// The rules; nothing if it takes none.
    pub rules: Option<Vec<ShownRule>>,
    /// The frames that each receive queue got.
    pub received: Option<Vec<u64>>,
}

/// An interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// The CPUs that may get it, as the kernel lists them.
    pub cpus: Option<String>,
}

/// A rule of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownRule {
    /// Its location.
    pub location: u32,
    /// As options of `ethtool -N DEV`; nothing if the driver does not show it.
    pub rule: Option<String>,
    /// Whether weever made it.
    pub ours: bool,
}

impl DeviceState {
    /// Reads a device. `nic` is its model, whose features are asked for, and `record` lists what we changed.
    ///
    /// # Errors
    /// [`EthtoolError::Gone`]. What else cannot be read is missing.
    pub fn read(
        driver: &mut dyn Driver,
        nic: Option<&Nic>,
        record: &Record,
    ) -> Result<DeviceState, EthtoolError> {
        let device = driver.device().to_owned();
        let identity = known(driver.identity())?.unwrap_or_default();
        let channels = known(driver.channels())?;
        let queues = channels.map(|c| {
            let most = c.most[0].saturating_add(c.most[3]);
            [c.receiving(), most.max(c.receiving())]
        });
        let mut state = DeviceState { device, queues, ..DeviceState::default() };
        (state.driver, state.bus) = (identity.driver, identity.bus);
        state.rings = known(driver.rings())?;
        state.hashing = known(driver.hashing())?;
        state.spreading = known(driver.spreading(0))?;
        state.received = known(driver.received())?;
        state.steers_sockets = driver.steers_sockets();
        let interrupts = driver.interrupts().into_iter();
        let interrupt = |(queue, number)| (queue, Interrupt { number, cpus: affinity(number) });
        state.interrupts = interrupts.map(interrupt).collect();
        state.numa_node = numa_node(&state.bus);
        state.read_hash(driver)?;
        state.read_features(driver, nic)?;
        state.switched = record.switched();
        state.read_rules(driver, record)?;
        Ok(state)
    }

    fn read_hash(&mut self, driver: &mut dyn Driver) -> Result<(), EthtoolError> {
        if self.spreading.is_none() {
            return Ok(());
        }
        for flow_type in TYPES {
            if let Some(fields) = known(driver.hash_fields(flow_type))? {
                self.fields.insert(flow_type.name().into(), fields.letters());
            }
        }
        for number in CONTEXTS {
            if let Some(context) = known(driver.spreading(number))? {
                self.contexts.insert(number, context.table);
            }
        }
        Ok(())
    }

    fn read_features(
        &mut self,
        driver: &mut dyn Driver,
        nic: Option<&Nic>,
    ) -> Result<(), EthtoolError> {
        let of_model =
            nic.iter().flat_map(|nic| nic.features.iter().flat_map(|f| &f.model.ethtool));
        for name in FEATURES.into_iter().chain(of_model.map(String::as_str)) {
            if let Some(Some(on)) = known(driver.feature(name))? {
                self.features.insert(name.into(), on);
            }
        }
        for name in nic.iter().flat_map(|nic| &nic.off) {
            if let Some(Some(on)) = known(driver.private_flag(name))? {
                self.features.insert(name.clone(), on);
            }
        }
        Ok(())
    }

    fn read_rules(&mut self, driver: &mut dyn Driver, record: &Record) -> Result<(), EthtoolError> {
        self.locations = known(driver.table())?.and_then(|table| table.locations);
        let Some(locations) = known(driver.locations())? else { return Ok(()) };
        let mut record = record.clone();
        known(record.verify(driver))?;
        let ours: Vec<u32> = record.locations().collect();
        let mut rules = Vec::new();
        for location in locations {
            let rule = known(driver.rule(location))?.map(|rule| rule.to_options());
            rules.push(ShownRule { location, rule, ours: ours.contains(&location) });
        }
        self.rules = Some(rules);
        Ok(())
    }

    /// For people, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("{}: driver {}{}", self.device, self.driver, spaced(&self.bus))];
        let mut say = |line: String| lines.push(format!("  {line}"));
        if let Some([now, most]) = self.queues {
            say(format!("receive queues: {now} of {most}"));
        }
        if let Some(Rings { receive: [rx, rx_most], send: [tx, tx_most] }) = self.rings {
            say(format!("rings: receive {rx} of {rx_most}, send {tx} of {tx_most} descriptors"));
        }
        for (queue, Interrupt { number, cpus }) in &self.interrupts {
            let cpus = cpus.as_deref().map_or(String::new(), |cpus| format!(", CPUs {cpus}"));
            say(format!("queue {queue}: interrupt {number}{cpus}"));
        }
        if let Some(node) = self.numa_node {
            say(format!("NUMA node: {node}"));
        }
        self.hash_lines(&mut say);
        for (name, on) in &self.features {
            let ours = if self.switched.contains_key(name) { " (switched by weever)" } else { "" };
            say(format!("{name}: {}{ours}", if *on { "on" } else { "off" }));
        }
        if self.steers_sockets {
            say("aRFS: on (net.core.rps_sock_flow_entries): with ntuple on, the kernel makes rules of its own".into());
        }
        match &self.rules {
            None => say("rules: it takes none".into()),
            Some(rules) => {
                let most = self.locations.map_or(String::new(), |most| format!(" of {most}"));
                say(format!("rules: {}{most}", rules.len()));
                for ShownRule { location, rule, ours } in rules.iter().take(MAX_RULES) {
                    let rule = rule.as_deref().unwrap_or("not shown by the driver");
                    let ours = if *ours { " (ours)" } else { "" };
                    say(format!("  {location}: {rule}{ours}"));
                }
                if rules.len() > MAX_RULES {
                    say(format!("  and {} more", rules.len() - MAX_RULES));
                }
            }
        }
        if let Some(received) = &self.received {
            let counts: Vec<String> = received.iter().map(u64::to_string).collect();
            say(format!("frames received by queue: {}", counts.join(" ")));
        }
        lines
    }

    fn hash_lines(&self, say: &mut impl FnMut(String)) {
        let Some(Spreading { table, key }) = &self.spreading else {
            say("hash: its table cannot be read or set".into());
            return;
        };
        let symmetric = match &self.hashing {
            Some(Hashing { symmetric: true, .. }) => ", symmetric",
            _ => "",
        };
        let function = self.hashing.as_ref().map_or("unknown", |hashing| &hashing.function);
        say(format!(
            "hash: {function}{symmetric}, table of {} entries: {}",
            table.len(),
            parts(table)
        ));
        let key: Vec<String> = key.iter().map(|byte| format!("{byte:02x}")).collect();
        if !key.is_empty() {
            say(format!("hash key: {}", key.join(":")));
        }
        for (number, table) in &self.contexts {
            say(format!("context {number}: {}", parts(table)));
        }
        let fields: Vec<String> = self.fields.iter().map(|(t, f)| format!("{t} {f}")).collect();
        if !fields.is_empty() {
            say(format!("hashed fields: {}", fields.join(", ")));
        }
    }
}

/// The answer, or nothing if the driver has none. Only a device that is gone ends the reading.
fn known<T>(answer: Result<T, EthtoolError>) -> Result<Option<T>, EthtoolError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_gone() => Err(error),
        Err(_) => Ok(None),
    }
}

fn spaced(bus: &str) -> String {
    if bus.is_empty() { String::new() } else { format!(" at {bus}") }
}

/// How many entries of a table name each queue.
fn parts(table: &[u32]) -> String {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    table.iter().for_each(|queue| *counts.entry(*queue).or_default() += 1);
    let parts = counts.iter().map(|(queue, count)| format!("queue {queue} in {count}"));
    parts.collect::<Vec<_>>().join(", ")
}

/// The CPUs that may get an interrupt.
fn affinity(number: u32) -> Option<String> {
    let list = std::fs::read_to_string(format!("/proc/irq/{number}/smp_affinity_list")).ok()?;
    Some(list.trim().to_owned())
}

/// The node of a PCI device's memory.
fn numa_node(bus: &str) -> Option<u32> {
    // A path is made of it.
    let is_address =
        !bus.is_empty() && bus.bytes().all(|b| b.is_ascii_hexdigit() || b":.".contains(&b));
    let path = format!("/sys/bus/pci/devices/{bus}/numa_node");
    let node = is_address.then(|| std::fs::read_to_string(path).ok()).flatten()?;
    // -1 on machines with one node.
    node.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::{Action, Match, Simulated};

    #[test]
    fn a_device_is_described_for_people_and_programs() {
        let mut device = Simulated::new("sim0", 4, 16);
        let rule = Match { flow_type: FlowType::Udp4, fields: Vec::new() };
        device.rules.insert(3, rule.to_rule(Action::Queue(1)).unwrap().at(3));
        device.features.insert("rxvlan".into(), true);
        device.private_flags.insert("flow-director-atr".into(), true);
        (device.symmetric, device.steers_sockets) = (true, true);
        let context = device.add_context(&[2; 128]).unwrap();
        let nic = Nic::linux_of(&weever_models::nic("x710").unwrap()).unwrap();
        let state = DeviceState::read(&mut device, Some(&nic), &Record::default()).unwrap();
        assert_eq!((state.queues, state.locations), (Some([4, 64]), Some(16)));
        assert_eq!(state.contexts[&context], [2; 128]);
        let text = state.lines().join("\n");
        for said in [
            "sim0: driver simulated",
            "hash: toeplitz, symmetric, table of 128 entries: queue 0 in 32, queue 1 in 32",
            "context 1: queue 2 in 128",
            "hashed fields: ip4 sd",
            "flow-director-atr: on",
            "rxvlan: on",
            "rings: receive 512 of 4096",
            "aRFS: on",
            "rules: 1 of 16\n    3: flow-type udp4 action 1",
        ] {
            assert!(text.contains(said), "{said}\n{text}");
        }
        let value = serde_json::to_value(&state).unwrap();
        assert_eq!(value["rules"][0]["location"], 3);
        assert_eq!(value["hashing"]["symmetric"], true);
    }

    #[test]
    fn what_a_driver_does_not_tell_is_missing_and_a_device_that_is_gone_is_an_error() {
        let mut device = Simulated::new("sim0", 2, 0);
        device.spreading.clear();
        let state = DeviceState::read(&mut device, None, &Record::default()).unwrap();
        assert_eq!((&state.rules, &state.spreading), (&None, &None));
        let text = state.lines().join("\n");
        assert!(text.contains("rules: it takes none") && text.contains("cannot be read"), "{text}");
        device.gone = true;
        assert!(DeviceState::read(&mut device, None, &Record::default()).unwrap_err().is_gone());
    }

    #[test]
    fn no_path_is_made_of_what_is_no_address() {
        assert_eq!(numa_node("../../../etc"), None);
        assert_eq!(numa_node(""), None);
    }
}
