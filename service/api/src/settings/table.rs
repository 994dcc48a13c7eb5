//! The entries.

use super::setting::Default::{self, None as Without, Value};
use super::setting::{Kind, Setting, TablePlace};

const PORT: Kind = Kind::Number(1, 65_535, "UDP port");

/// Every setting, in the order in which a file has them.
pub const TABLE: &[Setting] = &[
    interface("dev", Kind::Name, Without("required"), "\"eth0\"").doc(
        "The network device whose queues the stack uses. `ip link` lists the devices. With \
         `link = \"pcap\"`, the path of a capture file.",
    ),
    interface("link", Kind::Word(LINKS), Value("af-xdp"), "\"af-xdp\"").doc("The kind of link."),
    interface("addr", Kind::Prefix, Without("required without `dhcp`, `slaac` or `share = \"ports\"`"), "[\"192.0.2.10/24\", \"2001:db8::10/64\"]")
        .list()
        .path("interface.NAME.addr", "its addresses, or none; += and -= add and remove some")
        .doc(
            "The stack's own addresses, each with the length of its network's prefix; of both families. \
             The kernel must not have them on any interface.",
        ),
    interface("dhcp", Kind::Switch, Value("false"), "true")
        .doc("Get an IPv4 address and routes from a DHCP server."),
    interface("slaac", Kind::Switch, Value("false"), "true")
        .doc("Make IPv6 addresses and routes from router advertisements."),
    interface("mtu", Kind::Number(576, 65_535, "bytes"), Without("the device's limit"), "1500")
        .path("interface.NAME.mtu", "")
        .doc("Length of the longest IP packet to send. IPv6 needs 1280 or more."),
    interface("pace", Kind::Word(PACES), Value("recorded"), "\"recorded\"")
        .doc("How fast a capture file is replayed."),
    interface("groups", Kind::Address, Without("only those that IP needs"), "[\"239.1.2.3\", \"ff05::101\"]")
        .list()
        .path("interface.NAME.groups", "its multicast groups, or none; += and -= add and remove some")
        .doc("Multicast groups to join."),
    interface("vlan", Kind::Number(0, 4094, ""), Without("untagged frames, as with 0"), "5")
        .doc("The VLAN that the interface is in."),
    interface("share", Kind::Word(SHARES), Value("address"), "\"address\"")
        .doc("The packets that the stack takes from the device."),
    interface("nic", Kind::Nic, Value("xdp"), "\"auto\"").doc(
        "Where packets are sorted into the workers' queues, if there is a policy. `xdp`: a program in front \
         of the sockets, on any device. `auto`: the device's own filters if its driver has them and is \
         known, else the program. The name of a model: the device's own filters, which are as the model \
         says; the stack does not start if the device takes no rules.",
    ),
    interface("threads", Kind::Number(1, 256, "workers"), Without("each queue has one worker, for good"), "2")
        .path("queue.NAME.threads", "1 to the number of workers")
        .doc(
            "How many workers receive together from each queue of the device: with 1, queue *i* is that of \
             worker *i* modulo their number. With more, none idles while packets wait, and those of one flow \
             may be handled by several workers. Flows that a policy has given to a worker stay there.",
        ),
    interface("ordered", Kind::Switch, Value("false"), "true")
        .path("queue.NAME.ordered", "on or off")
        .doc(
            "Several workers on one queue (`threads`) send packets on in the order in which these came: a worker waits for \
             those that received before it, up to 10 ms, and counts when it goes first. All that it sends waits meanwhile, \
             also what came by other queues or from applications.",
        ),
    Setting { place: TablePlace::Interface, ..stack("name", Kind::Name, Without("the device's name, with the VLAN behind it: `eth0.5`"), "\"lan\"") }
        .doc("The interface's name."),
    stack("gateway", Kind::Address, Without("only hosts of the own networks are reached"), "[\"192.0.2.1\", \"2001:db8::1\"]")
        .list()
        .doc("The routers for all other networks, one of each family."),
    stack("forwarding", Kind::Switch, Value("false"), "false")
        .path("forwarding", "on or off")
        .doc("Forward packets between interfaces. Every interface needs `share = \"none\"`."),
    stack("redirects", Kind::Switch, Value("true"), "false")
        .path("redirects", "on or off")
        .doc("Send ICMP redirects to hosts that could use a better router on their own link."),
    stack("reverse-path", Kind::Word(REVERSE_PATHS), Value("none"), "\"loose\"")
        .path("reverse-path", "")
        .doc("How the source address of a packet to forward is checked (RFC 3704)."),
    stack("mode", Kind::Word(MODES), Value("adaptive"), "\"adaptive\"")
        .doc("How workers wait for packets."),
    stack("cores", Kind::Cores, Without("one worker, on the last core that the process may use"), "\"0-1\"")
        .list()
        .doc("The cores that workers run on, one worker on each: numbers or ranges."),
    stack("control", Kind::Path, Without("`/run/weever/DEVICE.sock`, or `$XDG_RUNTIME_DIR/weever/DEVICE.sock` for a user who may not write to `/run`"), "\"/run/weever/eth0.sock\"")
        .doc("The socket on which the stack takes control commands. See docs/control.md."),
    stack("state", Kind::Path, Without("`$STATE_DIRECTORY`, or `/var/lib/weever`"), "\"/var/lib/weever\"").doc(
        "The directory of the secret that IPv6 addresses are made with. It outlives the process, so that \
         a network sees the same addresses after every start.",
    ),
    stack("metrics", Kind::Endpoint, Without("no metrics are served"), "\"127.0.0.1:9464\"")
        .doc("Where Prometheus gets the counters: `/metrics` by HTTP, without a password."),
    stack("apps", Kind::Path, Without("applications are not served"), "\"/run/weever/apps.sock\"").doc(
        "The socket on which applications open queues and sockets. Root and the user of the stack's \
         process may connect. See docs/applications.md.",
    ),
    stack("apps-users", Kind::Number(0, u32::MAX, ""), Without("root and the user of the stack's process"), "1000")
        .list()
        .doc("Users, by number, whose applications may connect as well."),
    stack("apps-groups", Kind::Number(0, u32::MAX, ""), Without("no group"), "100")
        .list()
        .doc("Groups, by number, whose members' applications may connect: those that run with it as their group."),
    stack("apps-trusted", Kind::Number(0, u32::MAX, ""), Without("nobody"), "1000")
        .list()
        .doc(
            "Users, by number, whose applications work in the frames in which the stack receives and sends, so that no \
             payload is copied. They can read and rewrite every packet of the stack, and of each other. A \
             quarter of `pool.frames` is set aside for them. See docs/applications.md.",
        ),
    stack("apps-first-port", Kind::Number(1, 65535, "UDP port"), Value("1024"), "1")
        .doc("The first port that applications of others than root may bind."),
    stack("apps-memory", Kind::Number(1, 1 << 24, "MiB"), Value("8192"), "256").doc(
        "The most memory that applications' queues have together. It is taken as they use it.",
    ),
    stack("apps-ephemeral", Kind::Ports, Without("`49152-65535`; with `share = \"ports\"`, `61000-63999`"), "\"61000-63999\"").doc(
        "The ports that applications' sockets and connections get where they ask for none. With \
         `share = \"ports\"` the kernel leaves them alone (`ip_local_reserved_ports`), and the stack does \
         not start while a kernel socket has one of them.",
    ),
    stack("apps-keep", Kind::Number(0, 86_400, "seconds"), Value("60"), "600").doc(
        "With `share = \"ports\"`: how long the kernel answers nothing for the ports of applications when \
         the stack ends, however it does, and after it has started, until applications have bound them \
         again. `weever release` ends it. 0: the ports are the kernel's at once.",
    ),
    stack("policy", Kind::Path, Without("worker *i* has the device's queues *i*, *i* + workers, …"), "\"policy.toml\"").doc(
        "The policy that says which worker gets which flow. Each worker then has a socket on every queue \
         of the device. See docs/policies.md.",
    ),
    stack("flows", Kind::Path, Without("no flow is known before it is seen"), "\"flows.txt\"")
        .doc("Flows that are known before they are seen, for the policy. See docs/plan.md."),
    stack("probe", Kind::Switch, Value("true"), "false").doc(
        "Ask the network by ARP, before an IPv4 address is taken, whether another host has it. The \
         question takes a third of a second.",
    ),
    stack("drop-privileges", Kind::Switch, Value("true"), "false").doc(
        "Give up, once started, the capabilities and system calls that a running stack does not need. See \
         docs/security.md.",
    ),
    stack("services.echo", PORT, Without("the service does not run"), "7")
        .path("services.echo", "a UDP port, or none")
        .doc("UDP port of the echo service, which sends every datagram back (RFC 862)."),
    stack("services.discard", PORT, Without("the service does not run"), "9")
        .path("services.discard", "a UDP port, or none")
        .doc("UDP port of the discard service, which counts datagrams and answers none (RFC 863)."),
    stack("services.tcp-echo", PORT, Without("the service does not run"), "7")
        .path("services.tcp-echo", "a TCP port, or none")
        .doc("TCP port of the echo service, which sends every octet back (RFC 862)."),
    stack("services.tcp-discard", PORT, Without("the service does not run"), "9")
        .path("services.tcp-discard", "a TCP port, or none")
        .doc("TCP port of the discard service, which reads octets and sends none (RFC 863)."),
    stack("pool.frames", Kind::Number(1024, 4_194_304, "frames"), Value("16384"), "16384")
        .doc("How many buffers for packets there are."),
    stack("pool.frame-size", Kind::Number(2048, 4096, "bytes"), Value("2048"), "2048")
        .doc("Size of a buffer: 2048, or 4096 for a device whose MTU needs it."),
    stack("pool.huge-pages", Kind::Switch, Value("true"), "false")
        .doc("Use huge pages for the buffers, if the system has some reserved."),
    stack("pool.node", Kind::Number(0, 1023, ""), Without("the kernel's choice"), "0")
        .doc("The NUMA node whose memory the buffers are in: best that of the device."),
    repeated("route.to", Kind::Prefix, Without("required"), "\"198.51.100.0/24\"")
        .doc("The network that the route leads to."),
    repeated("route.via", Kind::Address, Without("the hosts of the network are neighbours on `interface`"), "\"192.0.2.254\"")
        .doc("The router, a host of one of the stack's own networks."),
    repeated("route.interface", Kind::Name, Without("the one whose network the router is in"), "\"lan\"")
        .doc("The name of the interface that leads there."),
    repeated("neighbour.addr", Kind::Address, Without("required"), "\"192.0.2.7\"")
        .doc("The address of a neighbour whose Ethernet address is fixed."),
    repeated("neighbour.mac", Kind::Mac, Without("required"), "\"02:00:00:00:00:07\"")
        .doc("Its Ethernet address, which is not asked for."),
    running("interface.NAME.up", Kind::Switch, "on or off").doc("Use the interface, or do not."),
    running("interface.NAME.forwarding", Kind::Switch, "on or off")
        .doc("Forward packets that the interface receives."),
    running("route.PREFIX", Kind::Name, "a router, a router%interface, an interface, unreachable, prohibited, blackhole, or none")
        .doc("The route to a network."),
    running("node.NODE.PARAMETER", Kind::Name, "as the block's documentation says")
        .doc("A parameter of a node of the graph. See docs/blocks.md."),
];

