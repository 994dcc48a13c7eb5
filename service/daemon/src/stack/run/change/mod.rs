//! Changes by operators: another graph, or another value of a setting.

mod interface;
mod route;
mod values;

use std::sync::{Arc, MutexGuard, PoisonError};

use weever_app_server::ServerError;
use weever_engine::Published;
use weever_link_sys::af_xdp::ReceiveThreads;
use weever_net::demux::Binding;
use weever_net::state::NetConfig;
use weever_service_api::{ApiError, Assignment, Changed};

use crate::config::Services;
use crate::stack::graph::program::Program;
use crate::stack::run::shared::Shared;
use values::{
    PREFIX, Refusal, mtu, only_set, optional, parse, refused, reverse_path, switch, unknown,
};

impl Shared {
    /// Waits for a change in progress.
    pub(in crate::stack) fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::stack) fn apply_text(&self, name: &str, text: &str) -> Result<Changed, ApiError> {
        self.change_program(|program| program.set_text(name, text))
    }

    fn change_program(&self, edit: impl FnOnce(&mut Program)) -> Result<Changed, ApiError> {
        let (published, ()) = self.program().change(&self.host.publisher, edit)?;
        Ok(changed(published))
    }

    /// Changes settings, in their order: all of them, or none when one is refused. Blocks until every
    /// worker runs the new graph, if the graph changes.
    pub(in crate::stack) fn assign(&self, assignments: &[Assignment]) -> Result<Changed, ApiError> {
        // Held until the end: another operator's change must not be lost meanwhile.
        let mut program = self.program();
        let before = program.clone();
        let mut wanted = before.clone();
        let mut network = self.host.network.state().config().clone();
        let mut of_network = Vec::new();
        let (mut of_graph, mut of_queues) = (false, Vec::new());
        for assignment in assignments {
            match self.edit(assignment, &mut wanted, &mut network)? {
                Part::Network => of_network.push(assignment),
                Part::Graph => of_graph = true,
                Part::Queues(threads, wanted) => of_queues.push((threads, wanted, assignment)),
            }
        }
        let mut all = Changed { epoch: self.host.publisher.epoch(), ..Changed::default() };
        let mut late = None;
        let wanted_services = wanted.services();
        if of_graph {
            let services = wanted.services();
            if let Err(error) = self.reserve(before.services(), services) {
                let of_services = |of: &&Assignment| of.path.starts_with("services.");
                let culprit = assignments.iter().rfind(of_services).unwrap_or(&assignments[0]);
                return Err(refused(culprit, &error.to_string()));
            }
            match program.change(&self.host.publisher, |program| *program = wanted) {
                Ok((published, ())) => all = changed(published),
                // The worker has the change before it, and nothing takes it back.
                Err(error) if error.is_late() => late = Some(error),
                Err(error) => {
                    let _was_held = self.reserve(services, before.services());
                    return Err(error.into());
                }
            }
            self.set_served(services, &mut all);
        }
        if let Err(refused) = self.change_network(&of_network) {
            // The change has become impossible since it was checked: a lease or a router changed the
            // network.
            let services = before.services();
            let _was_held = self.reserve(wanted_services, services);
            let undone = program.change(&self.host.publisher, |program| *program = before);
            self.set_served(services, &mut all);
            undone?;
            return Err(refused);
        }
        for (threads, wanted, assignment) in of_queues {
            wanted.apply(&threads);
            tracing::info!(setting = %assignment, "queues changed");
        }
        late.map_or(Ok(all), |error| Err(error.into()))
    }

    /// Keeps the ports of the services out of applications' reach, in place of those that they had: all of
    /// them, or nothing changes.
    fn reserve(&self, before: Services, after: Services) -> Result<(), ServerError> {
        let Some(server) = self.applications.get() else { return Ok(()) };
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        let ports = |of: Services| -> Vec<(Binding, bool)> {
            let binding = |port| Binding { local_port: Some(port), ..Binding::default() };
            of.running().map(|(_, protocol, port)| (binding(port), protocol == "tcp")).collect()
        };
        let (old, new) = (ports(before), ports(after));
        let mut taken = Vec::new();
        for (binding, listens) in new.iter().filter(|there| !old.contains(there)) {
            if let Err(error) = server.reserve(*binding, *listens) {
                taken.iter().for_each(|(binding, listens)| server.unreserve(binding, *listens));
                return Err(error);
            }
            taken.push((*binding, *listens));
        }
        for (binding, listens) in old.iter().filter(|there| !new.contains(there)) {
            server.unreserve(binding, *listens);
        }
        Ok(())
    }

    /// Publishes the graph's services: in the status, and to the filters of devices that are
    /// shared by port.
    fn set_served(&self, services: Services, changed: &mut Changed) {
        *self.serves.lock().unwrap_or_else(PoisonError::into_inner) = services;
        changed.notes.extend(self.ports.follow(&services));
    }

    /// Applies a change of the network that was tried before.
    fn change_network(&self, assignments: &[&Assignment]) -> Result<(), ApiError> {
        if assignments.is_empty() {
            return Ok(());
        }
        // Settings of the network do not touch the program.
        let mut program = Program::new(Services::default());
        self.host.network.update(|network| {
            assignments
                .iter()
                .try_for_each(|assignment| self.edit(assignment, &mut program, network).map(drop))
        })?;
        for assignment in assignments {
            tracing::info!(setting = %assignment, "network changed");
        }
        Ok(())
    }

    /// Applies an assignment to the program or the network; returns the changed one.
    fn edit(
        &self,
        assignment: &Assignment,
        program: &mut Program,
        network: &mut NetConfig,
    ) -> Result<Part, ApiError> {
        let path: Vec<&str> = assignment.path.split('.').collect();
        let done = match path[..] {
            ["services", service @ ("echo" | "discard" | "tcp-echo" | "tcp-discard")] => {
                set_service(program, service, assignment)?;
                return Ok(Part::Graph);
            }
            ["node", node, param] => {
                program.set_param(node, param, only_set(assignment)?);
                return Ok(Part::Graph);
            }
            ["route", ..] => {
                let to = assignment.path.trim_start_matches("route.");
                route::set(network, parse(assignment, to, PREFIX)?, assignment)
            }
            ["interface", ref name @ .., key] if !name.is_empty() => {
                let name = name.join(".");
                if key == "mtu" {
                    self.fits_its_link(&name, network, assignment)?;
                }
                interface::set(network, &name, key, assignment, self.config.probe)
            }
            ["queue", ref device @ .., key @ ("threads" | "ordered")] if !device.is_empty() => {
                return self.set_queue(&device.join("."), key, assignment);
            }
            ["forwarding"] => self.set_forwarding(network, assignment),
            ["redirects"] => {
                network.settings.redirects = switch(assignment)?;
                Ok(())
            }
            ["reverse-path"] => {
                network.settings.reverse_path = reverse_path(assignment)?;
                Ok(())
            }
            _ => return Err(unknown(&assignment.path)),
        };
        done.map(|()| Part::Network).map_err(|why| match why {
            Refusal::State(error) => refused(assignment, &error.to_string()),
            Refusal::Api(error) => *error,
        })
    }

    /// Tries how many workers are to receive from each queue of a device, or whether they keep order.
    fn set_queue(
        &self,
        device: &str,
        key: &str,
        assignment: &Assignment,
    ) -> Result<Part, ApiError> {
        let names = self.names.all();
        let Some(link) = names.iter().position(|name| name == device) else {
            let why = format!("there is no device {device}; there are {}", names.join(", "));
            return Err(refused(assignment, &why));
        };
        let wanted = match key {
            "ordered" => OfQueue::Ordered(switch(assignment)?),
            _ => OfQueue::Threads(parse(assignment, only_set(assignment)?, "a number of workers")?),
        };
        let Some(threads) = self.receivers.get(link).and_then(Option::as_ref) else {
            let why = "each of its queues has a socket for one worker only: start the stack with \
                       `threads = 1` for the interface, or with a policy, and several `cores`";
            return Err(refused(assignment, why));
        };
        if self.shares_by_policy(link) {
            let why =
                "the policy decides that while traffic flows (`[sharing]` with `mode = \"auto\"`)";
            return Err(refused(assignment, why));
        }
        if let OfQueue::Threads(wanted) = wanted {
            threads.check(wanted).map_err(|error| refused(assignment, &error.to_string()))?;
        }
        Ok(Part::Queues(Arc::clone(threads), wanted))
    }

    fn set_forwarding(
        &self,
        network: &mut NetConfig,
        assignment: &Assignment,
    ) -> Result<(), Refusal> {
        let on = switch(assignment)?;
        if let Some(name) = self.config.interface_for_itself().filter(|_| on) {
            let why = format!(
                "{name} leaves packets for others to the kernel: the stack has \
                               to be started with `share = \"none\"` on every interface"
            );
            return Err(refused(assignment, &why).into());
        }
        network.settings.forwarding = on;
        Ok(())
    }

    /// The device would drop every longer packet.
    fn fits_its_link(
        &self,
        name: &str,
        network: &NetConfig,
        assignment: &Assignment,
    ) -> Result<(), ApiError> {
        let wanted: u16 = mtu(assignment)?;
        // The caller reports a missing interface.
        let Some(interface) = network.interface_named(name) else { return Ok(()) };
        let link = &self.host.links[usize::from(interface.link)];
        let too_long =
            format!("{} was opened with an MTU of {}: use that or less", link.name, link.mtu);
        if wanted > link.mtu { Err(refused(assignment, &too_long)) } else { Ok(()) }
    }
}

