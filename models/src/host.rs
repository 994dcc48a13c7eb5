//! The host's graph and its sockets.

use std::collections::HashSet;
use std::net::IpAddr;

use weever_graph::change::{Change, EdgeName, Outlet, Waiting};
use weever_graph::{
    Attr, ChangeError, ChangeSet, ConfigError, ConfigValue, Entry, Field, Graph, Key, Node, NodeId,
    TableSpec, apply, configure,
};
use weever_unicorn::{Errors, load};

use crate::{HOST, Model};

/// The config node that becomes the socket table.
const SOCKETS: &str = "RxL4UDPSockets";
/// The node of the TCP endpoint.
const TCP: &str = "RxL4TCPEndpoint";
/// Every address and port that one host can have open, and more.
const CAPACITY: usize = 1 << 20;
/// The attribute of nodes that only applications need.
const FOR_APPLICATIONS: &str = "for applications";
/// The port of such a node by which packets for no application go on.
const MISS: &str = "miss";
/// Where DHCP servers send to (RFC 2131 §4.1).
const DHCP_CLIENT: u16 = 68;

/// The service of a socket: the port of the socket table by which its datagrams leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Service {
    /// Datagrams are sent back (RFC 862).
    Echo,
    /// Datagrams are thrown away (RFC 863).
    Discard,
    /// The DHCP client, on port 68; see [`HostConfig::with_dhcp`].
    Dhcp,
}

impl Service {
    /// The name of its port in the socket table.
    pub fn port(self) -> &'static str {
        match self {
            Service::Echo => "echo",
            Service::Discard => "discard",
            Service::Dhcp => "dhcp",
        }
    }
}

/// A UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Socket {
    /// The local address; `None`: any of ours, broadcast addresses included.
    pub addr: Option<IpAddr>,
    /// The local port.
    pub port: u16,
    /// Its service.
    pub service: Service,
}

/// The configuration of the host's graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// Its UDP sockets. A datagram goes to the one with its very address, before one with any; its
    /// metadata then has the socket's position here as `entry`.
    pub sockets: Vec<Socket>,
    /// The TCP port of the echo service.
    pub tcp_echo: Option<u16>,
    /// The TCP port of the discard service.
    pub tcp_discard: Option<u16>,
    /// Whether it serves applications. Otherwise the nodes that only they need are left out.
    pub applications: bool,
}

impl HostConfig {
    /// A host with one socket on any of its addresses.
    pub fn serving(service: Service, port: u16) -> HostConfig {
        HostConfig::default().and(service, port)
    }

    /// The same for a host that serves applications, or does not.
    #[must_use]
    pub fn with_applications(self, applications: bool) -> HostConfig {
        HostConfig { applications, ..self }
    }

    /// The same with the socket on which DHCP clients hear servers; the client's tasks are requested
    /// elsewhere, at run time.
    #[must_use]
    pub fn with_dhcp(self) -> HostConfig {
        self.and(Service::Dhcp, DHCP_CLIENT)
    }

    /// The same with one more socket on any address.
    #[must_use]
    pub fn and(mut self, service: Service, port: u16) -> HostConfig {
        self.sockets.push(Socket { addr: None, port, service });
        self
    }
}

