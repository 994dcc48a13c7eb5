//! A device that is not there.

use std::collections::BTreeMap;
use std::io;

use weever_graph::Field;
use weever_graph::nic::FlowType;

use super::behaviour::Consequences;
use super::{
    ANY_LOCATION, Action, Announced, Channels, Driver, EthtoolError, HashFields, Hashing, Identity,
    Match, Packet, Profile, Rings, RuleSpec, Spreading, TableSize,
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

impl Driver for Simulated {
    fn device(&self) -> &str {
        &self.device
    }

    fn identity(&mut self) -> Result<Identity, EthtoolError> {
        self.look("name its driver")?;
        Ok(Identity { driver: self.driver.clone(), bus: String::new() })
    }

    fn channels(&mut self) -> Result<Channels, EthtoolError> {
        self.look("say how many queues it has")?;
        Ok(self.channels)
    }

    fn set_channels(&mut self, to: Channels) -> Result<(), EthtoolError> {
        let what = "have so many queues";
        self.change(what)?;
        let too_many = to.combined > to.most[3] || to.rx > to.most[0];
        // ethtool_check_max_channel
        let set =
            self.spreading.iter().filter(|(context, _)| self.spreads_as_set || **context != 0);
        let cut = set.flat_map(|(_, s)| &s.table).any(|queue| *queue >= to.receiving());
        if too_many || cut || to.receiving() == 0 {
            return Err(self.error(what, libc::EINVAL));
        }
        let (had, has) = (self.channels.receiving(), to.receiving());
        let after = self.profile.map(|p| p.after_queues(has < had, !self.rules.is_empty()));
        let after = after.transpose().map_err(|errno| self.error(what, errno))?;
        let entries = self.profile.and_then(|p| p.table_size(has));
        let resized = entries.filter(|_| entries != self.profile.and_then(|p| p.table_size(had)));
        if resized.is_some() && self.spreads_as_set {
            return Err(self.error(what, libc::EINVAL));
        }
        if let (Some(entries), Some(spreading)) = (resized, self.spreading.get_mut(&0)) {
            spreading.table.resize(entries, 0);
        }
        self.channels = to;
        self.follow(after.unwrap_or_default());
        if (self.forgets_table && has > had) || !self.spreads_as_set {
            self.spread_evenly();
        }
        Ok(())
    }

    fn ntuple(&mut self) -> Result<bool, EthtoolError> {
        self.look("report its enabled features")?;
        Ok(self.ntuple)
    }

    fn set_ntuple(&mut self, on: bool) -> Result<(), EthtoolError> {
        let what = "switch steering rules on";
        self.change(what)?;
        self.require(what, self.size > 0)?;
        self.ntuple = on;
        self.follow(self.profile.map(|p| p.after_rules(on)).unwrap_or_default());
        Ok(())
    }

    fn table(&mut self) -> Result<TableSize, EthtoolError> {
        let what = "take steering rules";
        self.look(what)?;
        self.require(what, self.size > 0)?;
        let rules = self.rules.len() as u32;
        Ok(TableSize { rules, locations: Some(self.size), chooses: self.chooses })
    }

    fn received(&mut self) -> Result<Vec<u64>, EthtoolError> {
        self.look("count the frames of each receive queue")?;
        let mut received = self.received.clone();
        received.resize(self.channels.receiving() as usize, 0);
        Ok(received)
    }

    fn locations(&mut self) -> Result<Vec<u32>, EthtoolError> {
        self.table()?;
        Ok(self.rules.keys().copied().collect())
    }

    fn rule(&mut self, location: u32) -> Result<RuleSpec, EthtoolError> {
        let what = "show a rule";
        self.look(what)?;
        self.require(what, !self.hides_rules)?;
        self.rules.get(&location).cloned().ok_or_else(|| self.error(what, libc::ENOENT))
    }

    fn insert(&mut self, rule: &RuleSpec) -> Result<u32, EthtoolError> {
        let what = format!("take the rule `{}`", rule.to_options());
        if self.removes_first {
            self.rules.remove(&rule.location());
        }
        self.change(&what)?;
        let location = match rule.location() {
            ANY_LOCATION if !self.chooses => Err(libc::EINVAL),
            ANY_LOCATION => self.free().ok_or(libc::ENOSPC),
            location => Ok(location),
        };
        let fits = location.and_then(|at| self.fits(rule, at).map(|()| at));
        let made = fits.and_then(|at| Ok((at, self.made_by_driver(rule, at)?)));
        let (location, made) = made.map_err(|errno| self.error(&what, errno))?;
        self.rules.insert(location, self.understood(&made).at(location));
        Ok(location)
    }

    fn remove(&mut self, location: u32) -> Result<(), EthtoolError> {
        let what = "remove a rule";
        self.change(what)?;
        self.rules.remove(&location).map(drop).ok_or_else(|| self.error(what, libc::ENOENT))
    }

    fn spreading(&mut self, context: u32) -> Result<Spreading, EthtoolError> {
        let what = "say how it spreads";
        self.look(what)?;
        self.require(what, !self.spreading.is_empty())?;
        self.spreading.get(&context).cloned().ok_or_else(|| self.error(what, libc::ENOENT))
    }

    fn set_spreading(
        &mut self,
        context: u32,
        table: Option<&[u32]>,
        key: Option<&[u8]>,
    ) -> Result<(), EthtoolError> {
        let what = "spread as it is told";
        self.change(what)?;
        let queues = self.channels.receiving();
        let before = self.spreading(context)?;
        let to = Spreading {
            table: table.map_or_else(|| before.table.clone(), <[u32]>::to_vec),
            key: key.map_or_else(|| before.key.clone(), <[u8]>::to_vec),
        };
        let sizes = (to.table.len(), to.key.len()) == (before.table.len(), before.key.len());
        if !sizes || to.table.iter().any(|queue| *queue >= queues) {
            return Err(self.error(what, libc::EINVAL));
        }
        self.spreading.insert(context, to);
        self.spreads_as_set |= context == 0 && table.is_some();
        Ok(())
    }

    fn reset_spreading(&mut self) -> Result<(), EthtoolError> {
        let what = "spread as it likes";
        self.change(what)?;
        self.spreading(0)?;
        self.spread_evenly();
        self.spreads_as_set = false;
        Ok(())
    }

    fn add_context(&mut self, table: &[u32]) -> Result<u32, EthtoolError> {
        let what = "have another table to spread by";
        self.change(what)?;
        let last = self.spreading.keys().max().copied();
        let number = last.ok_or_else(|| self.error(what, libc::EOPNOTSUPP))? + 1;
        self.spreading.insert(number, Spreading { table: table.to_vec(), key: Vec::new() });
        Ok(number)
    }

    fn remove_context(&mut self, context: u32) -> Result<(), EthtoolError> {
        let what = "remove a table to spread by";
        self.change(what)?;
        let used = self.rules.values().any(
            |r| matches!(r.action(), super::Action::Context { context: c, .. } if c == context),
        );
        if used || context == 0 {
            return Err(self.error(what, libc::EBUSY));
        }
        self.spreading.remove(&context).map(drop).ok_or_else(|| self.error(what, libc::ENOENT))
    }

    fn hash_fields(&mut self, flow_type: FlowType) -> Result<HashFields, EthtoolError> {
        self.look("report its hashed fields")?;
        let set = self.fields.iter().find(|(t, _)| *t == flow_type).map(|(_, fields)| *fields);
        Ok(set.unwrap_or(weever_graph::nic::RssFields::Addresses.into()))
    }

    fn set_hash_fields(
        &mut self,
        flow_type: FlowType,
        fields: HashFields,
    ) -> Result<(), EthtoolError> {
        self.change("hash other fields")?;
        self.fields.retain(|(t, _)| *t != flow_type);
        self.fields.push((flow_type, fields));
        Ok(())
    }

    fn hashing(&mut self) -> Result<Hashing, EthtoolError> {
        self.look("say how it hashes")?;
        Ok(Hashing { function: "toeplitz".into(), symmetric: self.symmetric })
    }

    fn rings(&mut self) -> Result<Rings, EthtoolError> {
        self.look("say how long its rings are")?;
        Ok(Rings { receive: [512, 4096], send: [512, 4096] })
    }

    fn interrupts(&mut self) -> BTreeMap<u32, u32> {
        BTreeMap::new()
    }

    fn feature(&mut self, name: &str) -> Result<Option<bool>, EthtoolError> {
        self.look("report its enabled features")?;
        Ok(self.features.get(name).copied())
    }

    fn set_feature(&mut self, name: &str, on: bool) -> Result<(), EthtoolError> {
        let what = "switch a feature";
        self.change(what)?;
        self.require(what, self.features.contains_key(name) && !self.has_no_netlink)?;
        // As the kernel does, it takes the wish and may leave the feature as it is.
        self.wished.insert(name.into(), on);
        let mut made = self.features.clone();
        made.extend(self.wished.iter().map(|(name, on)| (name.clone(), *on)));
        let kept = self.fixed.iter().filter_map(|name| self.features.get_key_value(name));
        made.extend(kept.map(|(name, on)| (name.clone(), *on)));
        if let Some(profile) = self.profile {
            made = profile.made_of(&made, &self.features, self.has_program);
            self.follow(profile.after_features(&self.features, &made));
        }
        self.features = made;
        Ok(())
    }

    fn private_flag(&mut self, name: &str) -> Result<Option<bool>, EthtoolError> {
        self.look("show its private flags")?;
        Ok(self.private_flags.get(name).copied())
    }

    fn set_private_flag(&mut self, name: &str, on: bool) -> Result<(), EthtoolError> {
        let what = "change a private flag";
        self.change(what)?;
        self.require(what, self.private_flags.contains_key(name))?;
        self.private_flags.insert(name.into(), on);
        Ok(())
    }

    fn steers_sockets(&mut self) -> bool {
        self.steers_sockets
    }

    fn listen(&mut self) {}

    fn announced(&mut self) -> Announced {
        std::mem::take(&mut self.announced)
    }
}
