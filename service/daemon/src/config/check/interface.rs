//! Interfaces: each in itself, and beside each other.

use std::net::IpAddr;
use std::path::Path;

use super::super::error::Problems;
use super::super::settings::{Settings, Table};
use super::super::{Config, ConfigError, Interface, LinkKind, NicChoice, Prefix, Share};
use super::reach::unfit_for_host;

/// Longest name of a device in bytes (IFNAMSIZ less the terminating zero).
const LONGEST_NAME: usize = 15;

/// Every network takes a datagram of this many bytes: RFC 791 §3.2, of IPv6 RFC 8200 §5.
pub(crate) const fn shortest_mtu(speaks_v6: bool) -> u16 {
    if speaks_v6 { 1280 } else { 576 }
}

impl Config {
    /// The name of an interface that takes only packets for its own addresses, if there is
    /// one: on a device that is shared with the kernel.
    pub(crate) fn interface_for_itself(&self) -> Option<&str> {
        let shared = |i: &&Interface| i.link == LinkKind::AfXdp && i.share != Share::None;
        self.interfaces.iter().find(shared).map(|i| i.name.as_str())
    }
}

impl Interface {
    /// An interface with the defaults, on a device (or a link of that name).
    pub fn new(dev: impl Into<String>, addresses: Vec<Prefix>) -> Interface {
        Interface { addresses, ..Interface::with(dev.into(), &Table::default()) }
    }

    /// An interface as its table is written; nothing is checked yet.
    fn with(dev: String, table: &Table) -> Interface {
        Interface {
            name: dev.clone(),
            dev,
            link: table.get("link"),
            vlan: table.find("vlan").filter(|id| *id != 0),
            addresses: table.list("addr"),
            dhcp: table.get("dhcp"),
            slaac: table.get("slaac"),
            mtu: table.find("mtu"),
            pace: table.get("pace"),
            groups: table.list("groups"),
            share: table.get("share"),
            nic: table.get("nic"),
            threads: table.find("threads"),
            ordered: table.get("ordered"),
        }
    }

    /// The first IPv4 address, if there is one.
    pub fn first_v4(&self) -> Option<weever_net::addr::Cidr> {
        self.addresses.iter().find_map(|address| address.v4())
    }

    /// Whether it speaks IPv6.
    pub fn has_v6(&self) -> bool {
        self.slaac || self.addresses.iter().any(|address| address.addr().is_ipv6())
    }
}

/// Every interface that settings describe: the first by keys at the top, others by tables. The keys at
/// the top may be missing if there are tables.
pub(super) fn all(settings: &Settings, problems: &mut Problems) -> Vec<Interface> {
    let (top, tables) = (&settings.top, settings.tables("interface"));
    let first = (top.describes_an_interface() || tables.is_empty()).then_some(("", top));
    let others = tables.iter().map(|table| ("interface.", table));
    let read = |(at, table)| interface(at, table, problems);
    let interfaces: Vec<Interface> = first.into_iter().chain(others).map(read).collect();
    for (i, interface) in interfaces.iter().enumerate() {
        beside(interface, &interfaces[..i], problems);
    }
    interfaces
}

/// The interface of one table; `at` comes before its keys in messages.
fn interface(at: &str, table: &Table, problems: &mut Problems) -> Interface {
    let mut interface = Interface::with(table.find("dev").unwrap_or_default(), table);
    if !table.has("dev") {
        let remedy = "give `--dev eth0`, or `dev = \"eth0\"` in the configuration";
        problems.note(Err(ConfigError::Missing { key: "dev", remedy }));
    } else if interface.link == LinkKind::Pcap {
        let file = table.path("dev").unwrap_or_default();
        interface.name = name_of_file(&interface.dev);
        interface.dev = file.to_string_lossy().into_owned();
    } else {
        let remedy = "`ip link` lists the devices there are";
        problems.note(check_name(&format!("{at}dev"), &interface.dev, remedy));
    }
    if let Some(id) = interface.vlan {
        interface.name = format!("{}.{id}", interface.name);
    }
    if let Some(name) = table.find("name") {
        interface.name = name;
        let remedy = "give a name such as lan or eth0.5";
        problems.note(check_name(&format!("{at}name"), &interface.name, remedy));
    }
    addresses(at, &interface, problems);
    groups(at, &interface, problems);
    mtu(at, &interface, problems);
    interface
}

