//! The steps from a device's present configuration to the desired one. Rules get locations between those
//! of others.

use std::collections::BTreeSet;

use weever_plan::config::Rss;
use weever_plan::nic::{Disturbance, Effect, Touched};

use super::record::{InstalledContext, InstalledRule};
use super::{ConfigurationError, DesiredConfiguration, Record, Step};
use crate::ethtool::{ANY_LOCATION, Action, Driver, EthtoolError, RuleSpec, Spreading};

/// No driver's table is larger, if it does not say how large it is.
const MOST_LOCATIONS: u32 = 1 << 16;

/// Steps in the order in which they have to be taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationSteps {
    /// The steps.
    pub steps: Vec<Step>,
    /// Notes for people, a line each.
    pub notes: Vec<String>,
}

impl ConfigurationSteps {
    /// The steps to the desired configuration. Rules of the record that others changed are given up.
    ///
    /// # Errors
    /// The device's answer, or why it cannot have this configuration; nothing was changed.
    pub fn between(
        driver: &mut dyn Driver,
        record: &mut Record,
        desired: &DesiredConfiguration,
    ) -> Result<ConfigurationSteps, ConfigurationError> {
        let mut actions = ConfigurationSteps::default();
        actions.give_up(driver, record)?;
        let mut last = actions.queues(driver, desired, record.ours.is_empty())?;
        let changes_queues = last.is_some() || !actions.steps.is_empty();
        actions.flags(driver, desired)?;
        actions.features(driver, record, desired)?;
        actions.fields(driver, desired)?;
        actions.spreading(driver, desired, changes_queues)?;
        if let Some(by) = disturbed(desired, &Touched::Queues) {
            actions.before_rules(&mut last, by);
        }
        let (names, unused) = actions.contexts(driver, record, desired)?;
        actions.rules(driver, record, desired, &names)?;
        let gone = unused.into_iter().map(|context| Step::RemoveContext { context });
        actions.steps.extend(gone.chain(last));
        actions.warn(driver, desired);
        Ok(actions)
    }

    /// Whether the device already matches.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The commands that do the same on `device`.
    pub fn commands(&self, device: &str) -> Vec<String> {
        self.steps.iter().map(|step| step.command(device)).collect()
    }

    pub(super) fn give_up(
        &mut self,
        driver: &mut dyn Driver,
        record: &mut Record,
    ) -> Result<(), EthtoolError> {
        for location in record.verify(driver)? {
            self.notes.push(format!(
                "rule {location} was ours, and another program changed or removed it: it is left alone"
            ));
        }
        Ok(())
    }

    /// More queues come first, and fewer last, when nothing points to them any more; both come first where the size of
    /// the table follows them and the table is not set yet.
    fn queues(
        &mut self,
        driver: &mut dyn Driver,
        desired: &DesiredConfiguration,
        has_no_rules: bool,
    ) -> Result<Option<Step>, ConfigurationError> {
        if desired.receiving == 0 {
            return Ok(None);
        }
        let from = match driver.channels() {
            Err(e) if e.is_unsupported() => {
                self.notes.push(format!("{e}: its queues are taken as they are"));
                return Ok(None);
            }
            channels => channels?,
        };
        let most = from.most[0].saturating_add(from.most[3]);
        let (device, wanted) = (driver.device().to_string(), desired.receiving);
        if wanted > most.max(from.receiving()) {
            return Err(ConfigurationError::Queues { device, most, wanted });
        }
        let step = Step::Channels { from, to: from.with_receiving(wanted) };
        let sizes = disturbed(desired, &Touched::Queues).is_some_and(|by| by.has(&Effect::Sizes));
        let is_spread_anew = !desired.spread.is_empty();
        if sizes && wanted != from.receiving() && has_no_rules && is_spread_anew {
            let set = driver.spreading(0).ok().map(|from| Step::ResetSpreading { from });
            self.steps.extend(set.into_iter().chain([step]));
            return Ok(None);
        }
        match wanted.cmp(&from.receiving()) {
            std::cmp::Ordering::Less => Ok(Some(step)),
            std::cmp::Ordering::Equal => Ok(None),
            std::cmp::Ordering::Greater => {
                self.steps.push(step);
                Ok(None)
            }
        }
    }

