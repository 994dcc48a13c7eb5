//! The routes beside the connected ones, of either family.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::StateError;
use crate::addr::{Address, Prefix};
use crate::route::{Origin, Route, Way};

/// Adds a route, unless it is the `same` as one that is there. `gateway_is_near`: its gateway is on a
/// subnet of ours, so that its interface need not be named.
///
/// # Errors
/// [`StateError::GatewayOffLink`], [`StateError::NoWay`], [`StateError::RouteExists`].
pub(super) fn add<A: Address>(
    routes: &mut Vec<Route<A>>,
    route: Route<A>,
    gateway_is_near: bool,
    same: impl Fn(&Route<A>, &Route<A>) -> bool,
) -> Result<(), StateError> {
    let route = Route { to: route.to.network(), ..route };
    match (route.way, route.iface) {
        (Way::Via(gateway), None) if !gateway_is_near => {
            return Err(StateError::GatewayOffLink { gateway: gateway.to_string() });
        }
        (Way::OnLink, None) => return Err(StateError::NoWay { to: route.to.to_string() }),
        _ => {}
    }
    if routes.iter().any(|other| same(other, &route)) {
        return Err(StateError::RouteExists { to: route.to.to_string(), metric: route.metric });
    }
    routes.push(route);
    Ok(())
}

/// Removes the first route to exactly these destinations, an operator's before others.
///
/// # Errors
/// [`StateError::RouteMissing`].
pub(super) fn remove<A: Address>(
    routes: &mut Vec<Route<A>>,
    to: Prefix<A>,
) -> Result<Route<A>, StateError> {
    let to = to.network();
    let operators = |route: &Route<A>| route.to == to && route.origin == Origin::Static;
    let at = routes.iter().position(operators);
    let at = at.or_else(|| routes.iter().position(|route| route.to == to));
    let at = at.ok_or_else(|| StateError::RouteMissing { to: to.to_string() })?;
    Ok(routes.remove(at))
}