/// The part of a path that could be a device's name.
fn name_of_file(path: &str) -> String {
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    let fit = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = stem.chars().filter(fit).take(LONGEST_NAME).collect();
    if name.is_empty() { "pcap".into() } else { name }
}

/// Whether a device can be called this.
fn check_name(key: &str, name: &str, remedy: &str) -> Result<(), ConfigError> {
    let bad = |problem: &str| Err(ConfigError::invalid(key, format!("{name:?}"), problem, remedy));
    if name.len() > LONGEST_NAME {
        bad("a device's name has 15 bytes at most")
    } else if name == "." || name == ".." || name.contains(['/', ':', '\0', ' ', '=']) {
        bad("a device's name has no `/`, `:`, `=` or space")
    } else {
        Ok(())
    }
}

fn addresses(at: &str, interface: &Interface, problems: &mut Problems) {
    let given = &interface.addresses;
    if interface.share == Share::Ports {
        return borrows(at, interface, problems);
    }
    if given.is_empty() && !interface.dhcp && !interface.slaac {
        let remedy = "give `--addr 192.0.2.10/24`, or `addr = \"192.0.2.10/24\"` in the \
                      configuration, or have one given: `--dhcp`, `--slaac`";
        problems.note(Err(ConfigError::Missing { key: "addr", remedy }));
    }
    let key = format!("{at}addr");
    for (i, address) in given.iter().enumerate() {
        if let Some(problem) = unfit_for_host(*address) {
            problems.add(&key, address, problem, "give an address of a host of the network");
        }
        if given[..i].iter().any(|other| other.addr() == address.addr()) {
            problems.add(&key, address, "it is there twice", "keep one of the two");
        }
    }
}

/// Refuses settings that the kernel controls in this mode of sharing.
fn borrows(at: &str, interface: &Interface, problems: &mut Problems) {
    let mut refuse = |key: &str, value: &dyn ToString, remedy: &str| {
        let problem = "share = \"ports\" leaves that to the kernel";
        problems.add(&format!("{at}{key}"), value.to_string(), problem, remedy);
    };
    for address in &interface.addresses {
        refuse(
            "addr",
            address,
            &format!("leave it out: `ip addr add {address} dev {}`", interface.dev),
        );
    }
    for group in &interface.groups {
        refuse("groups", group, "leave it out, or take the whole device");
    }
    if interface.dhcp {
        refuse("dhcp", &true, "leave it out: the kernel's addresses are taken over");
    }
    if interface.slaac {
        refuse("slaac", &true, "leave it out: the kernel's addresses are taken over");
    }
    if let Some(vlan) = interface.vlan {
        refuse("vlan", &vlan, "use another `share` on devices with VLANs");
    }
    if interface.link != LinkKind::AfXdp {
        refuse("link", &interface.link, "share network devices only");
    }
}

fn groups(at: &str, interface: &Interface, problems: &mut Problems) {
    for group in interface.groups.iter().filter(|group| !group.is_multicast()) {
        let remedy = "give groups of 224.0.0.0/4 or ff00::/8";
        problems.add(&format!("{at}groups"), group, "it is no multicast group", remedy);
    }
}

fn mtu(at: &str, interface: &Interface, problems: &mut Problems) {
    let shortest = shortest_mtu(interface.has_v6());
    if let Some(mtu) = interface.mtu.filter(|mtu| *mtu < shortest) {
        let remedy = format!("use {shortest} or more");
        problems.add(&format!("{at}mtu"), mtu, "IP needs more than that", &remedy);
    }
}

