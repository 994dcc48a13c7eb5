//! Flows come into the plan and leave it: those of services and applications as these say, five-tuples as they are seen.

use std::collections::{HashMap, HashSet};

use weever_plan::flow::Flow;
use weever_plan::search::FlowId;
use weever_plan::watch::{DueFlow, FiveTuple};
use weever_policy::flows::FlowSpec;

use super::{Step, Steward, count_from};
use crate::plan::{Origin, five_tuple};

impl Steward {
    /// Replaces the registered flows of services and applications by the present ones, with their rates.
    pub fn set_services(&mut self, services: Vec<(Origin, FlowSpec)>) {
        let is_service =
            |origin: &Origin| matches!(origin, Origin::Service(..) | Origin::Application { .. });
        let present: HashSet<Origin> = services.iter().map(|(origin, _)| *origin).collect();
        let registered: Vec<(FlowId, Origin)> =
            self.flows.iter().map(|(id, flow)| (*id, flow.origin)).collect();
        let registered = registered.into_iter().filter(|(_, origin)| is_service(origin));
        let (known, gone): (Vec<_>, Vec<_>) =
            registered.partition(|(_, origin)| present.contains(origin));
        for (id, _) in gone {
            self.remove(id);
            self.has_changed = true;
        }
        let known: HashMap<Origin, FlowId> =
            known.into_iter().map(|(id, origin)| (origin, id)).collect();
        for (origin, spec) in services {
            match known.get(&origin) {
                // The flow stays where it is until the next search for all.
                Some(id) => drop(self.search.set_rate(*id, spec.rate)),
                None => self.register(origin, spec),
            }
        }
    }

    /// Adds a flow of a service or an application. A five-tuple that was found by its traffic becomes a registered
    /// flow; one that is registered already stays with its owner.
    fn register(&mut self, origin: Origin, spec: FlowSpec) {
        let (parts, app, tuple) = (spec.parts.clone(), spec.app.clone(), five_tuple(&spec.parts));
        if let Some((tuple, id)) = tuple.and_then(|tuple| Some((tuple, *self.tuples.get(&tuple)?)))
        {
            let found = self.flows.get(&id);
            if found.is_some_and(|flow| !matches!(flow.origin, Origin::Traffic(_))) {
                return;
            }
            self.tuples.remove(&tuple);
            self.watch.forget(&tuple);
            self.remove(id);
        }
        for flow in self.policy.classify([spec]).0 {
            let Some(id) = self.add(flow, origin) else { continue };
            self.has_changed = true;
            self.tuples.extend(tuple.map(|tuple| (tuple, id)));
            self.flows.entry(id).and_modify(|flow| flow.tuple = tuple);
            app.iter().for_each(|app| self.app_packets.insert(id, &parts, app));
        }
    }

    /// Removes ended five-tuples from the plan, and adds those that are worth a filter.
    pub(super) fn place(&mut self, due: DueFlow, step: &mut Step) {
        for tuple in due.gone {
            let Some(id) = self.tuples.get(&tuple).copied() else { continue };
            let origin = self.flows.get(&id).map(|flow| flow.origin);
            // Registered ones stay until they are taken back.
            if matches!(origin, Some(Origin::Traffic(_))) {
                self.tuples.remove(&tuple);
                self.remove(id);
                step.gone += 1;
            }
        }
        for (tuple, rate) in due.came {
            if self.tuples.contains_key(&tuple) || self.is_covered(&tuple) {
                continue;
            }
            let seen = FlowSpec::seen(tuple, rate).map(|seen| {
                let app = seen.parts.first().and_then(|packets| self.app_packets.app_of(packets));
                FlowSpec { app: app.map(str::to_owned), ..seen }
            });
            for flow in self.policy.classify(seen).0 {
                match self.add(flow, Origin::Traffic(tuple)) {
                    Some(id) => {
                        self.tuples.insert(tuple, id);
                        step.came.push(tuple);
                    }
                    None => {
                        self.stats.unplaced += 1;
                        step.unplaced.push(tuple);
                    }
                }
            }
        }
    }

    /// Whether a registered flow that five-tuples are left to has all packets of this one.
    fn is_covered(&self, tuple: &FiveTuple) -> bool {
        let Some(packets) = tuple.packets() else { return false };
        self.covered.iter().any(|registered| packets.implies(registered))
    }

    /// A flow that would break the policy stays where unregistered traffic goes.
    fn add(&mut self, flow: Flow, origin: Origin) -> Option<FlowId> {
        let name = flow.name.clone();
        let before = self.search.cost().is_acceptable();
        let id = self.search.add(flow);
        if before && !self.search.cost().is_acceptable() {
            self.search.remove(id);
            tracing::warn!(
                link = self.name,
                flow = name,
                "the policy has no place for this flow; it is treated as unregistered traffic"
            );
            return None;
        }
        tracing::debug!(link = self.name, flow = name, "flow added");
        self.flows.insert(id, count_from(origin));
        Some(id)
    }

    fn remove(&mut self, id: FlowId) {
        let known = self.flows.remove(&id);
        if let Some(tuple) = known.and_then(|flow| flow.tuple) {
            self.tuples.remove(&tuple);
        }
        let origin = known.map(|flow| flow.origin);
        if matches!(origin, Some(Origin::Service(..) | Origin::Application { .. })) {
            self.app_packets.remove(id);
        }
        if let Some(flow) = self.search.remove(id) {
            tracing::debug!(link = self.name, flow = flow.name, "flow removed");
        }
    }
}
