//! Answers of a stack that does not run.

use serde_json::{Value, json};
use weever_service_api::{Counters, Status};

pub(crate) fn counters() -> Counters {
    let counters = json!({
        "nodes": [{
            "name": "RxL3IPv4",
            "packets": 5,
            "ports": [{"name": "true", "packets": 3}, {"name": "false", "packets": 2}],
        }],
        "drops": [{"node": "RxL3IPv4", "port": "false", "reason": "bad checksum", "packets": 2}],
    });
    serde_json::from_value(counters).unwrap()
}

pub(crate) fn status() -> Status {
    let golden = include_str!("../../../api/tests/golden/status.json");
    let message: Value = serde_json::from_str(golden).unwrap();
    serde_json::from_value(message["ok"].clone()).unwrap()
}