const LINKS: &[(&str, &str)] = &[
    ("af-xdp", "a network device whose queues are taken over AF_XDP"),
    ("tap", "a TAP device, which is made unless it is there"),
    ("pcap", "a capture file: its packets are received, and sent ones are discarded"),
];
const PACES: &[(&str, &str)] =
    &[("recorded", "with the times of the recording"), ("unpaced", "as fast as it is received")];
const SHARES: &[(&str, &str)] = &[
    ("address", "ARP, ND and IP packets for the stack's addresses; the kernel keeps the rest"),
    (
        "ports",
        "packets for the kernel's own addresses and the ports of services and applications; the kernel keeps \
         the rest, and the stack has its addresses, routes and neighbours. `addr`, `dhcp`, `slaac`, `groups` and `vlan` \
         are refused with it",
    ),
    ("none", "everything; the kernel receives nothing from this device while the stack runs"),
];
const REVERSE_PATHS: &[(&str, &str)] = &[
    ("none", "not at all"),
    ("loose", "there must be a route to it"),
    ("strict", "the route to it must lead out where the packet came in"),
];
const MODES: &[(&str, &str)] = &[
    ("busy", "they never sleep: the shortest delay, on a core of their own"),
    ("adaptive", "they spin for 50 µs after the last packet, and then sleep"),
    ("interrupt", "they sleep whenever there is nothing to do: for shared cores"),
];

