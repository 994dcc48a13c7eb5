//! A device that is not there: its state, and what it does with rules and packets. What can be asked of it is in
//! `calls`.

mod calls;

use std::collections::BTreeMap;
use std::io;

use weever_graph::Field;
use weever_graph::nic::FlowType;

use super::behaviour::Consequences;
use super::{
    Action, Announced, Channels, EthtoolError, HashFields, Match, Packet, Profile, RuleSpec,
    Spreading,
};

/// The changes that fail, for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedFailure {
    /// The first change that fails, counted from 0.
    pub at: usize,
    /// The number of failures from there on.
    pub count: usize,
    /// The error number that the system returns.
    pub errno: i32,
}

/// Each octet of the hash's key, if nobody sets another.
const DRIVERS_KEY: u8 = 7;

/// A simulated device with the limits of real ones, for tests and for trying policies out.
///
/// It enforces the limits of drivers: the size of the table, one set of masks for all rules if so
/// limited, locations that the caller has to choose, and queues that exist.
#[derive(Clone, Debug, Default)]
pub struct Simulated {
    /// The device's name.
    pub device: String,
    /// The name of its driver.
    pub driver: String,
    /// Its queues.
    pub channels: Channels,
    /// Whether rules are in force.
    pub ntuple: bool,
    /// The number of rules it takes; 0 for a driver without rules.
    pub size: u32,
    /// Whether it chooses locations on request.
    pub chooses: bool,
    /// Whether all rules have to have the same masks.
    pub one_mask: bool,
    /// Whether it cannot show rules, though it lists where there are some.
    pub hides_rules: bool,
    /// The driver whose rules it takes, and whose matches it makes; any rule without one.
    pub profile: Option<Profile>,
    /// The fields whose tests it drops without a word, as some drivers do with tags.
    pub ignores: Vec<Field>,
    /// Whether it removes a rule before it checks the replacement.
    pub removes_first: bool,
    /// Whether it spreads over all queues when there are more of them, regardless of earlier settings.
    pub forgets_table: bool,
    /// The rules, by location.
    pub rules: BTreeMap<u32, RuleSpec>,
    /// The spreading of each context; empty for a driver whose spreading cannot be set.
    pub spreading: BTreeMap<u32, Spreading>,
    /// Whether its table was set, and not only its number of queues.
    pub spreads_as_set: bool,
    /// Whether both directions of a connection have the same hash.
    pub symmetric: bool,
    /// Whether features are on.
    pub features: BTreeMap<String, bool>,
    /// Whether its kernel cannot be asked to switch features.
    pub has_no_netlink: bool,
    /// The features that were asked for, which its driver may not have.
    pub wished: BTreeMap<String, bool>,
    /// Whether an XDP program is attached to it.
    pub has_program: bool,
    /// The queue to which rules of the driver's own send TCP, while the driver makes some.
    pub own_rules: Option<u32>,
    /// The features that its driver keeps as they are.
    pub fixed: Vec<String>,
    /// The driver's private flags.
    pub private_flags: BTreeMap<String, bool>,
    /// Whether the kernel makes rules of its own for sockets once rules are in force.
    pub steers_sockets: bool,
    /// The hashed fields, where they are not the addresses.
    pub fields: Vec<(FlowType, HashFields)>,
    /// The operation that is to fail.
    pub failing: Option<InjectedFailure>,
    /// The frames that each queue got.
    pub received: Vec<u64>,
    /// The queue to which its rules send packets, whatever they say.
    pub misdirects: Option<u32>,
    /// Whether the device is gone.
    pub gone: bool,
    /// How many changes were attempted.
    pub changes: usize,
    /// What is announced the next time that somebody asks.
    pub announced: Announced,
}

impl Simulated {
    /// A device with `queues` queues, of 64 possible ones, and a table of `size` rules.
    pub fn new(device: &str, queues: u32, size: u32) -> Simulated {
        let spreading = Spreading {
            table: (0..queues).cycle().take(128).collect(),
            key: vec![DRIVERS_KEY; 40],
        };
        Simulated {
            device: device.into(),
            driver: "simulated".into(),
            channels: Channels { combined: queues, most: [0, 0, 1, 64], ..Channels::default() },
            size,
            spreading: [(0, spreading)].into(),
            ..Simulated::default()
        }
    }

    /// A device of a driver with its NIC, as it starts.
    pub fn of(profile: Profile, device: &str, queues: u32, size: u32) -> Simulated {
        let features = profile.features();
        let new = Simulated::new(device, queues, size);
        let chooses = profile.chooses();
        let mut new = Simulated { profile: Some(profile), features, chooses, ..new };
        if let (Some(entries), Some(spreading)) =
            (profile.table_size(queues), new.spreading.get_mut(&0))
        {
            spreading.table.resize(entries, 0);
            new.spread_evenly();
        }
        new
    }

    /// What a driver does when a setting has changed.
    fn follow(&mut self, consequences: Consequences) {
        let Consequences { restarts, flushes, forgets_table, forgets_key } = consequences;
        self.announced.restart |= restarts;
        if flushes {
            self.rules.clear();
        }
        if forgets_table {
            self.spread_evenly();
        }
        if let Some(spreading) = self.spreading.get_mut(&0).filter(|_| forgets_key) {
            spreading.key.fill(DRIVERS_KEY);
        }
    }

