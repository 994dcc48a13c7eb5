//! The packets of applications. A five-tuple that is seen within a registered flow of an application is the
//! application's, too: it may be where the application has a queue for itself.

use std::collections::HashMap;

use weever_graph::Field;
use weever_plan::flow::Conj;
use weever_plan::search::FlowId;

/// Registered flows of applications, by the port that they are sent to.
#[derive(Default)]
pub(crate) struct AppPackets {
    by_port: HashMap<Option<u128>, Vec<AppFlow>>,
}

struct AppFlow {
    id: FlowId,
    packets: Conj,
    app: String,
}

impl AppPackets {
    /// A registered flow has these packets and belongs to this application.
    pub(crate) fn insert(&mut self, id: FlowId, parts: &[Conj], app: &str) {
        for packets in parts {
            let flows = self.by_port.entry(packets.single(Field::L4Dst)).or_default();
            flows.push(AppFlow { id, packets: packets.clone(), app: app.to_owned() });
        }
    }

    /// The flow is no more.
    pub(crate) fn remove(&mut self, id: FlowId) {
        self.by_port.retain(|_, flows| {
            flows.retain(|flow| flow.id != id);
            !flows.is_empty()
        });
    }

    /// The application whose flows have all of these packets.
    pub(crate) fn app_of(&self, packets: &Conj) -> Option<&str> {
        let port = packets.single(Field::L4Dst);
        let places = [port, None].into_iter().filter_map(|port| self.by_port.get(&port));
        let mut all = places.flatten().filter(|flow| packets.implies(&flow.packets));
        all.next().map(|flow| flow.app.as_str())
    }
}