const fn stack(key: &'static str, kind: Kind, default: Default, example: &'static str) -> Setting {
    let (is_list, path, path_values, doc) = (false, "", "", "");
    let place = TablePlace::Stack;
    Setting { key, place, kind, is_list, default, example, path, path_values, doc }
}

const fn interface(
    key: &'static str,
    kind: Kind,
    default: Default,
    example: &'static str,
) -> Setting {
    Setting { place: TablePlace::Interface, ..stack(key, kind, default, example) }
}

const fn repeated(
    key: &'static str,
    kind: Kind,
    default: Default,
    example: &'static str,
) -> Setting {
    Setting { place: TablePlace::Repeated, ..stack(key, kind, default, example) }
}

/// A setting that can only be set while the stack runs.
const fn running(path: &'static str, kind: Kind, values: &'static str) -> Setting {
    let setting = stack("", kind, Without(""), "");
    Setting { place: TablePlace::Nowhere, ..setting }.path(path, values)
}

impl Setting {
    const fn doc(self, doc: &'static str) -> Setting {
        Setting { doc, ..self }
    }

    const fn list(self) -> Setting {
        Setting { is_list: true, ..self }
    }

    const fn path(self, path: &'static str, path_values: &'static str) -> Setting {
        Setting { path, path_values, ..self }
    }
}
