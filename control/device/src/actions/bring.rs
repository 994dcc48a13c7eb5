//! A search's plan onto a device that may take fewer rules than its model declares.

use std::collections::BTreeSet;

use weever_plan::config::{Configuration, Rule};
use weever_plan::nic::Nic;
use weever_plan::search::{Plan, PlannedRule, Refused, RuleId, Search};

use super::desired::words;
use super::{
    ApplyError, ConfigurationError, ConfigurationSteps, DesiredConfiguration, PersistError, Record,
    Setting, Step,
};
use crate::ethtool::{Action, Driver, EthtoolError, RuleSpec};

/// Called with the record as it may become, before each step, in order to save it.
pub(crate) type Ahead<'a> = dyn FnMut(&Record) -> Result<(), PersistError> + 'a;

/// Receives a configuration before it is sent to a NIC, with the rules that others have there.
pub type AboutTo<'a> = dyn FnMut(&Nic, &Configuration) + 'a;

/// How often a plan is made anew because the device refuses a rule.
const MOST_REPLANS: usize = 16;

/// The result of applying a plan.
#[derive(Clone, Debug, Default)]
pub struct ApplyReport {
    /// The steps that were taken.
    pub actions: ConfigurationSteps,
    /// The device's refusals, a line each. The plan no longer contains them.
    pub refused: Vec<String>,
}

/// Why a plan did not come onto a device; the device is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BringError {
    /// The plan does not fit the device.
    #[error(transparent)]
    ConfigurationSteps(#[from] ConfigurationError),
    /// A step failed, and planning anew did not help or would not.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The planned changes cannot be recorded; nothing was changed.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The device's configuration could not be read.
    #[error(transparent)]
    Device(#[from] EthtoolError),
    /// Without the refused rules, the policy cannot be satisfied.
    #[error(
        "the device refuses rules that the policy cannot be satisfied without: {}",
        refused.join("; ")
    )]
    Unsatisfied {
        /// The refused rules.
        refused: Vec<String>,
    },
}

/// Brings the present plan of `search` onto the device. A rule that the device refuses is reported to
/// the search ([`Search::refuse`]), and the search's new plan is tried; a bounded number of times, and
/// as long as the policy is satisfied. The search's changes count as taken.
///
/// # Errors
/// [`BringError`]: the steps taken so far were reverted.
pub fn bring(
    driver: &mut dyn Driver,
    record: &mut Record,
    search: &mut Search,
) -> Result<ApplyReport, BringError> {
    bring_noting(driver, record, search, &[], &mut |_| Ok(()), &mut |_, _| ())
}

/// Like [`bring`], but the settings `left` stay as they are; `about_to` receives the plan before each attempt, and
/// `ahead` the record as it may become before steps are taken.
pub(crate) fn bring_noting(
    driver: &mut dyn Driver,
    record: &mut Record,
    search: &mut Search,
    left: &[Setting],
    ahead: &mut Ahead<'_>,
    about_to: &mut AboutTo<'_>,
) -> Result<ApplyReport, BringError> {
    let mut refused = Vec::new();
    let acceptable = search.cost().is_acceptable();
    loop {
        let plan = search.plan();
        let configuration = plan.configuration(search.nic().tables.len());
        let mut desired = DesiredConfiguration::of(search.nic(), &configuration)?;
        desired.leave(left);
        about_to(search.nic(), &plan.whole_configuration(search.nic().tables.len()));
        let (actions, tried) = attempt(driver, record, &desired, ahead);
        // Comparing with the device takes the place of the search's list of changes.
        search.take_changes();
        let Err(error) = tried else { return Ok(ApplyReport { actions, refused }) };
        let said = match &error {
            BringError::Apply(error) => format!("{} (`{}`)", error.source, error.step),
            error => error.to_string(),
        };
        if refused.len() == MOST_REPLANS || !plan_around(search, &plan, &actions, &error) {
            return Err(error);
        }
        refused.push(said);
        if acceptable && !search.cost().is_acceptable() {
            return Err(BringError::Unsatisfied { refused });
        }
    }
}