    /// Fewer queues come before the rules where the driver does not take that behind them, or forgets the table with it,
    /// which then comes again.
    fn before_rules(&mut self, fewer: &mut Option<Step>, by: &Disturbance) {
        if !by.has(&Effect::Bare) && !by.has(&Effect::Table) {
            return;
        }
        let Some(step) = fewer.take() else { return };
        let table = self.steps.iter().find_map(|step| match step {
            Step::Spreading { to, .. } => Some(to.clone()),
            _ => None,
        });
        self.steps.push(step);
        if let Some(to) = table.filter(|_| by.has(&Effect::Table)) {
            self.steps.push(Step::Spreading { from: to.clone(), to });
        }
    }

    /// What the driver does of its own accord with packets that rules do not take, and must not.
    fn flags(
        &mut self,
        driver: &mut dyn Driver,
        desired: &DesiredConfiguration,
    ) -> Result<(), EthtoolError> {
        for name in &desired.off {
            if driver.private_flag(name)? == Some(true) {
                self.steps.push(Step::PrivateFlag { name: name.clone(), to: false });
            }
        }
        Ok(())
    }

    /// Features that are wanted otherwise, and those that were switched for an earlier plan only.
    fn features(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
        desired: &DesiredConfiguration,
    ) -> Result<(), EthtoolError> {
        for (name, to) in &desired.features {
            // A device without the feature does no such work.
            if driver.feature(name)? == Some(!*to) {
                self.steps.push(Step::Feature { name: name.clone(), to: *to });
            }
        }
        let unwanted = record.features.iter().filter(|(n, _)| !desired.features.contains_key(*n));
        for (name, changed) in unwanted {
            if driver.feature(name)? == Some(changed.set) {
                self.steps.push(Step::Feature { name: name.clone(), to: changed.found });
            }
        }
        Ok(())
    }

    /// The disturbances that steps cause: those that the model says, or what some devices do.
    fn warn(&mut self, driver: &mut dyn Driver, desired: &DesiredConfiguration) {
        let mut told: Vec<Touched> = Vec::new();
        for touched in self.steps.iter().filter_map(touched) {
            if told.contains(&touched) {
                continue;
            }
            match disturbed(desired, &touched) {
                Some(disturbance) => self.notes.push(disturbance.to_string()),
                None => self.notes.extend(usual(&touched)),
            }
            told.push(touched);
        }
        if told.iter().any(|touched| matches!(touched, Touched::Feature(_))) {
            let note = "a feature that is switched (`-K`) is so for all who use the device";
            self.notes.push(note.into());
        }
        // Rules may have been on before.
        let has_rules = !desired.rules.is_empty() || told.contains(&Touched::RulesOn);
        let on = disturbed(desired, &Touched::RulesOn);
        let is_steered = on.is_none_or(|on| on.has(&Effect::Arfs));
        if has_rules && is_steered && driver.steers_sockets() {
            let note = "while rules are on, the kernel makes some of its own for sockets (aRFS), since \
                        net.core.rps_sock_flow_entries is not 0: set that to 0 where plans have to hold for TCP";
            self.notes.push(note.into());
        }
    }

    fn fields(
        &mut self,
        driver: &mut dyn Driver,
        desired: &DesiredConfiguration,
    ) -> Result<(), EthtoolError> {
        for (flow_type, to) in &desired.fields {
            let from = driver.hash_fields(*flow_type)?;
            if from != *to {
                self.steps.push(Step::Fields { flow_type: *flow_type, from, to: *to });
            }
        }
        Ok(())
    }

