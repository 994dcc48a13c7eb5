//! Changes that operators ask for: another graph, or another value of a setting.

mod route;

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{MutexGuard, PoisonError};

use weever_engine::Published;
use weever_net::iface::IfaceId;
use weever_net::ipv6::AddrOrigin;
use weever_net::state::{NetConfig, ReversePath, Settings, StateError};
use weever_service_api::{ApiError, Assignment, Changed, ErrorKind, How};

use super::devices;
use super::program::Program;
use super::shared::Shared;
use crate::config::{Prefix, nearest, shortest_mtu};

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
                    set_interface(network, &name, key, assignment, self.config.probe)
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

fn set_interface(
    network: &mut NetConfig,
    name: &str,
    key: &str,
    assignment: &Assignment,
    probe: bool,
) -> Result<(), Refusal> {
    let id = interface(network, name, assignment)?;
    match key {
        "addr" => set_addresses(network, id, assignment, probe),
        "groups" => set_groups(network, id, assignment),
        "mtu" => set_mtu(network, id, assignment),
        "up" => Ok(network.set_up(id, switch(assignment)?)?),
        "forwarding" => Ok(network.set_forwarding(id, switch(assignment)?)?),
        _ => Err(unknown(&assignment.path).into()),
    }
}

fn interface(
    network: &NetConfig,
    name: &str,
    assignment: &Assignment,
) -> Result<IfaceId, ApiError> {
    if let Some(found) = network.interface_named(name) {
        return Ok(found.id);
    }
    let names: Vec<&str> = network.interfaces().iter().map(|i| i.name.as_str()).collect();
    let near = match nearest(name, &names) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there is {}", names.join(", ")),
    };
    Err(refused(assignment, &format!("there is no interface {name}; {near}")))
}

fn set_mtu(network: &mut NetConfig, id: IfaceId, assignment: &Assignment) -> Result<(), Refusal> {
    let wanted = mtu(assignment)?;
    let speaks_v6 = network.interface(id).is_some_and(|iface| iface.v6_settings.enabled);
    let shortest = shortest_mtu(speaks_v6);
    if wanted < shortest {
        let why = format!("IP needs an MTU of {shortest} there: use that or more");
        return Err(refused(assignment, &why).into());
    }
    Ok(network.set_mtu(id, wanted)?)
}

/// New addresses are asked for before they are used (RFC 5227 §2.1.1, RFC 4862 §5.4), IPv4 ones
/// unless the configuration says otherwise.
fn set_addresses(
    network: &mut NetConfig,
    id: IfaceId,
    assignment: &Assignment,
    probe: bool,
) -> Result<(), Refusal> {
    let wanted: Vec<Prefix> = list(assignment, PREFIX)?;
    if network.interface(id).is_some_and(|iface| iface.borrowed) {
        return Err(refused(assignment, "its addresses are the kernel's: use `ip addr`").into());
    }
    let own = operators_addresses(network, id);
    let (remove, add): (Vec<Prefix>, Vec<Prefix>) = match assignment.how {
        How::Add => (Vec::new(), wanted),
        How::Remove => (wanted, Vec::new()),
        How::Set => difference(&own, &wanted),
    };
    for address in remove {
        match address.addr() {
            IpAddr::V4(v4) => network.remove_address(id, v4).map(drop)?,
            IpAddr::V6(v6) => network.remove_address6(id, v6).map(drop)?,
        }
    }
    for address in add {
        match address {
            Prefix::V4(cidr) if probe => network.add_tentative(id, cidr)?,
            Prefix::V4(cidr) => network.add_address(id, cidr)?,
            Prefix::V6(_) if !fits_v6(network, id) => {
                let why = format!("IPv6 needs an MTU of {}: set `mtu` first", shortest_mtu(true));
                return Err(refused(assignment, &why).into());
            }
            Prefix::V6(cidr) => network.add_address6(id, cidr)?,
        }
    }
    Ok(())
}

fn fits_v6(network: &NetConfig, id: IfaceId) -> bool {
    network.interface(id).is_none_or(|iface| iface.mtu >= shortest_mtu(true))
}

/// What operators have given an interface; what it made for itself and routers gave it is not theirs
/// to list.
fn operators_addresses(network: &NetConfig, id: IfaceId) -> Vec<Prefix> {
    let Some(iface) = network.interface(id) else { return Vec::new() };
    let of_operators = iface.v6.iter().filter(|own| own.origin == AddrOrigin::Static);
    let v6 = of_operators.map(|own| Prefix::V6(own.cidr));
    let v4 = iface.v4.iter().chain(iface.tentative.iter()).chain(iface.duplicate.iter());
    v4.map(Prefix::from).chain(v6).collect()
}

/// What of `own` is not wanted, and what is wanted beside.
fn difference<T: Copy + PartialEq>(own: &[T], wanted: &[T]) -> (Vec<T>, Vec<T>) {
    let without =
        |all: &[T], others: &[T]| all.iter().copied().filter(|one| !others.contains(one)).collect();
    (without(own, wanted), without(wanted, own))
}

fn set_groups(
    network: &mut NetConfig,
    id: IfaceId,
    assignment: &Assignment,
) -> Result<(), Refusal> {
    let wanted: Vec<IpAddr> = list(assignment, "the address of a group")?;
    let own = groups(network, id);
    let (leave, join) = match assignment.how {
        How::Add => (Vec::new(), wanted),
        How::Remove => (wanted, Vec::new()),
        How::Set => difference(&own, &wanted),
    };
    for group in leave {
        match group {
            IpAddr::V4(v4) => network.leave(id, v4)?,
            IpAddr::V6(v6) => network.leave6(id, v6)?,
        };
    }
    for group in join {
        match group {
            IpAddr::V4(v4) => network.join(id, v4)?,
            IpAddr::V6(v6) => network.join6(id, v6)?,
        }
    }
    Ok(())
}

fn groups(network: &NetConfig, id: IfaceId) -> Vec<IpAddr> {
    let Some(iface) = network.interface(id) else { return Vec::new() };
    let v4 = iface.groups.iter().copied().map(IpAddr::V4);
    v4.chain(iface.groups6.iter().copied().map(IpAddr::V6)).collect()
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

    use weever_net::addr::Cidr;
    use weever_net::route::{Origin, Route, Way};

    use super::*;

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
            match set_interface(&mut network, &name, key, &assignment, true) {
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
