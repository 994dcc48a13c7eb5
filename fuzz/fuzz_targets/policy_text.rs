//! Any bytes as a file of flows and as a policy: nothing panics, no line is lost, and the flows
//! that are read get their classes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_policy::{flows, policy};

fuzz_target!(|bytes: &[u8]| {
    let list = flows::parse(bytes);
    let _ = list.problems.to_string();
    assert!(list.flows.iter().all(|f| !f.parts.is_empty() && f.weight > 0));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match policy::parse(text) {
        Ok(mut checked) => {
            let count = list.flows.len();
            let (flows, _) = checked.classify(list.flows);
            assert!(flows.len() == count && flows.iter().all(|f| f.weight > 0));
        }
        Err(problems) => assert!(!problems.to_string().is_empty()),
    }
});