    fn spreading(
        &mut self,
        driver: &mut dyn Driver,
        desired: &DesiredConfiguration,
        changes_queues: bool,
    ) -> Result<(), ConfigurationError> {
        if desired.spread.is_empty() {
            return Ok(());
        }
        let from = match driver.spreading(0) {
            Err(source) if source.is_unsupported() => {
                let spares = (0..desired.receiving).any(|queue| !desired.spread.contains(&queue));
                let device = driver.device().to_string();
                return match spares {
                    true => Err(ConfigurationError::Spreading { device, source }),
                    false => Ok(()),
                };
            }
            spreading => spreading?,
        };
        let table = Rss::table_over(&desired.spread, from.table.len());
        let key = desired.key.clone().unwrap_or_else(|| from.key.clone());
        let to = Spreading { table, key };
        // Many drivers forget their table when the number of queues changes.
        if from != to || changes_queues {
            self.steps.push(Step::Spreading { from, to });
        }
        Ok(())
    }

    /// The number of each wanted context, new ones included, and those of our contexts that are not
    /// wanted any more.
    fn contexts(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
        desired: &DesiredConfiguration,
    ) -> Result<(Vec<u32>, Vec<InstalledContext>), EthtoolError> {
        let mut unused = record.contexts.clone();
        let mut names = Vec::new();
        let mut next = unused.iter().map(|c| c.number.max(c.name)).max().unwrap_or(0) + 1;
        for queues in &desired.contexts {
            if queues.is_empty() {
                names.push(0);
                continue;
            }
            let entries = driver.spreading(0)?.table.len();
            let table = Rss::table_over(queues, entries);
            if let Some(at) = unused.iter().position(|c| c.table == table) {
                names.push(unused.remove(at).number);
                continue;
            }
            names.push(next);
            self.steps.push(Step::AddContext { name: next, table });
            next += 1;
        }
        Ok((names, unused))
    }

    fn rules(
        &mut self,
        driver: &mut dyn Driver,
        record: &Record,
        desired: &DesiredConfiguration,
        contexts: &[u32],
    ) -> Result<(), ConfigurationError> {
        if desired.rules.is_empty() && record.ours.is_empty() && !desired.rules_on {
            return Ok(());
        }
        let size = driver.table()?;
        let present = driver.locations()?;
        let others: BTreeSet<u32> =
            present.into_iter().filter(|at| !record.ours.contains_key(at)).collect();
        if (desired.rules_on || !desired.rules.is_empty()) && !driver.ntuple()? {
            self.steps.push(Step::Ntuple { to: true });
        }
        let end = size.locations.unwrap_or(MOST_LOCATIONS);
        let named: Vec<RuleSpec> = desired.rules.iter().map(|r| named(r, contexts)).collect();
        let wanted = placed(&named, &others, end, size.chooses);
        let wanted = wanted.ok_or_else(|| ConfigurationError::NoRoom {
            device: driver.device().into(),
            locations: end,
            others: others.len(),
            wanted: desired.rules.len(),
        })?;
        self.compare(record, wanted);
        Ok(())
    }

    /// Removals first, since tables may be full.
    fn compare(&mut self, record: &Record, wanted: Vec<RuleSpec>) {
        let mut left = record.ours.clone();
        let (mut replaced, mut inserted) = (Vec::new(), Vec::new());
        for rule in wanted {
            let location = match rule.location() {
                ANY_LOCATION => match same(&left, &rule) {
                    Some(location) => location,
                    None => {
                        inserted.push(Step::Insert { rule });
                        continue;
                    }
                },
                location => location,
            };
            match left.remove(&location) {
                None => inserted.push(Step::Insert { rule }),
                Some(ours) if ours.sent.says_the_same(&rule) => {}
                Some(from) => replaced.push(Step::Replace { location, from, to: rule }),
            }
        }
        let removed = left.into_iter().map(|(location, rule)| Step::Remove { location, rule });
        self.steps.extend(removed.chain(replaced).chain(inserted));
    }
}

/// The setting that a step changes, if models say what that disturbs.
fn touched(step: &Step) -> Option<Touched> {
    match step {
        Step::Channels { .. } => Some(Touched::Queues),
        Step::Ntuple { to: true } => Some(Touched::RulesOn),
        Step::Ntuple { to: false } => Some(Touched::RulesOff),
        Step::Spreading { .. } | Step::ResetSpreading { .. } => Some(Touched::Table),
        Step::Feature { name, .. } => Some(Touched::Feature(name.clone())),
        _ => None,
    }
}