/// The part of a stack that an assignment changes.
enum Part {
    /// The graph: its services, parameters of its nodes.
    Graph,
    /// Addresses, routes and settings of the network.
    Network,
    /// The workers that receive from each queue of a device.
    Queues(Arc<ReceiveThreads>, OfQueue),
}

/// A setting of a device's queues.
#[derive(Clone, Copy)]
enum OfQueue {
    Threads(u16),
    Ordered(bool),
}

impl OfQueue {
    /// Applies what was tried before.
    fn apply(self, threads: &ReceiveThreads) {
        match self {
            // The most does not change.
            OfQueue::Threads(wanted) => drop(threads.set(wanted)),
            OfQueue::Ordered(wanted) => threads.keep_order(wanted),
        }
    }
}

fn set_service(
    program: &mut Program,
    service: &str,
    assignment: &Assignment,
) -> Result<(), ApiError> {
    only_set(assignment)?;
    let port = optional(assignment, "a port, 1 to 65535, or none")?;
    let mut services = program.services();
    let (own, other) = match service {
        "echo" => (&mut services.echo, services.discard),
        "discard" => (&mut services.discard, services.echo),
        "tcp-echo" => (&mut services.tcp_echo, services.tcp_discard),
        _ => (&mut services.tcp_discard, services.tcp_echo),
    };
    *own = port;
    match port {
        Some(0) => return Err(refused(assignment, "port 0 cannot be bound: use 1 to 65535")),
        Some(_) if port == other => {
            return Err(refused(assignment, "another service has that port"));
        }
        _ => {}
    }
    program.set_services(services);
    Ok(())
}

