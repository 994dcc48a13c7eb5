//! One change of a device.

use std::fmt::Write;

use weever_graph::nic::FlowType;

use super::record::{InstalledContext, InstalledRule, Record, note, note_switch};
use crate::ethtool::{ANY_LOCATION, Action, Channels, Driver, EthtoolError, HashFields};
use crate::ethtool::{RuleSpec, Spreading};

/// One change of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changes the number of queues.
    Channels {
        /// The present channels.
        from: Channels,
        /// The wanted channels.
        to: Channels,
    },
    /// Switches the rules on or off.
    Ntuple {
        /// The wanted state; the present one is the opposite.
        to: bool,
    },
    /// The hashed fields of a flow type.
    Fields {
        /// The flow type.
        flow_type: FlowType,
        /// The present fields.
        from: HashFields,
        /// The wanted fields.
        to: HashFields,
    },
    /// Changes the spreading of the rest.
    Spreading {
        /// The present spreading.
        from: Spreading,
        /// The wanted spreading.
        to: Spreading,
    },
    /// Has the driver spread the rest evenly again, and by itself after changes of the number of queues.
    ResetSpreading {
        /// The present spreading.
        from: Spreading,
    },
    /// Switches a private flag of the driver.
    PrivateFlag {
        /// The flag.
        name: String,
        /// The wanted state; the present one is the opposite.
        to: bool,
    },
    /// Switches a feature (`ethtool -K`).
    Feature {
        /// The feature.
        name: String,
        /// The wanted state; the present one is the opposite.
        to: bool,
    },
    /// A context comes, for rules to choose.
    AddContext {
        /// The number by which rules name it: the one that it will probably get.
        name: u32,
        /// The queue for each value of the hash.
        table: Vec<u32>,
    },
    /// Removes a context of ours, which no rule chooses any more.
    RemoveContext {
        /// The context.
        context: InstalledContext,
    },
    /// Removes a rule of ours.
    Remove {
        /// The rule's location.
        location: u32,
        /// The rule.
        rule: InstalledRule,
    },
    /// Replaces a rule of ours by another one.
    Replace {
        /// The rule's location.
        location: u32,
        /// The rule.
        from: InstalledRule,
        /// The wanted rule.
        to: RuleSpec,
    },
    /// A new rule.
    Insert {
        /// The rule, with its location if it wants one.
        rule: RuleSpec,
    },
}

impl Step {
    /// Notes a setting's change.
    fn note(&self, record: &mut Record) {
        match self {
            Step::Channels { from, to } => note(&mut record.channels, from, to),
            Step::Ntuple { to } => note(&mut record.ntuple, &!*to, to),
            Step::Fields { flow_type, from, to } => record.note_fields(*flow_type, *from, *to),
            Step::Spreading { from, to } => note(&mut record.spreading, from, to),
            Step::PrivateFlag { name, to } => note_switch(&mut record.private, name, *to),
            Step::Feature { name, to } => note_switch(&mut record.features, name, *to),
            Step::Remove { .. }
            | Step::Replace { .. }
            | Step::Insert { .. }
            | Step::ResetSpreading { .. }
            | Step::AddContext { .. }
            | Step::RemoveContext { .. } => {}
        }
    }

    /// Records its effects beforehand, and returns the rule that it makes.
    pub(super) fn foresee(&self, record: &mut Record) -> Option<RuleSpec> {
        match self {
            Step::Channels { .. }
            | Step::Ntuple { .. }
            | Step::Fields { .. }
            | Step::PrivateFlag { .. }
            | Step::Feature { .. }
            | Step::Spreading { .. } => {
                let before = record.clone();
                self.note(record);
                // On its way back to the original value, a setting may still be as we left it.
                record.keep_settings_of(before);
            }
            // The driver numbers a context when it is made: the contexts that a killed process made are
            // unknown.
            Step::Remove { .. }
            | Step::ResetSpreading { .. }
            | Step::AddContext { .. }
            | Step::RemoveContext { .. } => {}
            Step::Replace { to: rule, .. } | Step::Insert { rule } => return Some(rule.clone()),
        }
        None
    }

