//! What can be asked of a device that is not there, as of one that is.

use std::collections::BTreeMap;

use weever_graph::nic::FlowType;

use super::Simulated;
use crate::ethtool::{
    ANY_LOCATION, Announced, Channels, Driver, EthtoolError, HashFields, Hashing, Identity, Rings,
    RuleSpec, Spreading, TableSize,
};

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
            |r| matches!(r.action(), crate::ethtool::Action::Context { context: c, .. } if c == context),
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
