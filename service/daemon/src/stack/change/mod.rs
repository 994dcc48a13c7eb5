//! Changes that operators ask for: another graph, or another value of a setting.

mod interface;
mod route;

use std::str::FromStr;
use std::sync::{MutexGuard, PoisonError};

use weever_engine::Published;
use weever_net::state::{NetConfig, ReversePath, Settings, StateError};
use weever_service_api::{ApiError, Assignment, Changed, ErrorKind, How};

use super::devices;
use super::program::Program;
use super::shared::Shared;
use crate::config::nearest;

/// What addresses and routes are of.
const PREFIX: &str = "an address with a prefix length, such as 192.0.2.0/24 or 2001:db8::/64";

impl Shared {
    /// Waits for a change that is under way.
    pub(super) fn program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn apply_text(&self, name: &str, text: &str) -> Result<Changed, ApiError> {
        self.change_program(|program| program.set_text(name, text))
    }

    fn change_program(&self, edit: impl FnOnce(&mut Program)) -> Result<Changed, ApiError> {
        let (published, ()) = self.program().change(&self.publisher, edit)?;
        Ok(changed(published))
    }

    /// Changes one setting.
    pub(super) fn assign(&self, assignment: &Assignment) -> Result<Changed, ApiError> {
        let path: Vec<&str> = assignment.path.split('.').collect();
        match path[..] {
            ["services", service @ ("echo" | "discard")] => self.set_service(service, assignment),
            ["node", node, param] => {
                only_set(assignment)?;
                self.change_program(|program| program.set_param(node, param, &assignment.value))
            }
            ["route", ..] => {
                let to = assignment.path.trim_start_matches("route.");
                let to = parse(assignment, to, PREFIX)?;
                self.change_network(assignment, |network| route::set(network, to, assignment))
            }
            ["interface", ref name @ .., key] if !name.is_empty() => {
                let name = name.join(".");
                if key == "mtu" {
                    self.fits_its_link(&name, assignment)?;
                }
                self.change_network(assignment, |network| {
                    interface::set(network, &name, key, assignment, self.config.probe)
                })
            }
            ["forwarding"] => self.set_forwarding(assignment),
            ["redirects"] => {
                let on = switch(assignment)?;
                self.change_settings(assignment, |all| all.redirects = on)
            }
            ["reverse-path"] => {
                let check = reverse_path(assignment)?;
                self.change_settings(assignment, |all| all.reverse_path = check)
            }
            _ => Err(unknown(&assignment.path)),
        }
    }

    fn set_forwarding(&self, assignment: &Assignment) -> Result<Changed, ApiError> {
        let on = switch(assignment)?;
        if let Some(name) = self.config.interface_for_itself().filter(|_| on) {
            let why = format!(
                "{name} leaves packets for others to the kernel: the stack has \
                               to be started with `share = \"none\"` on every interface"
            );
            return Err(refused(assignment, &why));
        }
        self.change_settings(assignment, |all| all.forwarding = on)
    }

    fn set_service(&self, service: &str, assignment: &Assignment) -> Result<Changed, ApiError> {
        only_set(assignment)?;
        let port = optional(assignment, "a UDP port, 1 to 65535, or none")?;
        // Held until the end: what another operator sets meanwhile must not be lost.
        let mut program = self.program();
        let mut services = program.services();
        let other = match service {
            "echo" => (std::mem::replace(&mut services.echo, port), services.discard).1,
            _ => (std::mem::replace(&mut services.discard, port), services.echo).1,
        };
        match port {
            Some(0) => return Err(refused(assignment, "port 0 cannot be bound: use 1 to 65535")),
            Some(_) if port == other => {
                return Err(refused(assignment, "another service has that port"));
            }
            _ => {}
        }
        let edit = |program: &mut Program| program.set_services(services);
        let done = program.change(&self.publisher, edit);
        // Also if a worker is late: it will have the change.
        *self.serves.lock().unwrap_or_else(PoisonError::into_inner) = program.services();
        let (published, ()) = done?;
        let mut changed = changed(published);
        changed.notes.extend(self.ports.follow(&services));
        Ok(changed)
    }

    /// What is longer than the device takes would be lost there, packet by packet.
    fn fits_its_link(&self, name: &str, assignment: &Assignment) -> Result<(), ApiError> {
        let wanted: u16 = mtu(assignment)?;
        // An interface that is not there is told of by who looks for it.
        let mut named = self.config.interfaces.iter().filter(|interface| interface.name == name);
        let Some(interface) = named.next() else { return Ok(()) };
        let link = &self.links[usize::from(devices::number_of(&self.config, &interface.dev))];
        let too_long =
            format!("{} was opened with an MTU of {}: use that or less", link.name, link.mtu);
        if wanted > link.mtu { Err(refused(assignment, &too_long)) } else { Ok(()) }
    }

    fn change_settings(
        &self,
        assignment: &Assignment,
        change: impl FnOnce(&mut Settings),
    ) -> Result<Changed, ApiError> {
        self.change_network(assignment, |network| {
            change(&mut network.settings);
            Ok(())
        })
    }