/// The steps, and whether they were taken.
fn attempt(
    driver: &mut dyn Driver,
    record: &mut Record,
    desired: &DesiredConfiguration,
    ahead: &mut Ahead<'_>,
) -> (ConfigurationSteps, Result<(), BringError>) {
    match ConfigurationSteps::between(driver, record, desired) {
        Err(error) => (ConfigurationSteps::default(), Err(error.into())),
        Ok(actions) => {
            let taken = take(driver, record, &actions, ahead);
            (actions, taken)
        }
    }
}

/// Saves the record of the coming steps, and takes them.
pub(crate) fn take(
    driver: &mut dyn Driver,
    record: &mut Record,
    actions: &ConfigurationSteps,
    ahead: &mut Ahead<'_>,
) -> Result<(), BringError> {
    if !actions.is_empty() {
        ahead(&record.foreseeing(actions, driver)?)?;
    }
    Ok(actions.apply(driver, record)?)
}

/// Tells the search about the device's refusal, if it concerns a rule or there are too many, and the
/// device is as it was. Returns whether another plan may help.
fn plan_around(
    search: &mut Search,
    plan: &Plan,
    actions: &ConfigurationSteps,
    error: &BringError,
) -> bool {
    match error {
        BringError::Apply(error) => without_step(search, plan, actions, error),
        BringError::ConfigurationSteps(
            error @ ConfigurationError::NoRoom { locations, others, wanted, .. },
        ) => {
            let room = (*locations as usize).saturating_sub(*others);
            let many = wanted.saturating_sub(room);
            let youngest = plan.rules.iter().rev().take(many);
            let what = Refused::Full { room: None };
            let given_up = youngest.filter(|p| search.refuse(p.id, what, &error.to_string()));
            given_up.count() > 0
        }
        _ => false,
    }
}

fn without_step(
    search: &mut Search,
    plan: &Plan,
    actions: &ConfigurationSteps,
    error: &ApplyError,
) -> bool {
    let Some(what) = error.source.refusal().filter(|_| error.rollback.is_empty()) else {
        return false;
    };
    let why = error.source.to_string();
    let (before, left) = actions.steps.split_at(error.at);
    match left.first() {
        Some(Step::AddContext { .. }) => {
            let new = left.iter().filter(|step| matches!(step, Step::AddContext { .. })).count();
            let all = plan.contexts.iter().filter(|queues| !queues.is_empty()).count();
            search.refuse_contexts(all.saturating_sub(new) as u32, &why)
        }
        // What it takes out of frames cannot be tested.
        Some(Step::Feature { name, to: false }) => {
            let nic = search.nic();
            let blind = plan.rules.iter().filter(|p| nic.hides(name, p.table, &p.rule));
            let blind: Vec<_> = blind.map(|p| (p.id, Refused::Kind, why.clone())).collect();
            search.refuse_all(&blind)
        }
        Some(step) => {
            let Some(refused) = step.rule().and_then(|rule| rule_of_plan(search.nic(), plan, rule))
            else {
                return false;
            };
            let what = about_others(search.nic(), plan, refused, what, before.len(), actions);
            search.refuse(refused.id, what, &why)
        }
        None => false,
    }
}

/// The meaning of a refusal for other rules, given the rules that the device had taken before.
fn about_others(
    nic: &Nic,
    plan: &Plan,
    refused: &PlannedRule,
    what: Refused,
    at: usize,
    actions: &ConfigurationSteps,
) -> Refused {
    let left = actions.steps[at..].iter().filter(|step| matches!(step, Step::Insert { .. }));
    let left = left.filter_map(|step| rule_of_plan(nic, plan, step.rule()?));
    let left: BTreeSet<RuleId> = left.map(|p| p.id).collect();
    let mut there = plan.rules.iter().filter(|p| p.table == refused.table && !left.contains(&p.id));
    match what {
        Refused::Full { .. } => Refused::Full { room: u32::try_from(there.count()).ok() },
        // It takes rules of this kind, and this one is the exception.
        Refused::Kind if there.any(|p| is_alike(&p.rule, &refused.rule)) => Refused::Rule,
        other => other,
    }
}

/// Whether two rules of a table look at the same bits.
fn is_alike(a: &Rule, b: &Rule) -> bool {
    let masks = |rule: &Rule| rule.keys.iter().map(|key| key.mask).collect::<Vec<_>>();
    a.flow_type == b.flow_type && masks(a) == masks(b)
}

