use super::*;
use crate::policy::{Balance, Measure};
use crate::testkit::*;

fn balanced() -> Box<dyn Policy> {
    Box::new(Balance::new(Measure::Flows))
}

#[test]
fn many_flows_are_balanced() {
    let mut search = Search::new(with_rss(i82599(10), 128), balanced(), Options::default());
    search.run(flows(0, 500));
    assert_eq!(search.cost(), Cost::accept(0.0));
    let plan = search.plan();
    assert!(plan.queues.iter().all(|q| q.flows == 50.0), "{:?}", plan.queues);
    assert!(plan.flows.iter().all(|f| f.placement.queue().is_some()));
}