fn changed(published: Published) -> Changed {
    let Published { epoch, steps, afresh } = published;
    Changed { epoch, steps, afresh, notes: Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use weever_net::addr::Cidr;
    use weever_net::iface::IfaceId;
    use weever_net::route::{Origin, Route, Way};
    use weever_service_api::settings::TABLE;
    use weever_service_api::{ErrorKind, How};

    use super::values::list;
    use super::*;
    use crate::config::Prefix;

    #[test]
    fn every_setting_of_an_interface_is_there() {
        let mut network = NetConfig::single(weever_wire::MacAddr::ZERO, &[]);
        let name = network.interfaces()[0].name.clone();
        let keys = TABLE.iter().filter_map(|setting| setting.path.strip_prefix("interface.NAME."));
        for key in keys {
            let path = format!("interface.{name}.{key}");
            let assignment = Assignment { path, how: How::Set, value: "nonsense".into() };
            match interface::set(&mut network, &name, key, &assignment, true) {
                Err(Refusal::Api(error)) => assert_eq!(error.kind, ErrorKind::Refused, "{key}"),
                Err(Refusal::State(error)) => panic!("{key}: {error}"),
                Ok(()) => panic!("{key} takes nonsense"),
            }
        }
    }

    #[test]
    fn an_operators_route_is_set_beside_those_of_others() {
        let mut network = NetConfig::single(
            weever_wire::MacAddr([2, 0, 0, 0, 0, 1]),
            &["10.0.0.1/24".parse().unwrap()],
        );
        let lease = Route::new(Cidr::ALL, Way::Via([10, 0, 0, 2].into()));
        let lease = lease.by(IfaceId(0)).with_metric(100).from(Origin::Dhcp);
        network.add_route(lease).unwrap();
        let origins = |network: &NetConfig| -> Vec<Origin> {
            network.routes4().iter().map(|route| route.origin).collect()
        };
        for (value, expected) in [
            ("10.0.0.3", &[Origin::Dhcp, Origin::Static][..]),
            ("10.0.0.4", &[Origin::Dhcp, Origin::Static]),
            ("none", &[Origin::Dhcp]),
        ] {
            let assignment: Assignment = format!("route.0.0.0.0/0={value}").parse().unwrap();
            assert!(route::set(&mut network, Prefix::ALL_V4, &assignment).is_ok(), "{value}");
            assert_eq!(origins(&network), expected, "{value}");
        }
    }

    #[test]
    fn lists_are_read_and_none_is_an_empty_one() {
        let assignment = |text: &str| text.parse::<Assignment>().unwrap();
        let addresses = list::<IpAddr>(&assignment("a=10.0.0.1, ::1"), "a").unwrap();
        assert_eq!(addresses.len(), 2);
        assert!(list::<IpAddr>(&assignment("a=none"), "a").unwrap().is_empty());
        let error = list::<IpAddr>(&assignment("a=10.0.0.1,x"), "an address").unwrap_err();
        assert!(
            error.message.starts_with("a=10.0.0.1,x: `x` is not an address"),
            "{}",
            error.message
        );
        assert!(list::<IpAddr>(&assignment("a+=none"), "a").is_err());
        assert!(switch(&assignment("a+=on")).is_err());
    }
}