    /// Takes it and notes it; returns the step back.
    pub(super) fn take(
        &self,
        driver: &mut dyn Driver,
        record: &mut Record,
    ) -> Result<Step, EthtoolError> {
        match self {
            Step::Channels { from, to } => {
                driver.set_channels(*to)?;
                self.note(record);
                Ok(Step::Channels { from: *to, to: *from })
            }
            Step::Ntuple { to } => {
                driver.set_ntuple(*to)?;
                self.note(record);
                Ok(Step::Ntuple { to: !*to })
            }
            Step::Fields { flow_type, from, to } => {
                driver.set_hash_fields(*flow_type, *to)?;
                self.note(record);
                Ok(Step::Fields { flow_type: *flow_type, from: *to, to: *from })
            }
            Step::Spreading { from, to } => spread(driver, record, from, to),
            Step::ResetSpreading { from } => {
                let back = back_to(driver, from)?;
                driver.reset_spreading()?;
                note(&mut record.spreading, from, &driver.spreading(0)?);
                Ok(back)
            }
            Step::PrivateFlag { name, to } => {
                driver.set_private_flag(name, *to)?;
                self.note(record);
                Ok(Step::PrivateFlag { name: name.clone(), to: !*to })
            }
            Step::Feature { name, to } => {
                switch(driver, name, *to)?;
                self.note(record);
                Ok(Step::Feature { name: name.clone(), to: !*to })
            }
            Step::AddContext { name, table } => add_context(driver, record, *name, table),
            Step::RemoveContext { context } => {
                driver.remove_context(context.number)?;
                record.contexts.retain(|c| c.number != context.number);
                // Rules that come back with it name it by its former number.
                Ok(Step::AddContext { name: context.number, table: context.table.clone() })
            }
            Step::Remove { location, rule } => {
                driver.remove(*location)?;
                record.ours.remove(location);
                Ok(Step::Insert { rule: rule.sent.clone() })
            }
            Step::Replace { location, from, to } => {
                let rule = insert(driver, record, to)?.1;
                Ok(Step::Replace { location: *location, from: rule, to: from.sent.clone() })
            }
            Step::Insert { rule } => {
                let (location, rule) = insert(driver, record, rule)?;
                Ok(Step::Remove { location, rule })
            }
        }
    }

    /// The rule that it makes, if it makes one.
    pub(super) fn rule(&self) -> Option<&RuleSpec> {
        match self {
            Step::Insert { rule } | Step::Replace { to: rule, .. } => Some(rule),
            _ => None,
        }
    }

    /// The step to take because this one failed: a driver may have removed the rule that it was to
    /// replace, or have made the change although it reported a failure.
    pub(super) fn mend(&self, driver: &mut dyn Driver, record: &mut Record) -> Option<Step> {
        match self {
            Step::Replace { location, from, to } => match driver.rule(*location) {
                Ok(rule) if rule.says_the_same(to) => {
                    let made = InstalledRule { sent: to.clone(), read: rule };
                    record.ours.insert(*location, made.clone());
                    let (location, to) = (*location, from.sent.clone().at(*location));
                    Some(Step::Replace { location, from: made, to })
                }
                Err(error) if error.is_absent() => {
                    record.ours.remove(location);
                    Some(Step::Insert { rule: from.sent.clone().at(*location) })
                }
                _ => None,
            },
            Step::Insert { rule } if rule.location() != ANY_LOCATION => {
                let read = driver.rule(rule.location()).ok().filter(|r| r.says_the_same(rule))?;
                let (location, sent) = (rule.location(), rule.clone());
                let rule = InstalledRule { sent, read };
                record.ours.insert(location, rule.clone());
                Some(Step::Remove { location, rule })
            }
            _ => None,
        }
    }

