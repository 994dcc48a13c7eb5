//! A program that somebody detaches is reported, left so, and attached again when the policy is read again.

use std::sync::{Arc, Mutex};

use weever_device::xdp::XdpSteering;
use weever_ebpf::xdp::classify::{Classifier, Fallback, Sink};
use weever_plan::nic::Nic;
use weever_plan::policy::{Balance, Measure};
use weever_plan::search::{Options, Search};
use weever_steward::{Applied, NoReceivers, ProgramTarget, Target};
use weever_testbed::{Fixture, require_net_admin};

#[test]
fn a_program_that_somebody_detaches_is_reported_and_comes_back_with_the_policy() {
    require_net_admin!();
    let net = Fixture::pair(1).unwrap();
    let nic = Nic::of(&weever_models::nic("xdp").unwrap()).unwrap().with_queues(2).unwrap();
    let balance = Box::new(Balance::new(Measure::Flows));
    let mut search = Search::new(nic.clone(), balance, Options::default());
    search.run(Vec::new());
    let classifier = Classifier::load(Sink::Count, Fallback::Spread(vec![0, 1]), 16).unwrap();
    let classifier = Arc::new(Mutex::new(classifier));
    let attach = || classifier.lock().unwrap().attach(net.veth.left.index).unwrap();
    net.left.run(attach);
    let steering = XdpSteering::of(Arc::clone(&classifier), &nic, search.rss()).unwrap();
    let mut target = ProgramTarget::attached(steering);
    let mut apply = |target: &mut ProgramTarget| -> Applied {
        net.left.run(|| target.apply(&mut search, &mut NoReceivers)).unwrap()
    };
    apply(&mut target);
    assert!(!target.look().unwrap());
    assert_eq!(target.shortfall(), None);

    classifier.lock().unwrap().link().unwrap().detach().unwrap();
    assert!(target.look().unwrap());
    assert!(!target.look().unwrap(), "it is news once");
    assert!(target.shortfall().unwrap().contains("detached the program"));
    let told = apply(&mut target).lines.concat();
    assert!(told.contains("detached the program"), "{told}");
    assert!(classifier.lock().unwrap().is_detached().unwrap(), "it is somebody's wish");

    target.renew();
    let told = apply(&mut target).lines.concat();
    assert!(told.contains("attached again"), "{told}");
    assert!(!classifier.lock().unwrap().is_detached().unwrap());
    assert_eq!((target.look().unwrap(), target.shortfall()), (false, None));
}