/// The rule of the plan that a step is about. No two rules of a plan match the same packets.
pub(crate) fn rule_of_plan<'p>(
    nic: &Nic,
    plan: &'p Plan,
    rule: &RuleSpec,
) -> Option<&'p PlannedRule> {
    // The plan does not know the number that a step gives to a context.
    let matching = |rule: &RuleSpec| rule.clone().sending(Action::Drop);
    plan.rules.iter().find(|p| {
        let words = words(&nic.tables[p.table], &p.rule);
        words.is_ok_and(|words| matching(&words).says_the_same(&matching(rule)))
    })
}

#[cfg(test)]
mod tests {
    use weever_graph::Field;
    use weever_graph::nic::FlowType;
    use weever_plan::flow::{ClassId, Conj, Flow, Kinds, Values};
    use weever_plan::policy::{Balance, Isolate, Locality, Measure, Policy, Share};
    use weever_plan::search::Options;

    use super::*;
    use crate::ethtool::Simulated;

    fn udp(port: u16, mask: u128) -> Conj {
        let udp = Conj::of_kinds(Kinds::of(FlowType::Udp4));
        udp.having(Values::masked(Field::L4Dst, mask, port.into()))
    }

    fn balance() -> Box<dyn Policy> {
        Box::new(Balance::new(Measure::Flows))
    }

    /// Every flow wants a rule, to its own core's queue.
    fn near() -> Box<dyn Policy> {
        Box::new(Locality::new(|queue: u32, core: u16| u32::from(queue != u32::from(core))))
    }

    fn search(policy: Box<dyn Policy>, flows: Vec<Flow>) -> Search {
        let nic = Nic::linux_of(&weever_models::nic("ena").unwrap()).unwrap();
        let mut search = Search::new(nic.with_queues(4).unwrap(), policy, Options::default());
        search.run(flows);
        search
    }

    fn flow(port: u16, mask: u128) -> Flow {
        let flow = Flow::of(format!("f{port}"), vec![udp(port, mask)]);
        Flow { core: Some(port % 4), ..flow }
    }

    fn flows(count: u16) -> Vec<Flow> {
        (1..=count).map(|n| flow(n, 0xffff)).collect()
    }

    #[test]
    fn masks_that_a_driver_does_not_take_are_planned_around() {
        let mut all = flows(6);
        all.push(flow(0x4000, 0xff00));
        let mut search = search(near(), all);
        let mut device = Simulated::new("sim0", 4, 256);
        device.one_mask = true;
        let mut record = Record::default();
        let brought = bring(&mut device, &mut record, &mut search).unwrap();
        assert_eq!(brought.refused.len(), 1, "{:?}", brought.refused);
        let plan = search.plan();
        assert_eq!(device.rules.len(), plan.rules.len());
        let left_out = plan.flows.iter().find(|f| !f.refused.is_empty());
        let said = left_out.map(|f| f.refused[0].1.to_string()).unwrap_or_default();
        assert!(said.contains("the driver takes no such value, mask or location"), "{said}");
    }

    #[test]
    fn a_rule_that_comes_back_wider_is_taken_out_and_planned_around() {
        let tagged = |id: u16| {
            let conj = udp(id, 0xffff).with(Field::VlanId, id.into());
            Flow { core: Some(id % 4), ..Flow::of(format!("vlan {id}"), vec![conj]) }
        };
        let all = flows(3).into_iter().chain((5..8).map(tagged)).collect();
        let nic = Nic::linux_of(&weever_models::nic("connectx5").unwrap()).unwrap();
        let mut search = Search::new(nic.with_queues(4).unwrap(), near(), Options::default());
        search.run(all);
        let mut device = Simulated::new("sim0", 4, 256);
        (device.chooses, device.ignores) = (true, vec![Field::VlanId]);
        let mut record = Record::default();
        let brought = bring(&mut device, &mut record, &mut search).unwrap();
        assert!(!brought.refused.is_empty());
        assert!(brought.refused[0].to_string().contains("makes `flow-type udp4"));
        let is_whole = |rule: &RuleSpec| {
            record.ours.values().any(|o| o.read == *rule && o.sent.carries_out(rule))
        };
        assert!(device.rules.values().all(is_whole), "no widened rule is left");
        assert_eq!(device.rules.len(), search.plan().rules.len());
    }

