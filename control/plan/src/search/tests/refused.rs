//! Devices that take less than their models say.

use super::balanced;
use crate::Refusal;
use crate::flow::ClassId;
use crate::policy::{Balance, Isolate, Measure, Share};
use crate::search::DeviceChange;
use crate::testkit::*;

use super::super::*;

/// A device that takes a limited number of rules in each table, and none for the ports in `hated`.
struct Device {
    room: Vec<usize>,
    hated: fn(&crate::config::Rule) -> bool,
    rules: Vec<(RuleId, usize)>,
}

impl Device {
    fn take(&mut self, changes: &[DeviceChange]) -> Vec<(RuleId, Refused)> {
        let mut refused = Vec::new();
        for change in changes {
            match change {
                DeviceChange::Insert { table, id, rule } => {
                    let here = self.rules.iter().filter(|(_, t)| t == table).count();
                    if (self.hated)(rule) {
                        refused.push((*id, Refused::Rule));
                    } else if here >= self.room[*table] {
                        refused.push((*id, Refused::Full { room: None }));
                    } else {
                        self.rules.push((*id, *table));
                    }
                }
                DeviceChange::Remove { id, .. } => self.rules.retain(|(i, _)| i != id),
                DeviceChange::Retarget { .. } => {}
            }
        }
        refused
    }

    /// The number of updates of which it refused a part.
    fn follow(&mut self, search: &mut Search) -> usize {
        for round in 0..10 {
            let refused = self.take(&search.take_changes());
            if refused.is_empty() {
                return round;
            }
            let no = |(id, what)| (id, what, String::from("the device says no"));
            search.refuse_all(&refused.into_iter().map(no).collect::<Vec<_>>());
        }
        panic!("it does not come to an end");
    }
}

fn last_port(rule: &crate::config::Rule) -> bool {
    rule.keys.iter().any(|key| key.value == 1003)
}

#[test]
fn a_refused_rule_is_planned_around() {
    let two = vec![five_tuple_filters(8), flow_director(8)];
    let mut search = Search::new(nic(4, two), balanced(), Options::default());
    search.run(flows(0, 8));
    let mut device = Device { room: vec![8, 8], hated: last_port, rules: Vec::new() };
    assert!(device.follow(&mut search) > 0);
    let plan = search.plan();
    assert!(!plan.rules.iter().any(|r| last_port(&r.rule)), "no table took it: {:?}", plan.rules);
    assert_eq!(device.rules.len(), plan.rules.len(), "the device has the plan's rules");
    let flow = plan.flows.iter().find(|f| f.name == "flow 3").unwrap();
    let by_device = flow.refused.iter().filter(|(_, r)| matches!(r, Refusal::Device { .. }));
    assert_eq!(by_device.count(), 2, "{:?}", flow.refused);
    let said = flow.refused[0].1.to_string();
    assert!(said.ends_with("the device says no"), "{said}");
    search.place_all();
    assert_eq!(device.follow(&mut search), 0, "nothing that was refused is tried again");
}

#[test]
fn a_table_that_is_full_too_early_is_taken_as_it_is() {
    let two = vec![five_tuple_filters(100), flow_director(100)];
    let mut search = Search::new(nic(4, two), balanced(), Options::default());
    search.run(flows(0, 60));
    let mut device = Device { room: vec![10, 20], hated: |_| false, rules: Vec::new() };
    device.follow(&mut search);
    let plan = search.plan();
    assert_eq!((device.rules.len(), plan.rules.len()), (30, 30));
    let refused: Vec<&PlannedFlow> = plan.flows.iter().filter(|f| !f.refused.is_empty()).collect();
    assert!(refused.len() >= 15, "{} of 30 without a rule", refused.len());
    let full = |(_, reason): &(String, Refusal)| matches!(reason, Refusal::Device { .. });
    assert!(refused.iter().all(|f| f.refused.len() == 2 && f.refused.iter().all(full)));
    // When a flow goes, its place is there for another one.
    search.remove(plan.flows[0].id);
    search.add(flows(99, 100).remove(0));
    assert_eq!(device.follow(&mut search), 0);
}

#[test]
fn a_policy_that_the_device_does_not_let_be_satisfied_is_rejected() {
    let balance = || Box::new(Balance::new(Measure::Flows));
    let policy = Isolate::new(vec![
        ("hp".into(), Share::Exclusive(1), balance() as Box<dyn Policy>),
        ("be".into(), Share::Shared, balance()),
    ]);
    let mut search =
        Search::new(nic(2, vec![five_tuple_filters(8)]), Box::new(policy), Options::default());
    let mut all = flows(0, 4);
    all[3].class = ClassId(0);
    all[..3].iter_mut().for_each(|f| f.class = ClassId(1));
    search.run(all);
    assert!(search.cost().is_acceptable());
    let mut device = Device { room: vec![8], hated: last_port, rules: Vec::new() };
    device.follow(&mut search);
    let plan = search.plan();
    assert!(!plan.is_acceptable());
    assert_eq!(plan.complaints, ["1 flow leaves the queues of class `hp` (1)"]);
    let shortage = &plan.shortages[0];
    assert!(matches!(shortage.reason, Refusal::Device { .. }), "{shortage:?}");
}

/// The first refusal alone makes the plan unacceptable, so that everything is planned anew; the other rules that
/// the device did not take must not be taken for ones that it has.
#[test]
fn of_several_refusals_at_once_none_is_forgotten() {
    let balance = || Box::new(Balance::new(Measure::Flows));
    let policy =
        Isolate::new(vec![("hp".into(), Share::Exclusive(1), balance() as Box<dyn Policy>)]);
    let mut search =
        Search::new(nic(2, vec![five_tuple_filters(500)]), Box::new(policy), Options::default());
    search.run(flows(0, 200));
    assert!(search.cost().is_acceptable());
    let mut device = Device { room: vec![120], hated: |_| false, rules: Vec::new() };
    device.follow(&mut search);
    let plan = search.plan();
    assert_eq!(plan.complaints, ["80 flows leave the queues of class `hp` (1)"]);
    assert_eq!(device.rules.len(), plan.rules.len(), "the device has the plan's rules");
}

#[test]
fn many_single_refusals_are_one_of_a_kind() {
    let mut search =
        Search::new(nic(4, vec![five_tuple_filters(500)]), balanced(), Options::default());
    search.run(flows(0, 200));
    let mut device = Device { room: vec![500], hated: |_| true, rules: Vec::new() };
    assert!(device.follow(&mut search) < 3);
    assert!(search.plan().rules.is_empty());
}
