//! Addresses, groups and the like of an interface.

use std::net::IpAddr;

use weever_net::iface::IfaceId;
use weever_net::ipv6::AddrOrigin;
use weever_net::state::NetConfig;
use weever_service_api::{ApiError, Assignment, How};
use weever_suggest::nearest;

use super::values::{PREFIX, Refusal, list, mtu, refused, switch, unknown};
use crate::config::{Prefix, shortest_mtu};

/// `addr`, `groups`, `mtu`, `up` or `forwarding` of the interface of this name.
pub(super) fn set(
    network: &mut NetConfig,
    name: &str,
    key: &str,
    assignment: &Assignment,
    probe: bool,
) -> Result<(), Refusal> {
    let id = named(network, name, assignment)?;
    match key {
        "addr" => set_addresses(network, id, assignment, probe),
        "groups" => set_groups(network, id, assignment),
        "mtu" => set_mtu(network, id, assignment),
        "up" => Ok(network.set_up(id, switch(assignment)?)?),
        "forwarding" => Ok(network.set_forwarding(id, switch(assignment)?)?),
        _ => Err(unknown(&assignment.path).into()),
    }
}

pub(super) fn named(
    network: &NetConfig,
    name: &str,
    assignment: &Assignment,
) -> Result<IfaceId, ApiError> {
    if let Some(found) = network.interface_named(name) {
        return Ok(found.id);
    }
    let names: Vec<&str> = network.interfaces().iter().map(|i| i.name.as_str()).collect();
    let near = match nearest(name, names.iter().copied()) {
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

/// New addresses are probed before they are used (RFC 5227 §2.1.1, RFC 4862 §5.4), IPv4 ones unless
/// the configuration says otherwise.
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

/// The addresses of an interface that operators gave it; addresses made by the stack or given by
/// routers are not theirs to list.
fn operators_addresses(network: &NetConfig, id: IfaceId) -> Vec<Prefix> {
    let Some(iface) = network.interface(id) else { return Vec::new() };
    let of_operators = iface.v6.iter().filter(|own| own.origin == AddrOrigin::Static);
    let v6 = of_operators.map(|own| Prefix::V6(own.cidr));
    let v4 = iface.v4.iter().chain(iface.tentative.iter()).chain(iface.duplicate.iter());
    v4.map(Prefix::from).chain(v6).collect()
}

/// The elements of `own` that are not wanted, and the wanted ones that are not in `own`.
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
            IpAddr::V6(v6) => network.leave(id, v6)?,
        };
    }
    for group in join {
        match group {
            IpAddr::V4(v4) => network.join(id, v4)?,
            IpAddr::V6(v6) => network.join(id, v6)?,
        }
    }
    Ok(())
}

fn groups(network: &NetConfig, id: IfaceId) -> Vec<IpAddr> {
    let Some(iface) = network.interface(id) else { return Vec::new() };
    let v4 = iface.groups4.joined.iter().copied().map(IpAddr::V4);
    v4.chain(iface.groups6.joined.iter().copied().map(IpAddr::V6)).collect()
}