/// Why a model could not be made ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Its text is no graph; a bug of the model.
    #[error("model {file}: {errors}")]
    Text {
        /// The model.
        file: &'static str,
        /// The mistake.
        errors: Errors,
    },
    /// A config node does not take its value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The nodes for applications cannot be left out.
    #[error("without applications: {0}")]
    Applications(#[from] ChangeError),
    /// There is no TCP endpoint for the TCP services.
    #[error("TCP services: {0}")]
    Tcp(#[source] ChangeError),
    /// Two sockets have the same address and port.
    #[error("two sockets on UDP port {port} of {}: give one another port or address", any_or(addr))]
    AddressInUse {
        /// The address, if they have one.
        addr: Option<IpAddr>,
        /// The port.
        port: u16,
    },
    /// A socket cannot have port 0.
    #[error("a socket on UDP port 0: use 1 to 65535")]
    PortZero,
}

fn any_or(addr: &Option<IpAddr>) -> String {
    addr.map_or("any address".into(), |addr| addr.to_string())
}

/// The host's graph with these sockets, ready to be annotated and verified.
///
/// # Errors
/// If two sockets clash, or one has port 0.
pub fn host(config: &HostConfig) -> Result<Graph, ModelError> {
    with_sockets(parse(HOST)?, config)
}

/// A given host graph with these sockets: its config node for them gets its
/// value.
///
/// # Errors
/// If the graph has no such node, two sockets clash, or one has port 0.
pub fn with_sockets(mut graph: Graph, config: &HostConfig) -> Result<Graph, ModelError> {
    check(&config.sockets)?;
    let table = {
        let node = graph.find(SOCKETS).ok_or_else(|| ConfigError::NoNode(SOCKETS.into()))?;
        socket_table(graph.node(node), &config.sockets)?
    };
    configure(&mut graph, SOCKETS, ConfigValue::Table(table))?;
    let graph = with_tcp_services(graph, config)?;
    if config.applications { Ok(graph) } else { without_applications(&graph) }
}

/// The graph whose TCP endpoint has the ports of the services.
fn with_tcp_services(graph: Graph, config: &HostConfig) -> Result<Graph, ModelError> {
    let set = |(key, port): (&str, Option<u16>)| {
        let (node, key, value) = (TCP.to_owned(), key.to_owned(), port?.to_string());
        Some(Change::Set { node, key, value })
    };
    let services = [("echo", config.tcp_echo), ("discard", config.tcp_discard)];
    let changes: Vec<Change> = services.into_iter().filter_map(set).collect();
    if changes.is_empty() {
        return Ok(graph);
    }
    apply(&graph, &ChangeSet { changes }).map_err(ModelError::Tcp)
}

/// The graph without the nodes that only applications need.
fn without_applications(graph: &Graph) -> Result<Graph, ModelError> {
    let is_theirs = |node: &Node| {
        node.attrs.iter().any(|attr| matches!(attr, Attr::Other(text) if text == FOR_APPLICATIONS))
    };
    let mut changes = Vec::new();
    for (_, node) in graph.iter().filter(|(_, node)| !is_theirs(node)) {
        for port in &node.ports {
            for target in &port.targets {
                let passed_on = node_behind(graph, *target, is_theirs);
                let bind = |to: &str| Change::Bind {
                    edge: EdgeName::new(&node.name, Outlet::port(&port.name), to),
                    predicates: Vec::new(),
                };
                changes.extend(passed_on.map(|to| bind(&graph.node(to).name)));
            }
        }
    }
    let theirs = graph.iter().filter(|(_, node)| is_theirs(node));
    let remove = |node: &Node| Change::Remove { node: node.name.clone(), waiting: Waiting::Drop };
    changes.extend(theirs.map(|(_, node)| remove(node)));
    Ok(apply(graph, &ChangeSet { changes })?)
}

/// The target to which the node at `target` passes packets that it does not use, past others of its
/// kind; nothing when the node stays, or passes nothing on.
fn node_behind(graph: &Graph, target: NodeId, goes: impl Fn(&Node) -> bool) -> Option<NodeId> {
    let mut at = target;
    // Dataflow has no cycles.
    while goes(graph.node(at)) {
        let node = graph.node(at);
        at = *node.ports[node.port(MISS)?].targets.first()?;
    }
    (at != target).then_some(at)
}

/// A model's graph, not configured.
pub(crate) fn parse(model: Model) -> Result<Graph, ModelError> {
    let loaded = load(model.source, model.file);
    Ok(loaded.map_err(|errors| ModelError::Text { file: model.file, errors })?.graph)
}

fn check(sockets: &[Socket]) -> Result<(), ModelError> {
    let mut seen = HashSet::new();
    for Socket { addr, port, .. } in sockets.iter().copied() {
        if port == 0 {
            return Err(ModelError::PortZero);
        }
        if !seen.insert((addr, port)) {
            return Err(ModelError::AddressInUse { addr, port });
        }
    }
    Ok(())
}

fn socket_table(node: &Node, sockets: &[Socket]) -> Result<TableSpec, ConfigError> {
    let port = |name: &str| {
        let missing = || ConfigError::NoPort {
            node: node.name.clone(),
            port: name.into(),
            known: node.ports.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", "),
        };
        node.port(name).map(|port| port as u32).ok_or_else(missing)
    };
    // Most hosts' sockets have no IPv6 address, which makes the keys shorter.
    let fields = match sockets.iter().any(|socket| socket.addr.is_some_and(|a| a.is_ipv6())) {
        true => vec![Field::Ip4Dst, Field::L4Dst, Field::Ip6Dst],
        false => vec![Field::Ip4Dst, Field::L4Dst],
    };
    let entry = |(id, socket): (usize, &Socket)| {
        let keys = fields.iter().map(|field| match (field, socket.addr) {
            (Field::L4Dst, _) => exact(*field, socket.port.into()),
            (Field::Ip4Dst, Some(IpAddr::V4(v4))) => exact(*field, v4.to_bits().into()),
            (Field::Ip6Dst, Some(IpAddr::V6(v6))) => exact(*field, v6.to_bits()),
            _ => ANY,
        });
        let keys = keys.collect();
        let priority = u32::from(socket.addr.is_some());
        Ok(Entry { id: id as u32, keys, priority, port: port(socket.service.port())? })
    };
    let entries: Result<_, ConfigError> = sockets.iter().enumerate().map(entry).collect();
    let entries = entries?;
    Ok(TableSpec { fields, entries, miss: port("miss")?, capacity: CAPACITY })
}