fn disturbed<'d>(desired: &'d DesiredConfiguration, by: &Touched) -> Option<&'d Disturbance> {
    desired.disturbances.iter().find(|disturbance| disturbance.by == *by)
}

/// What a setting disturbs on a device whose model does not say it.
fn usual(touched: &Touched) -> Option<String> {
    let said = match touched {
        Touched::Queues => {
            "`-L` reopens the queues of most devices: packets in flight are lost, and the link may go down for seconds"
        }
        Touched::RulesOn => {
            "`-K ntuple on` resets some devices (ixgbe, i40e): packets in flight are lost then"
        }
        Touched::Feature(_) => "some drivers reset the device when a feature is switched (`-K`)",
        Touched::RulesOff | Touched::Table | Touched::Rings => return None,
    };
    Some(said.into())
}

/// The rule with the number that the device, or an earlier step, gives to its context.
pub(super) fn named(rule: &RuleSpec, contexts: &[u32]) -> RuleSpec {
    match rule.action() {
        Action::Context { context, queue } => {
            let context = contexts.get(context as usize).copied().unwrap_or_default();
            rule.clone().sending(Action::Context { context, queue })
        }
        _ => rule.clone(),
    }
}

fn same(ours: &std::collections::BTreeMap<u32, InstalledRule>, rule: &RuleSpec) -> Option<u32> {
    ours.iter().find(|(_, ours)| ours.sent.says_the_same(rule)).map(|(location, _)| *location)
}

/// The rules with locations that are free, unless the driver chooses them.
fn placed(
    rules: &[RuleSpec],
    others: &BTreeSet<u32>,
    end: u32,
    driver_chooses: bool,
) -> Option<Vec<RuleSpec>> {
    let (free, mut bound): (Vec<_>, Vec<_>) =
        rules.iter().cloned().partition(|r| driver_chooses && r.location() == ANY_LOCATION);
    if free.len() + bound.len() + others.len() > end as usize {
        return None;
    }
    // Rules without a fixed location follow those with one; the sort is stable.
    bound.sort_by_key(RuleSpec::location);
    let wishes: Vec<u32> =
        bound.iter().map(|r| if r.location() == ANY_LOCATION { 0 } else { r.location() }).collect();
    let locations = assign(&wishes, others, end)?;
    let bound = bound.into_iter().zip(locations).map(|(rule, location)| rule.at(location));
    Some(bound.chain(free).collect())
}

/// A free location for each of `wanted`, which are ascending: the wanted one or a later one, so
/// that their order stays. Nothing if there are not enough below `end`.
pub(super) fn assign(wanted: &[u32], others: &BTreeSet<u32>, end: u32) -> Option<Vec<u32>> {
    let mut next = 0;
    let ascending: Option<Vec<u32>> = wanted
        .iter()
        .map(|at| {
            let free = (next.max(*at)..end).find(|location| !others.contains(location))?;
            next = free + 1;
            Some(free)
        })
        .collect();
    // Wishes may lie so high that the table ends too soon: then as low as can be.
    ascending.or_else(|| {
        let free: Vec<u32> =
            (0..end).filter(|at| !others.contains(at)).take(wanted.len()).collect();
        (free.len() == wanted.len()).then_some(free)
    })
}

#[cfg(test)]
mod tests {
    use super::assign;

    #[test]
    fn locations_keep_their_order_between_those_of_others() {
        let others = [1, 2, 5].into();
        assert_eq!(assign(&[0, 1, 2, 4], &others, 9), Some(vec![0, 3, 4, 6]));
        assert_eq!(assign(&[7, 7], &others, 9), Some(vec![7, 8]));
        assert_eq!(assign(&[8, 8], &others, 9), Some(vec![0, 3]), "there is room below");
        assert_eq!(assign(&[0; 4], &others, 6), None);
        assert_eq!(assign(&[], &others, 0), Some(vec![]));
    }
}