    fn change_network(
        &self,
        assignment: &Assignment,
        change: impl FnOnce(&mut NetConfig) -> Result<(), Refusal>,
    ) -> Result<Changed, ApiError> {
        self.network.update(change).map_err(|why| match why {
            Refusal::State(error) => refused(assignment, &error.to_string()),
            Refusal::Api(error) => *error,
        })?;
        tracing::info!(setting = %assignment, "network changed");
        Ok(Changed { epoch: self.publisher.epoch(), ..Changed::default() })
    }
}

/// Why the network stays as it is.
enum Refusal {
    State(StateError),
    Api(Box<ApiError>),
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Refusal {
        Refusal::State(error)
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        Refusal::Api(Box::new(error))
    }
}

fn changed(published: Published) -> Changed {
    let Published { epoch, steps, afresh } = published;
    Changed { epoch, steps, afresh, notes: Vec::new() }
}

fn reverse_path(assignment: &Assignment) -> Result<ReversePath, ApiError> {
    match only_set(assignment)? {
        "none" => Ok(ReversePath::None),
        "loose" => Ok(ReversePath::Loose),
        "strict" => Ok(ReversePath::Strict),
        _ => Err(refused(assignment, "use none, loose or strict")),
    }
}

fn switch(assignment: &Assignment) -> Result<bool, ApiError> {
    match only_set(assignment)? {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(refused(assignment, "use on or off")),
    }
}

/// The value of a setting that is no list.
fn only_set(assignment: &Assignment) -> Result<&str, ApiError> {
    match assignment.how {
        How::Set => Ok(&assignment.value),
        _ => Err(refused(assignment, "it is no list: use =")),
    }
}

fn mtu(assignment: &Assignment) -> Result<u16, ApiError> {
    parse(assignment, only_set(assignment)?, "a number of bytes, up to 65535")
}

fn optional<T: FromStr>(assignment: &Assignment, wanted: &str) -> Result<Option<T>, ApiError> {
    match assignment.value.as_str() {
        "none" => Ok(None),
        value => parse(assignment, value, wanted).map(Some),
    }
}

fn list<T: FromStr>(assignment: &Assignment, wanted: &str) -> Result<Vec<T>, ApiError> {
    match assignment.value.as_str() {
        "none" if assignment.how == How::Set => Ok(Vec::new()),
        values => values.split(',').map(|value| parse(assignment, value.trim(), wanted)).collect(),
    }
}

fn parse<T: FromStr>(assignment: &Assignment, text: &str, wanted: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| refused(assignment, &format!("`{text}` is not {wanted}")))
}

fn refused(assignment: &Assignment, why: &str) -> ApiError {
    let remedy = "it stays as it was; `weever set --help` lists settings and their values";
    ApiError::new(ErrorKind::Refused, format!("{assignment}: {why}"), remedy)
}

/// Where a setting's path begins.
const ROOTS: [&str; 7] =
    ["services", "node", "route", "interface", "forwarding", "redirects", "reverse-path"];
/// Where that of a service ends.
const SERVICES: [&str; 2] = ["echo", "discard"];
/// Where that of an interface ends.
const OF_INTERFACE: [&str; 5] = ["addr", "groups", "mtu", "up", "forwarding"];

fn unknown(path: &str) -> ApiError {
    let hint = meant(path).map_or(String::new(), |near| format!(" (did you mean {near}?)"));
    let remedy = "`weever set --help` lists the settings";
    ApiError::new(ErrorKind::BadParameters, format!("there is no setting {path}{hint}"), remedy)
}

/// The setting whose path is nearly this one.
fn meant(path: &str) -> Option<String> {
    let mut words: Vec<&str> = path.split('.').collect();
    words[0] = nearest(words[0], &ROOTS)?;
    let ends: &[&str] = match words[0] {
        "services" => &SERVICES,
        "interface" => &OF_INTERFACE,
        _ => &[],
    };
    if let (Some(last), false) = (words.last_mut(), ends.is_empty()) {
        *last = nearest(last, ends)?;
    }
    Some(words.join(".")).filter(|near| near != path)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use weever_net::addr::Cidr;
    use weever_net::iface::IfaceId;
    use weever_net::route::{Origin, Route, Way};

    use super::*;
    use crate::config::Prefix;

    #[test]
    fn a_path_that_is_nearly_right_is_suggested() {
        for (given, meant) in [
            ("service.ecko", "services.echo"),
            ("forwardin", "forwarding"),
            ("interfaces.eth0.5.mtuu", "interface.eth0.5.mtu"),
            ("interface.lan.adr", "interface.lan.addr"),
            ("nod.Counter.period", "node.Counter.period"),
        ] {
            assert!(unknown(given).message.ends_with(&format!("(did you mean {meant}?)")));
        }
        for far in ["zzz", "interface.lan.colour", "services", ""] {
            assert!(!unknown(far).message.contains("mean"), "{far}");
        }
    }

    #[test]
    fn every_setting_of_an_interface_that_is_suggested_is_there() {
        let mut network = NetConfig::single(weever_wire::MacAddr::ZERO, &[]);
        let name = network.interfaces()[0].name.clone();
        for key in OF_INTERFACE {
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
