//! Any bytes as a file of flows and as a policy: nothing panics, no line is lost, and what is read
//! can be brought together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weever_policy::{assign, flows, policy};

fuzz_target!(|bytes: &[u8]| {
    let list = flows::parse(bytes);
    let _ = list.problems.to_string();
    assert!(list.flows.iter().all(|f| !f.parts.is_empty() && f.weight > 0));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match policy::parse(text) {
        Ok(page) => {
            let assigned = assign(list.flows, &page).unwrap_or_else(|e| panic!("{e}"));
            assert!(assigned.flows.iter().all(|f| f.weight > 0));
        }
        Err(problems) => assert!(!problems.to_string().is_empty()),
    }
});
