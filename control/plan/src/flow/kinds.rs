//! Kinds of packets: the fields that a packet has, and the fields that its kind determines.
//!
//! Every well-formed packet is of exactly one kind. Given the kind, the remaining fields are
//! independent of each other, which makes questions about conjunctions exact and cheap.
//! First fragments of IPv4 datagrams, later ones (which have no ports), packets behind whose header
//! another packet stands, IPv6 with extension headers, and frames with a third tag are kinds of their own,
//! since NICs differ in how their rules treat them. The protocol of an IPv6 packet is its `next header`.

use weever_graph::Field;
use weever_graph::nic::{FlowType, Form, Forms, TableModel};

/// A set of kinds of packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kinds(u64);

/// Kinds of untagged packets; the tagged ones are `TAG` bits further up.
const ARP: u64 = 1;
const OTHER_ETHER: u64 = 1 << 1;
/// A tag behind the two that predicates look behind.
const STACKED: u64 = 1 << 2;
/// TCP, UDP, SCTP, ICMP, tunnels, others.
const TRANSPORTS: u64 = 0b11_1111;
const IP4_WHOLE: u32 = 3;
const IP4_FIRST: u32 = 9;
const IP4_LATER: u32 = 15;
const IP6_GROUP: u32 = 21;
/// IPv6 with an extension header.
const IP6_EXTENDED: u64 = 1 << 27;
const TAG: u32 = 28;
const UNTAGGED: u64 = (1 << TAG) - 1;

/// The offsets of the transports within a group.
const TCP: u64 = 1;
const UDP: u64 = 1 << 1;
const SCTP: u64 = 1 << 2;
const ICMP: u64 = 1 << 3;
const TUNNEL: u64 = 1 << 4;
const OTHER: u64 = 1 << 5;

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

const fn in_ip4(transports: u64) -> u64 {
    (transports << IP4_WHOLE) | (transports << IP4_FIRST) | (transports << IP4_LATER)
}

impl Kinds {
    /// Every kind.
    pub const ALL: Kinds = Kinds(both(UNTAGGED));
    /// No kind.
    pub const NONE: Kinds = Kinds(0);
    /// IPv4.
    pub const IP4: Kinds = Kinds(both(in_ip4(TRANSPORTS)));
    /// IPv6.
    pub const IP6: Kinds = Kinds(both(IP6));
    /// First fragments of IPv4 datagrams.
    pub const FIRST_FRAGMENTS: Kinds = Kinds(both(TRANSPORTS << IP4_FIRST));
    /// Later fragments of IPv4 datagrams.
    pub const LATER_FRAGMENTS: Kinds = Kinds(both(TRANSPORTS << IP4_LATER));