    /// The table of the hash as the driver fills it.
    fn spread_evenly(&mut self) {
        let queues = self.channels.receiving();
        if let Some(spreading) = self.spreading.get_mut(&0) {
            spreading.table.iter_mut().zip((0..queues).cycle()).for_each(|(at, queue)| *at = queue);
        }
    }

    /// The queue to which a rule of the driver's own sends a packet.
    fn taken_by_driver(&self, packet: &Packet<'_>) -> Option<u32> {
        let (profile, queue) = (self.profile?, self.own_rules?);
        let flag = self.private_flags.get("flow-director-atr").copied();
        let is_tcp = |t: FlowType| t.protocol() == Some(6);
        let has_tcp = self.rules.values().any(|r| r.matches().is_some_and(|m| is_tcp(m.flow_type)));
        let protocol = (packet.field)(Field::Ip4Proto).or_else(|| (packet.field)(Field::Ip6Next));
        let is_his = protocol == Some(6) && profile.has_own_rules(self.ntuple, flag, has_tcp);
        is_his.then_some(queue)
    }

    /// The action for a packet, of the rule that takes it, if one does. Nothing if no source tells.
    pub fn takes(&self, packet: &Packet<'_>) -> Option<Option<Action>> {
        let profile = self.profile?;
        let mut hits = Vec::new();
        for (location, rule) in &self.rules {
            let said = rule.matches()?;
            if profile.matches(&said, packet)? {
                hits.push((profile.turn(&said, *location), rule.action()));
            }
        }
        Some(hits.into_iter().min_by_key(|(turn, _)| *turn).map(|(_, action)| action))
    }

    /// Counts a packet at the queue that it goes to: by the rule that takes it, or else by this hash.
    pub fn receive(&mut self, packet: &Packet<'_>, hash: usize) {
        let by_hash = |context: u32| {
            let table =
                self.spreading.get(&context).map(|s| s.table.as_slice()).unwrap_or_default();
            table.get(hash % table.len().max(1)).copied()
        };
        let in_force = self.ntuple || self.profile != Some(Profile::Ixgbe);
        let taken = if in_force { self.takes(packet) } else { None };
        let own = self.taken_by_driver(packet).map(Action::Queue);
        let queue = match taken.flatten().or(own) {
            Some(Action::Drop) => None,
            Some(Action::Queue(queue)) => Some(self.misdirects.unwrap_or(queue)),
            Some(Action::Context { context, .. }) => by_hash(context),
            None => by_hash(0),
        };
        let queues = self.channels.receiving() as usize;
        self.received.resize(queues.max(self.received.len()), 0);
        if let Some(count) = queue.and_then(|queue| self.received.get_mut(queue as usize)) {
            *count += 1;
        }
    }

    /// The rule that the driver whose profile it has makes of one that it is told.
    fn made_by_driver(&self, rule: &RuleSpec, location: u32) -> Result<RuleSpec, i32> {
        let Some(profile) = self.profile else { return Ok(rule.clone()) };
        let said = rule.matches().ok_or(libc::EOPNOTSUPP)?;
        let others = self.rules.iter().filter(|(at, _)| **at != location);
        let others: Vec<Match> = others.filter_map(|(_, other)| other.matches()).collect();
        let made = profile.take(&said, rule.action(), others.iter())?;
        let spec = made.to_rule(rule.action()).map_err(|_| libc::EINVAL)?;
        Ok(spec.at(rule.location()))
    }

    /// The rule that it makes of one that it is told.
    fn understood(&self, rule: &RuleSpec) -> RuleSpec {
        let kept = rule.matches().and_then(|mut matches| {
            matches.fields.retain(|(field, _)| !self.ignores.contains(field));
            matches.to_rule(rule.action()).ok()
        });
        kept.filter(|_| !self.ignores.is_empty()).unwrap_or_else(|| rule.clone())
    }

    fn error(&self, what: &str, errno: i32) -> EthtoolError {
        EthtoolError::of(&self.device, what.into(), io::Error::from_raw_os_error(errno))
    }

    fn look(&self, what: &str) -> Result<(), EthtoolError> {
        if self.gone { Err(self.error(what, libc::ENODEV)) } else { Ok(()) }
    }

    fn change(&mut self, what: &str) -> Result<(), EthtoolError> {
        self.look(what)?;
        let number = self.changes;
        self.changes += 1;
        match self.failing {
            Some(f) if (f.at..f.at + f.count).contains(&number) => Err(self.error(what, f.errno)),
            _ => Ok(()),
        }
    }

    fn require(&self, what: &str, is_there: bool) -> Result<(), EthtoolError> {
        if is_there { Ok(()) } else { Err(self.error(what, libc::EOPNOTSUPP)) }
    }

    fn fits(&self, rule: &RuleSpec, location: u32) -> Result<(), i32> {
        let others = || self.rules.iter().filter(|(at, _)| **at != location);
        let queue = match rule.action() {
            super::Action::Queue(queue) | super::Action::Context { queue, .. } => Some(queue),
            super::Action::Drop => None,
        };
        if location >= self.size || queue.is_some_and(|q| q >= self.channels.receiving()) {
            return Err(libc::EINVAL);
        }
        if self.one_mask && others().any(|(_, other)| other.masks() != rule.masks()) {
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    fn free(&self) -> Option<u32> {
        (0..self.size).find(|at| !self.rules.contains_key(at))
    }
}