    /// The command that does it.
    pub fn command(&self, device: &str) -> String {
        match self {
            Step::Channels { from, to } => {
                let mut line = format!("ethtool -L {device}");
                for (name, from, to) in
                    [("rx", from.rx, to.rx), ("combined", from.combined, to.combined)]
                {
                    if from != to {
                        write!(line, " {name} {to}").expect("writing to a string");
                    }
                }
                line
            }
            Step::Ntuple { to } => {
                format!("ethtool -K {device} ntuple {}", if *to { "on" } else { "off" })
            }
            Step::Fields { flow_type, to, .. } => {
                format!("ethtool -N {device} rx-flow-hash {flow_type} {}", to.letters())
            }
            Step::Spreading { from, to } => {
                let key = (from.key != to.key).then_some(&to.key[..]);
                let command = weever_plan::ethtool::spread(&to.table, key, device);
                command.unwrap_or_else(|| format!("ethtool -X {device} default"))
            }
            Step::ResetSpreading { .. } => format!("ethtool -X {device} default"),
            Step::PrivateFlag { name, to } => {
                let to = if *to { "on" } else { "off" };
                format!("ethtool --set-priv-flags {device} {name} {to}")
            }
            Step::Feature { name, to } => {
                format!("ethtool -K {device} {name} {}", if *to { "on" } else { "off" })
            }
            Step::AddContext { table, .. } => {
                let command = weever_plan::ethtool::spread(table, None, device);
                format!("{} context new", command.unwrap_or_default())
            }
            Step::RemoveContext { context } => {
                format!("ethtool -X {device} context {} delete", context.number)
            }
            Step::Remove { location, .. } => format!("ethtool -N {device} delete {location}"),
            Step::Replace { to: rule, .. } | Step::Insert { rule } => {
                let place = match rule.location() {
                    ANY_LOCATION => String::new(),
                    location => format!(" loc {location}"),
                };
                format!("ethtool -N {device} {}{place}", rule.to_options())
            }
        }
    }
}

/// Switches a feature, and looks whether it is so now: a driver may leave it as it is without a word.
fn switch(driver: &mut dyn Driver, name: &str, to: bool) -> Result<(), EthtoolError> {
    match driver.set_feature(name, to) {
        // A kernel without this request leaves it as it is, too.
        Err(error) if error.is_unsupported() => {}
        Err(error) => return Err(error),
        Ok(()) if driver.feature(name)? == Some(to) => return Ok(()),
        // The wish would come true later, when nobody remembers it.
        Ok(()) => driver.set_feature(name, !to)?,
    }
    Err(EthtoolError::Kept { device: driver.device().into(), name: name.into(), on: to })
}

/// Sets the table, and the key where the device has another one. Steps before may have changed both, and the table's
/// size.
fn spread(
    driver: &mut dyn Driver,
    record: &mut Record,
    from: &Spreading,
    to: &Spreading,
) -> Result<Step, EthtoolError> {
    let now = driver.spreading(0)?;
    let to = to.fitted(now.table.len());
    let back = if now.key == to.key { back_to(driver, &now)? } else { again(&now) };
    driver.set_spreading(0, Some(&to.table), (now.key != to.key).then_some(&to.key[..]))?;
    note(&mut record.spreading, from, &to);
    Ok(back)
}

fn again(spreading: &Spreading) -> Step {
    Step::Spreading { from: spreading.clone(), to: spreading.clone() }
}

/// The step back to a table that the device has now. One that looks like the driver's own becomes that again, so
/// that it follows the number of queues.
fn back_to(driver: &mut dyn Driver, now: &Spreading) -> Result<Step, EthtoolError> {
    let queues = match driver.channels() {
        Err(error) if error.is_unsupported() => return Ok(again(now)),
        channels => channels?.receiving(),
    };
    Ok(match now.is_even_over(queues) {
        true => Step::ResetSpreading { from: now.clone() },
        false => again(now),
    })
}

fn add_context(
    driver: &mut dyn Driver,
    record: &mut Record,
    name: u32,
    table: &[u32],
) -> Result<Step, EthtoolError> {
    let number = driver.add_context(table)?;
    let context = InstalledContext { name, number, table: table.to_vec() };
    record.contexts.push(context.clone());
    Ok(Step::RemoveContext { context })
}

fn insert(
    driver: &mut dyn Driver,
    record: &mut Record,
    rule: &RuleSpec,
) -> Result<(u32, InstalledRule), EthtoolError> {
    let rule = &match rule.action() {
        Action::Context { context, queue } => {
            let context = record.number_of(context);
            rule.clone().sending(Action::Context { context, queue })
        }
        _ => rule.clone(),
    };
    let location = driver.insert(rule)?;
    // A driver that cannot show rules is taken by its word.
    let read = driver.rule(location).unwrap_or_else(|_| rule.clone().at(location));
    if !read.carries_out(rule) {
        record.ours.remove(&location);
        driver.remove(location)?;
        let (asked, made) = (rule.to_options().into(), read.to_options().into());
        return Err(EthtoolError::Altered { device: driver.device().into(), asked, made });
    }
    let ours = InstalledRule { sent: rule.clone(), read };
    record.ours.insert(location, ours.clone());
    Ok((location, ours))
}
