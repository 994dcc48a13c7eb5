//! Kinds of packets: the fields that a packet has, and the fields that its kind determines.
//!
//! Every well-formed packet is of exactly one kind. Given the kind, the remaining fields are
//! independent of each other, which makes questions about conjunctions exact and cheap.
//! A packet with a later fragment of an IPv4 datagram has no ports; the inner protocol of an IPv6
//! packet is its `next header`.

use weever_graph::Field;
use weever_graph::nic::{FlowType, TableModel};

/// A set of kinds of packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kinds(u64);

/// Kinds of untagged packets; the tagged ones are `TAG` bits further up.
const ARP: u64 = 1;
const OTHER_ETHER: u64 = 1 << 1;
/// TCP, UDP, SCTP, ICMP, others.
const IP4_WHOLE: u64 = 0b11111 << 2;
const IP4_LATER: u64 = 0b11111 << 7;
const IP6: u64 = 0b11111 << 12;
const TAG: u32 = 17;
const UNTAGGED: u64 = (1 << TAG) - 1;

/// The offsets of the transports within a group of five.
const TCP: u64 = 1;
const UDP: u64 = 1 << 1;
const SCTP: u64 = 1 << 2;
const ICMP: u64 = 1 << 3;
const OTHER: u64 = 1 << 4;

/// The possible values of a field in packets of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// One of these.
    OneOf(&'static [u128]),
    /// Any but these.
    AllBut(&'static [u128]),
}

const fn both(untagged: u64) -> u64 {
    untagged | untagged << TAG
}

const fn in_groups(transports: u64) -> u64 {
    (transports << 2) | (transports << 7) | (transports << 12)
}

impl Kinds {
    /// Every kind.
    pub const ALL: Kinds = Kinds(both(UNTAGGED));
    /// No kind.
    pub const NONE: Kinds = Kinds(0);
    /// IPv4.
    pub const IP4: Kinds = Kinds(both(IP4_WHOLE | IP4_LATER));
    /// IPv6.
    pub const IP6: Kinds = Kinds(both(IP6));

    /// IPv6 whose next header is none of the transports: another protocol, or an extension header
    /// behind which any protocol may stand.
    pub(crate) const IP6_OTHER: Kinds = Kinds(both(OTHER << 12));

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The number of kinds.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// The kinds in both sets.
    #[must_use]
    pub fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    /// The kinds in either set.
    #[must_use]
    pub fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// The kinds in `self` that are not in `other`.
    #[must_use]
    pub fn without(self, other: Kinds) -> Kinds {
        Kinds(self.0 & !other.0)
    }

    /// Whether every one is in `other`.
    pub fn within(self, other: Kinds) -> bool {
        self.0 & !other.0 == 0
    }

    /// The kinds whose packets have `field`.
    pub fn with(field: Field) -> Kinds {
        let transport = |t: u64| (t << 2) | (t << 12);
        Kinds(match field {
            Field::EthDst | Field::EthSrc | Field::EthType | Field::FrameLen => both(UNTAGGED),
            Field::VlanId => UNTAGGED << TAG,
            Field::ArpOp | Field::ArpTpa => both(ARP),
            Field::Ip4Src
            | Field::Ip4Dst
            | Field::Ip4Proto
            | Field::Ip4Ttl
            | Field::IpVersion
            | Field::Ip4Frag => both(IP4_WHOLE | IP4_LATER),
            Field::Ip6Src | Field::Ip6Dst | Field::Ip6Next => both(IP6),
            Field::IcmpType | Field::IcmpCode => both(transport(ICMP)),
            Field::L4Src | Field::L4Dst => both(transport(TCP | UDP | SCTP)),
            Field::TcpFlags => both(transport(TCP)),
            // Nothing is known of them; their tests are labels.
            _ => both(UNTAGGED),
        })
    }

    /// The kinds that are of a flow type.
    pub fn of(flow_type: FlowType) -> Kinds {
        let network = match flow_type.ip_version() {
            Some(4) => Kinds::IP4,
            Some(_) => Kinds::IP6,
            None => Kinds::ALL,
        };
        let transport = match flow_type.protocol() {
            Some(6) => TCP,
            Some(17) => UDP,
            Some(_) => SCTP,
            None => return network,
        };
        network.and(Kinds(both(in_groups(transport))))
    }

    /// The kinds that rules of a flow type match in `table`; all kinds if rules have no type.
    pub fn of_rules(table: &TableModel, flow_type: Option<FlowType>) -> Kinds {
        let Some(flow_type) = flow_type else { return Kinds::ALL };
        let all = Kinds::of(flow_type);
        if table.without.is_empty() {
            return all;
        }
        // Later fragments have no header of a transport, by which a packet could be left out.
        let whole = Kinds(!both(IP4_LATER));
        table.left_out(flow_type).fold(all, |kinds, t| kinds.without(Kinds::of(t).and(whole)))
    }

    /// The set as a number, for hashing.
    pub(crate) fn hash_word(self) -> u64 {
        self.0
    }

    /// The kinds one by one.
    pub(crate) fn each(self) -> impl Iterator<Item = Kinds> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let lowest = left & left.wrapping_neg();
            left ^= lowest;
            (lowest != 0).then_some(Kinds(lowest))
        })
    }

    /// The possible values of `field` in packets of this one kind; nothing if the kind does not matter.
    pub(crate) fn domain(self, field: Field) -> Option<Domain> {
        let kind = if self.0 > UNTAGGED { self.0 >> TAG } else { self.0 };
        match field {
            Field::EthType => Some(ether_type(kind)),
            Field::Ip4Proto => Some(protocol((kind >> 2 | kind >> 7) & 0b11111, &ICMP4)),
            Field::Ip6Next => Some(protocol(kind >> 12 & 0b11111, &ICMP6)),
            Field::IpVersion => Some(Domain::OneOf(&[4])),
            Field::Ip4Frag if kind & IP4_LATER == 0 => Some(Domain::OneOf(&WHOLE)),
            Field::Ip4Frag => Some(Domain::AllBut(&WHOLE)),
            _ => None,
        }
    }

    /// Whether the value of `field` has to do with the kind.
    pub(crate) fn decide(field: Field) -> bool {
        matches!(
            field,
            Field::EthType | Field::Ip4Proto | Field::Ip6Next | Field::IpVersion | Field::Ip4Frag
        )
    }
}

/// `Ip4Frag` of a whole packet or of a first fragment.
const WHOLE: [u128; 2] = [0, 0x2000];
const ICMP4: [u128; 4] = [6, 17, 132, 1];
const ICMP6: [u128; 4] = [6, 17, 132, 58];

fn ether_type(kind: u64) -> Domain {
    match kind {
        ARP => Domain::OneOf(&[0x0806]),
        OTHER_ETHER => Domain::AllBut(&[0x0800, 0x0806, 0x86dd]),
        k if k & IP6 != 0 => Domain::OneOf(&[0x86dd]),
        _ => Domain::OneOf(&[0x0800]),
    }
}

fn protocol(transport: u64, known: &'static [u128; 4]) -> Domain {
    match transport {
        TCP => Domain::OneOf(&known[..1]),
        UDP => Domain::OneOf(&known[1..2]),
        SCTP => Domain::OneOf(&known[2..3]),
        ICMP => Domain::OneOf(&known[3..]),
        _ => Domain::AllBut(known),
    }
}

const _: () = assert!(OTHER == 16);

impl std::fmt::Debug for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kinds({:#x})", self.0)
    }
}
