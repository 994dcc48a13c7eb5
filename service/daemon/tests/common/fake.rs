//! A source of answers that is no stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weever_daemon::control::{Capturing, Source};
use weever_service_api::{
    ApiError, Assignment, CapturePlace, CaptureRequest, CaptureStarted, CapturedPacket, Changed,
    Counters, DropCounter, ErrorKind, Flows, GraphRequest, GraphText, NodeCounters, PortCounter,
    Queues, Status,
};

/// Counts how often it was told to stop.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) stops: AtomicU32,
}

impl Source for Fake {
    fn counters(&self) -> Counters {
        let port = |name: &str, packets| PortCounter { name: name.into(), packets };
        let node = NodeCounters {
            name: "RxL3IPv4".into(),
            packets: 5,
            ports: vec![port("true", 3), port("false", 2)],
            ..NodeCounters::default()
        };
        let (node_name, reason) = (node.name.clone(), "bad checksum".into());
        let drop = DropCounter { node: node_name, port: Some("false".into()), reason, packets: 2 };
        Counters { nodes: vec![node], drops: vec![drop], ..Counters::default() }
    }

    fn status(&self) -> Status {
        let golden = include_str!("../../../api/tests/golden/status.json");
        let message: serde_json::Value = serde_json::from_str(golden).unwrap();
        serde_json::from_value(message["ok"].clone()).unwrap()
    }

    fn flows(&self, most: usize) -> Flows {
        Flows { total: most as u64, ..Flows::default() }
    }

    fn queues(&self, _: usize) -> Queues {
        Queues::default()
    }

    fn graph(&self, _: &GraphRequest) -> Result<GraphText, ApiError> {
        Err(ApiError::new(ErrorKind::Internal, "there is no graph", "start a real stack"))
    }

    fn apply(&self, name: &str, _: &str) -> Result<Changed, ApiError> {
        Ok(Changed { notes: vec![name.into()], ..Changed::default() })
    }

    fn set(&self, assignments: &[Assignment]) -> Result<Changed, ApiError> {
        let notes = assignments.iter().map(ToString::to_string).collect();
        Ok(Changed { notes, ..Changed::default() })
    }

    fn capture(&self, _: &CaptureRequest) -> Result<Box<dyn Capturing>, ApiError> {
        Ok(Box::new(FakeCapture { left: 3 }))
    }

    fn stop(&self) {
        self.stops.fetch_add(1, Ordering::Relaxed);
    }
}

/// Three packets, then nothing.
struct FakeCapture {
    left: u8,
}

impl Capturing for FakeCapture {
    fn started(&self) -> CaptureStarted {
        let places = vec![CapturePlace::default()];
        CaptureStarted { places, snaplen: 64, ..CaptureStarted::default() }
    }

    fn collect(&mut self, _: usize) -> Vec<CapturedPacket> {
        let numbers = 0..std::mem::take(&mut self.left);
        let packet =
            |n| CapturedPacket { length: 100, data: vec![n; 64], ..CapturedPacket::default() };
        numbers.map(packet).collect()
    }

    fn missed(&self) -> u64 {
        7
    }

    fn is_removed(&self) -> bool {
        false
    }
}

/// A fake source, ready to be served.
pub(crate) fn fake() -> Arc<Fake> {
    Arc::new(Fake::default())
}