    /// IPv6 whose next header is none of the transports: another protocol, or an extension header
    /// behind which any protocol may stand.
    pub(crate) const IP6_OTHER: Kinds = Kinds(both((OTHER | TUNNEL) << IP6_GROUP | IP6_EXTENDED));
    /// The kinds that are rare beside the others: they count less in shares.
    const RARE: Kinds =
        Kinds(both((TRANSPORTS << IP4_FIRST) | (TRANSPORTS << IP4_LATER) | IP6_EXTENDED | STACKED));

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The share of packets that are of these kinds, in no unit: fragments, packets with extension headers
    /// and frames with many tags count little.
    pub(crate) fn weight(self) -> u32 {
        64 * self.without(Kinds::RARE).0.count_ones() + self.and(Kinds::RARE).0.count_ones()
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
        let transport = |t: u64| (t << IP4_WHOLE) | (t << IP4_FIRST) | (t << IP6_GROUP);
        Kinds(match field {
            Field::EthDst | Field::EthSrc | Field::EthType | Field::FrameLen => both(UNTAGGED),
            Field::VlanId => UNTAGGED << TAG,
            Field::ArpOp | Field::ArpTpa => both(ARP),
            Field::Ip4Src
            | Field::Ip4Dst
            | Field::Ip4Proto
            | Field::Ip4Ttl
            | Field::IpVersion
            | Field::Ip4Frag => both(in_ip4(TRANSPORTS)),
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
        network.and(Kinds(both(in_ip4(transport) | transport << IP6_GROUP)))
    }

    /// The kinds that rules of a flow type certainly match in `table`, if they test no ports; all kinds if
    /// rules have no type. Rules that test ports match no fragments ([`Conj::by_ports`](super::Conj)).
    pub fn of_rules(table: &TableModel, flow_type: Option<FlowType>) -> Kinds {
        let Some(flow_type) = flow_type else { return Kinds::ALL };
        let forms = Kinds::of_forms(table.forms.without(flow_type), flow_type);
        let all = Kinds::of(flow_type).without(forms).without(Kinds::unclaimed(table));
        if table.without.is_empty() {
            return all;
        }
        // Fragments are told apart by their form.
        let fragments = Kinds::FIRST_FRAGMENTS.or(Kinds::LATER_FRAGMENTS);
        table
            .left_out(flow_type)
            .fold(all, |kinds, t| kinds.without(Kinds::of(t).without(fragments)))
    }

    /// The kinds of packets of which a plan claims nothing, because nobody knows whether some rule of the
    /// NIC matches them.
    pub fn unclaimed(table: &TableModel) -> Kinds {
        if table.unclaimed.is_empty() {
            return Kinds::NONE;
        }
        let open = FlowType::ALL.into_iter().map(|t| (t, table.unclaimed.of(t)));
        let open = open.filter(|(_, forms)| !forms.is_empty());
        open.fold(Kinds::NONE, |all, (t, forms)| all.or(Kinds::of_forms(forms, t)))
    }

    /// The kinds that packets of a flow type have in these forms.
    fn of_forms(forms: Forms, flow_type: FlowType) -> Kinds {
        forms.iter().fold(Kinds::NONE, |all, form| {
            all.or(match form {
                // Nothing that is tested says whether there are any.
                Form::Options => Kinds::NONE,
                Form::First => Kinds::FIRST_FRAGMENTS.and(Kinds::of(flow_type)),
                Form::Later => Kinds::LATER_FRAGMENTS.and(Kinds::of(flow_type)),
                Form::Extensions => Kinds(both(IP6_EXTENDED)),
                Form::Stacked => Kinds(both(STACKED)),
                Form::Tunnels => Kinds(both(TUNNEL << IP4_WHOLE | TUNNEL << IP6_GROUP)),
            })
        })
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
            Field::Ip4Proto => {
                let group = kind >> IP4_WHOLE | kind >> IP4_FIRST | kind >> IP4_LATER;
                Some(protocol(group & TRANSPORTS, &ICMP4, &KNOWN4))
            }
            Field::Ip6Next if kind & IP6_EXTENDED != 0 => Some(Domain::OneOf(&EXTENSIONS)),
            Field::Ip6Next => Some(protocol(kind >> IP6_GROUP & TRANSPORTS, &ICMP6, &KNOWN6)),
            Field::IpVersion => Some(Domain::OneOf(&[4])),
            Field::Ip4Frag if kind & (TRANSPORTS << IP4_WHOLE) != 0 => Some(Domain::OneOf(&WHOLE)),
            Field::Ip4Frag if kind & (TRANSPORTS << IP4_FIRST) != 0 => Some(Domain::OneOf(&FIRST)),
            Field::Ip4Frag => Some(Domain::AllBut(&WHOLE_OR_FIRST)),
            _ => None,
        }
    }

    /// The untagged kinds that are the same as these, but for tags.
    pub(crate) fn but_for_tags(self) -> Kinds {
        Kinds((self.0 | self.0 >> TAG) & UNTAGGED)
    }

    /// These untagged kinds, and the tagged ones that are the same otherwise.
    pub(crate) fn tagged_or_not(self) -> Kinds {
        Kinds(both(self.0))
    }

    /// Whether the value of `field` has to do with the kind.
    pub(crate) fn decide(field: Field) -> bool {
        matches!(
            field,
            Field::EthType | Field::Ip4Proto | Field::Ip6Next | Field::IpVersion | Field::Ip4Frag
        )
    }
}

/// `Ip4Frag` of a whole packet, and of a first fragment.
const WHOLE: [u128; 1] = [0];
const FIRST: [u128; 1] = [0x2000];
const WHOLE_OR_FIRST: [u128; 2] = [0, 0x2000];
const ICMP4: [u128; 4] = [6, 17, 132, 1];
const ICMP6: [u128; 4] = [6, 17, 132, 58];
/// Protocols behind whose header stands another packet: IPv4 and IPv6 in IP, and GRE.
const TUNNELS: [u128; 3] = [4, 41, 47];
const KNOWN4: [u128; 7] = [6, 17, 132, 1, 4, 41, 47];
const KNOWN6: [u128; 15] = [6, 17, 132, 58, 4, 41, 47, 0, 43, 44, 51, 60, 135, 139, 140];
/// IPv6's extension headers (IANA's registry), without ESP, behind which nothing can be read.
const EXTENSIONS: [u128; 8] = [0, 43, 44, 51, 60, 135, 139, 140];

fn ether_type(kind: u64) -> Domain {
    match kind {
        ARP => Domain::OneOf(&[0x0806]),
        STACKED => Domain::OneOf(&TAGS),
        OTHER_ETHER => Domain::AllBut(&KNOWN_TYPES),
        k if k & IP6 != 0 => Domain::OneOf(&[0x86dd]),
        _ => Domain::OneOf(&[0x0800]),
    }
}

/// The EtherTypes of tags: 802.1Q, 802.1ad, and the one used before it.
const TAGS: [u128; 3] = [0x8100, 0x88a8, 0x9100];
const KNOWN_TYPES: [u128; 6] = [0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8, 0x9100];
const IP6: u64 = TRANSPORTS << IP6_GROUP | IP6_EXTENDED;

fn protocol(transport: u64, named: &'static [u128; 4], known: &'static [u128]) -> Domain {
    match transport {
        TCP => Domain::OneOf(&named[..1]),
        UDP => Domain::OneOf(&named[1..2]),
        SCTP => Domain::OneOf(&named[2..3]),
        ICMP => Domain::OneOf(&named[3..]),
        TUNNEL => Domain::OneOf(&TUNNELS),
        _ => Domain::AllBut(known),
    }
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kinds({:#x})", self.0)
    }
}
