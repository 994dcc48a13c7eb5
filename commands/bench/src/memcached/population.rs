//! The clients, as in the paper: their number, their classes and their flows.

/// Clients that are there from the beginning, the high-priority ones first; then the two that join.
pub(super) const HIGH: usize = 2;
pub(super) const BEST_EFFORT: usize = 18;
pub(super) const FIRST: usize = HIGH + BEST_EFFORT;
pub(super) const NEW_BEST_EFFORT: usize = FIRST;
pub(super) const NEW_HIGH: usize = FIRST + 1;
/// Flows of a client, each with one request in flight.
pub(super) const IN_FLIGHT: usize = 16;

/// Every flow has a worker by turns.
pub(super) const BALANCE: &str = "objective = \"balance\"\n";
/// One worker is for the flows of the high-priority class alone.
pub(super) const ISOLATE: &str = "objective = \"balance\"\n[[class]]\nname = \"high\"\n\
    match = \"udp src portrange 4000-4999\"\nqueues = { exclusive = 1 }\npriority = 1\n";

/// Whether a client is of the high-priority class.
pub(super) fn is_high(client: usize) -> bool {
    client < HIGH || client == NEW_HIGH
}

/// The port of a flow, which tells its class.
pub(super) fn port(client: usize, flow: usize) -> u16 {
    let first = if is_high(client) { 4000 } else { 5000 };
    first + (client * IN_FLIGHT + flow) as u16
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_flow_has_a_port_of_its_class() {
        let flows =
            (0..FIRST + 2).flat_map(|client| (0..IN_FLIGHT).map(move |flow| (client, flow)));
        let ports: HashSet<u16> = flows.clone().map(|(client, flow)| port(client, flow)).collect();
        assert_eq!(ports.len(), (FIRST + 2) * IN_FLIGHT);
        for (client, flow) in flows {
            assert_eq!((4000..=4999).contains(&port(client, flow)), is_high(client), "{client}");
        }
    }
}
