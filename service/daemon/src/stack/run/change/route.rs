//! Routes of both families.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use weever_net::addr::{self, Address};
use weever_net::route::{Origin, Route, Way};
use weever_net::state::{NetConfig, StateError};
use weever_service_api::{ApiError, Assignment};

use super::interface;
use super::values::{Refusal, only_set, parse, refused};
use crate::config::Prefix;

/// `VIA`, `VIA%INTERFACE`, `INTERFACE`, a word for unreachable destinations, or `none`.
pub(super) fn set(
    network: &mut NetConfig,
    to: Prefix,
    assignment: &Assignment,
) -> Result<(), Refusal> {
    only_set(assignment)?;
    match to {
        Prefix::V4(to) => set_of::<Ipv4Addr>(network, to.network(), assignment),
        Prefix::V6(to) => set_of::<Ipv6Addr>(network, to.network(), assignment),
    }
}

/// The routes of one family.
trait Routes: Address + FromStr {
    fn routes(network: &NetConfig) -> &[Route<Self>];
    fn add(network: &mut NetConfig, route: Route<Self>) -> Result<(), StateError>;
    fn remove(network: &mut NetConfig, to: addr::Prefix<Self>) -> Result<(), StateError>;
}

impl Routes for Ipv4Addr {
    fn routes(network: &NetConfig) -> &[Route<Self>] {
        network.routes4()
    }

    fn add(network: &mut NetConfig, route: Route<Self>) -> Result<(), StateError> {
        network.add_route(route)
    }

    fn remove(network: &mut NetConfig, to: addr::Prefix<Self>) -> Result<(), StateError> {
        network.remove_route_from(to, Origin::Static).map(drop)
    }
}

impl Routes for Ipv6Addr {
    fn routes(network: &NetConfig) -> &[Route<Self>] {
        network.routes6()
    }

    fn add(network: &mut NetConfig, route: Route<Self>) -> Result<(), StateError> {
        network.add_route(route)
    }

    fn remove(network: &mut NetConfig, to: addr::Prefix<Self>) -> Result<(), StateError> {
        network.remove_route(to).map(drop)
    }
}

fn set_of<A: Routes>(
    network: &mut NetConfig,
    to: addr::Prefix<A>,
    assignment: &Assignment,
) -> Result<(), Refusal> {
    let there = A::routes(network).iter().any(|r| r.to == to && r.origin == Origin::Static);
    if there {
        A::remove(network, to)?;
    } else if assignment.value == "none" {
        return Err(refused(assignment, "there is no such route").into());
    }
    let Some((way, name)) = way_of::<A>(assignment)? else { return Ok(()) };
    let iface = name.map(|name| interface::named(network, name, assignment)).transpose()?;
    Ok(A::add(network, Route { iface, ..Route::new(to, way) })?)
}

/// A way, and the name of the interface that it is by.
type NamedWay<'a, A> = (Way<A>, Option<&'a str>);

/// The routers or the interface of the destinations; `None` if the route is to be removed.
fn way_of<A: Routes>(assignment: &Assignment) -> Result<Option<NamedWay<'_, A>>, ApiError> {
    let value = assignment.value.as_str();
    if let Some((via, name)) = value.split_once('%') {
        return Ok(Some((
            Way::Via(parse(assignment, via, "the address of a router")?),
            Some(name),
        )));
    }
    Ok(Some(match value {
        "none" => return Ok(None),
        "unreachable" => (Way::Unreachable, None),
        "prohibited" => (Way::Prohibited, None),
        "blackhole" => (Way::Blackhole, None),
        _ => match (value.parse(), value.parse::<IpAddr>()) {
            (Ok(via), _) => (Way::Via(via), None),
            (_, Ok(_)) => return Err(refused(assignment, "the router is of the other family")),
            _ => (Way::OnLink, Some(value)),
        },
    }))
}