/// Packets to forward are for no address of ours: a device that shares by address leaves them to
/// the kernel, and forwarding would silently do nothing.
pub(super) fn check_forwarding(config: &Config, problems: &mut Problems) {
    if let Some(name) = config.interface_for_itself().filter(|_| config.forwarding) {
        let problem = format!("{name} leaves packets for others to the kernel");
        let remedy = "give every interface `share = \"none\"`";
        problems.add("forwarding", true, &problem, remedy);
    }
}

/// A device's own filters are for policies.
pub(super) fn check_filters(config: &Config, problems: &mut Problems) {
    for Interface { nic, link, .. } in &config.interfaces {
        let mut refuse = |problem: &str, remedy: &str| problems.add("nic", nic, problem, remedy);
        if *nic == NicChoice::Xdp {
            continue;
        }
        if *link != LinkKind::AfXdp {
            refuse("only network devices have filters", "leave it out, or use `link = \"af-xdp\"`");
        } else if config.policy.is_none() {
            refuse("there is no policy to carry out", "leave it out, or give `policy = \"FILE\"`");
        }
    }
}

/// Several workers on one queue.
pub(super) fn check_threads(config: &Config, problems: &mut Problems) {
    let workers = config.cores.len().max(1);
    for Interface { threads, ordered, link, .. } in &config.interfaces {
        let Some(threads) = *threads else {
            if *ordered {
                let problem = "each queue has one worker, which sends in order anyway";
                let remedy = "leave it out, or give `threads`; a policy has it in `[sharing]`";
                problems.add("ordered", ordered, problem, remedy);
            }
            continue;
        };
        let mut refuse = |problem: &str, remedy: &str| {
            problems.add("threads", threads, problem, remedy);
        };
        if *link != LinkKind::AfXdp {
            let remedy = "leave it out, or use `link = \"af-xdp\"`";
            refuse("only queues of network devices can be shared", remedy);
        } else if usize::from(threads) > workers {
            let problem = format!("there are {workers} workers");
            refuse(&problem, "use no more threads, or give as many `cores`");
        }
    }
}

/// Refuses settings that clash with those of an `earlier` interface.
fn beside(interface: &Interface, earlier: &[Interface], problems: &mut Problems) {
    let Interface { name, dev, .. } = interface;
    let has = |addr: IpAddr| {
        move |other: &Interface| other.addresses.iter().any(|address| address.addr() == addr)
    };
    if earlier.iter().any(|other| other.name == *name) {
        problems.add("interface.name", name, "another interface has it", "give it one of its own");
    }
    for address in &interface.addresses {
        if earlier.iter().any(has(address.addr())) {
            let problem = "another interface has it";
            problems.add("interface.addr", address, problem, "keep it on one of the two");
        }
    }
    let siblings = || earlier.iter().filter(|other| other.dev == *dev);
    if siblings().any(|other| other.vlan == interface.vlan && other.name != *name) {
        let problem = "another interface is on this device and in this VLAN";
        problems.add("interface.dev", dev, problem, "give one of them all addresses");
    }
    if siblings().any(|other| other.share != interface.share || other.link != interface.link) {
        let problem = "interfaces of one device share it in different ways";
        problems.add("interface.share", dev, problem, "give them the same `share` and `link`");
    }
    if siblings().any(|other| other.threads != interface.threads) {
        let problem = "interfaces of one device have different numbers of threads on its queues";
        problems.add("interface.threads", dev, problem, "give them the same `threads`");
    }
    if siblings().any(|other| other.ordered != interface.ordered) {
        let problem = "interfaces of one device differ in whether its workers keep order";
        problems.add("interface.ordered", dev, problem, "give them the same `ordered`");
    }
    if siblings().any(|other| other.nic != interface.nic) {
        let problem = "interfaces of one device have it sorted in different ways";
        problems.add("interface.nic", dev, problem, "give them the same `nic`");
    }
}