    #[test]
    fn a_feature_that_a_device_keeps_is_planned_around() {
        for fixed in [false, true] {
            let tagged = udp(7, 0xffff).with(Field::VlanId, 9);
            let mut all = flows(3);
            all.push(Flow { core: Some(3), ..Flow::of("tagged", vec![tagged]) });
            let mut nic = Nic::linux_of(&weever_models::nic("connectx5").unwrap()).unwrap();
            // A NIC whose rules look behind the place where tags are stripped.
            let strips = nic.features[0].clone();
            nic.features = vec![weever_plan::nic::Feature {
                model: weever_graph::nic::FeatureModel {
                    ethtool: vec!["rx-vlan-hw-parse".into()],
                    work: vec![weever_graph::nic::Work::Takes(Field::VlanId)],
                    ..strips.model
                },
                ..strips
            }];
            let mut search = Search::new(nic.with_queues(4).unwrap(), near(), Options::default());
            search.run(all);
            let planned = search.plan().rules.len();
            let mut device = Simulated::new("sim0", 4, 256);
            device.chooses = true;
            device.features.insert("rx-vlan-hw-parse".into(), true);
            device.fixed.extend(fixed.then(|| "rx-vlan-hw-parse".to_owned()));
            let brought = bring(&mut device, &mut Record::default(), &mut search).unwrap();
            assert_eq!(device.features["rx-vlan-hw-parse"], fixed);
            let tests_a_tag = |rule: &RuleSpec| rule.to_options().contains("vlan");
            assert_eq!(device.rules.values().any(tests_a_tag), !fixed);
            assert_eq!(device.rules.len(), planned - usize::from(fixed));
            let said = brought.refused.concat();
            assert_eq!(said.contains("leaves the feature `rx-vlan-hw-parse` on"), fixed, "{said}");
        }
    }

    #[test]
    fn a_table_with_less_room_than_the_model_says_is_filled() {
        for size in [40, 5] {
            let mut search = search(near(), flows(100));
            let mut device = Simulated::new("sim0", 4, size);
            device.chooses = false;
            let brought = bring(&mut device, &mut Record::default(), &mut search).unwrap();
            assert_eq!((brought.refused.len(), device.rules.len()), (1, size as usize));
            assert_eq!(search.plan().rules.len(), size as usize);
        }
    }

    #[test]
    fn a_device_is_as_it_was_if_the_policy_needs_what_it_refuses() {
        let classes = vec![
            ("own".into(), Share::Exclusive(1), balance()),
            ("rest".into(), Share::Shared, balance()),
        ];
        let mut all = flows(4);
        all.iter_mut().skip(1).for_each(|f| f.class = ClassId(1));
        let mut search = search(Box::new(Isolate::new(classes)), all);
        let mut device = Simulated::new("sim0", 4, 256);
        // The table, the switch for rules, three rules of class `rest`; then that of class `own`.
        device.failing =
            Some(crate::ethtool::InjectedFailure { at: 5, count: 1, errno: libc::EBUSY });
        let before = device.clone();
        let mut record = Record::default();
        let error = bring(&mut device, &mut record, &mut search).unwrap_err();
        assert!(matches!(error, BringError::Unsatisfied { .. }), "{error}");
        assert!(error.to_string().contains("dst-port 1 "), "{error}");
        assert_eq!((device.rules.len(), device.ntuple), (0, false));
        assert_eq!(device.spreading, before.spreading);
        assert!(record.is_empty());
    }

    #[test]
    fn a_device_that_goes_is_no_refusal() {
        let mut search = search(near(), flows(4));
        let mut device = Simulated::new("sim0", 4, 256);
        device.failing =
            Some(crate::ethtool::InjectedFailure { at: 1, count: 99, errno: libc::ENODEV });
        let error = bring(&mut device, &mut Record::default(), &mut search).unwrap_err();
        assert!(matches!(&error, BringError::Apply(e) if e.source.is_gone()), "{error}");
    }
}