const ANY: Key = Key { mask: 0, value: 0 };

fn exact(field: Field, value: u128) -> Key {
    Key { mask: field.full_mask(), value }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use weever_graph::NodeKind;

    #[test]
    fn sockets_become_entries() {
        let own =
            Socket { addr: Some(Ipv4Addr::LOCALHOST.into()), port: 7, service: Service::Discard };
        let mut config = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 9);
        config.sockets.push(own);
        let graph = host(&config).unwrap();
        let node = graph.node(graph.find(SOCKETS).unwrap());
        let NodeKind::Table(table) = &node.kind else { panic!("not a table") };
        let ports: Vec<u32> = table.entries.iter().map(|e| e.port).collect();
        assert_eq!(ports, [0, 1, 1]);
        assert_eq!(table.entries[2].keys[0].value, 0x7f00_0001);
        assert!(table.entries[2].priority > table.entries[0].priority);
    }

    #[test]
    fn a_socket_of_an_ipv6_address_has_it_in_its_key() {
        let addr = Ipv6Addr::LOCALHOST;
        let own = Socket { addr: Some(addr.into()), port: 7, service: Service::Discard };
        let mut config = HostConfig::serving(Service::Echo, 7);
        config.sockets.push(own);
        let graph = host(&config).unwrap();
        let NodeKind::Table(table) = &graph.node(graph.find(SOCKETS).unwrap()).kind else {
            panic!("not a table")
        };
        assert_eq!(table.fields, [Field::Ip4Dst, Field::L4Dst, Field::Ip6Dst]);
        let values: Vec<u128> = table.entries[1].keys.iter().map(|key| key.value).collect();
        assert_eq!(values, [0, 7, addr.to_bits()]);
        config.sockets.push(own);
        assert!(host(&config).unwrap_err().to_string().contains("of ::1"));
    }

    #[test]
    fn what_only_applications_need_is_left_out_without_them() {
        let with = host(&HostConfig::default().with_applications(true)).unwrap();
        let without = host(&HostConfig::default()).unwrap();
        let names = |graph: &Graph| -> HashSet<String> {
            graph.iter().map(|(_, node)| node.name.clone()).collect()
        };
        let mut gone: Vec<String> = names(&with).difference(&names(&without)).cloned().collect();
        gone.sort();
        let theirs = [
            "RxL3ICMP6Applications",
            "RxL3ICMPApplications",
            "RxL4UDPApplications",
            "RxL4UDPDeliver",
            "TxL3Loopback",
            "TxL4UDPApplications",
            "TxL4UDPRefused",
        ];
        assert_eq!(gone, theirs);
        let sockets = without.node(without.find(SOCKETS).unwrap());
        let missed = &sockets.ports[sockets.port("miss").unwrap()].targets;
        let names: Vec<&str> = missed.iter().map(|id| &*without.node(*id).name).collect();
        assert_eq!(names, ["RxL4UDPClosedPort"]);
    }

    #[test]
    fn sockets_that_clash_are_refused() {
        let twice = HostConfig::serving(Service::Echo, 7).and(Service::Discard, 7);
        let error = host(&twice).unwrap_err().to_string();
        assert_eq!(
            error,
            "two sockets on UDP port 7 of any address: give one another port or address"
        );
        assert!(matches!(host(&HostConfig::serving(Service::Echo, 0)), Err(ModelError::PortZero)));
    }
}
