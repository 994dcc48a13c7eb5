//! The metadata of a packet.

use crate::Nanos;

/// An offset that has not been recorded.
pub const NOWHERE: u16 = u16::MAX;
/// No interface, as [`Meta::iface`].
pub const NO_IFACE: u16 = u16::MAX;

/// Facts about a packet, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// Nothing known.
    pub const NONE: Flags = Flags(0);
    /// The link may hand over transport checksums that the sender's kernel left to the device: a
    /// checksum equal to the pseudo-header's sum is then partial, not wrong (design/0000 §4.5).
    pub const MAY_BE_PARTIAL: Flags = Flags(1);
    /// The transport checksum is partial and has to be completed before forwarding.
    pub const PARTIAL_CHECKSUM: Flags = Flags(1 << 1);
    /// The device has verified the transport checksum.
    pub const CHECKSUM_VERIFIED: Flags = Flags(1 << 2);
    /// The frame was sent to a broadcast or multicast link address.
    pub const LINK_BROADCAST: Flags = Flags(1 << 3);
    /// [`Meta::endpoints`] has been filled in.
    pub const ENDPOINTS: Flags = Flags(1 << 4);
    /// A packet to many comes back to this host: this is the copy to be delivered here.
    pub const TO_SELF: Flags = Flags(1 << 5);
    /// For an application, not a datagram but an error about one that it sent: [`Meta::vlan`] is the
    /// errno, [`Meta::segment`] for `EMSGSIZE` the longest IP packet that would have gone.
    pub const ERROR: Flags = Flags(1 << 6);
    /// The packet is being forwarded.
    pub const FORWARDED: Flags = Flags(1 << 15);
    /// [`Endpoints::next_mac`] is known without asking: a group's, or the broadcast address.
    pub const NEXT_MAC: Flags = Flags(1 << 14);
    /// The packet answers or forwards one from another host, and is not of our own making:
    /// strangers decide how many there are and where they go.
    pub const PROVOKED: Flags = Flags(1 << 12);
    /// The packet has waited for its neighbour's link address and goes before those that came
    /// later.
    pub const WAITED: Flags = Flags(1 << 13);

    /// The facts of both.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// These facts less those of `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// Whether every fact of `other` is here.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Whether a packet of ours may be cut up on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Fragment {
    /// By us where the path is known to take less; not by others.
    #[default]
    Want,
    /// By this host and by routers.
    Allow,
    /// Not at all: a packet longer than the path's MTU is refused.
    Never,
    /// Not at all, and the path's known MTU is ignored: only the link's MTU counts.
    Probe,
}

/// Both ends of a packet on its way out, as the transmit path fills headers from them. IPv4
/// addresses are the last four bytes, in the v4-mapped form of RFC 4291 §2.5.5.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Endpoints {
    /// Our address.
    pub local: [u8; 16],
    /// The peer's address.
    pub remote: [u8; 16],
    /// The neighbour the packet goes to next.
    pub next_hop: [u8; 16],
    /// The link address of that neighbour, once it is known.
    pub next_mac: [u8; 6],
    /// Our port, or the ICMP identifier.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// Time to live; 0: the default.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Whether it may be cut up.
    pub fragment: Fragment,
    /// The flow label of IPv6, 20 bits.
    pub flow_label: u32,
}

impl Endpoints {
    /// An IPv4 address (host byte order) in mapped form.
    pub fn mapped(v4: u32) -> [u8; 16] {
        let mut out = [0; 16];
        out[10] = 0xff;
        out[11] = 0xff;
        out[12..].copy_from_slice(&v4.to_be_bytes());
        out
    }

    /// Whether the peer's address is an IPv4 one, in mapped form.
    #[inline]
    pub fn is_v4(&self) -> bool {
        self.remote[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]
    }

    /// The IPv4 address (host byte order) of a mapped one; the low 32 bits of any other.
    pub fn v4(mapped: &[u8; 16]) -> u32 {
        u32::from_be_bytes([mapped[12], mapped[13], mapped[14], mapped[15]])
    }
}

/// A packet's metadata. Offsets count from the start of the frame, not of the packet, so that
/// prepending a header does not move them; [`NOWHERE`] where nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Meta {
    /// Where the link header starts.
    pub l2: u16,
    /// Where the network header starts.
    pub l3: u16,
    /// Where the transport header starts.
    pub l4: u16,
    /// One past the packet's last byte by its own length fields; link padding lies beyond.
    pub end: u16,
    /// Its flags.
    pub flags: Flags,
    /// The device queue it came from or goes to.
    pub queue: u16,
    /// The VLAN tag it came with (identifier and priority); 0: untagged.
    pub vlan: u16,
    /// The EtherType of the network header.
    pub ethertype: u16,
    /// When it arrived.
    pub arrived: Nanos,
    /// The id of the table entry that it last matched.
    pub entry: u32,
    /// The link it came from or goes to.
    pub link: u16,
    /// For a packet that the link is to cut: bytes of transport payload in each piece; 0: it is
    /// sent whole.
    pub segment: u16,
    /// The interface it came by, once its VLAN has been judged, or goes out by, once it has been
    /// routed; [`NO_IFACE`] before.
    pub iface: u16,
    /// Filled in by the transmit path; meaningless without [`Flags::ENDPOINTS`].
    pub endpoints: Endpoints,
}

impl Default for Meta {
    fn default() -> Meta {
        Meta {
            l2: NOWHERE,
            l3: NOWHERE,
            l4: NOWHERE,
            end: NOWHERE,
            flags: Flags::NONE,
            queue: 0,
            vlan: 0,
            ethertype: 0,
            entry: 0,
            link: 0,
            segment: 0,
            iface: NO_IFACE,
            arrived: 0,
            endpoints: Endpoints::default(),
        }
    }
}

impl Meta {
    /// Forgets everything but the endpoints, which [`Flags::ENDPOINTS`] guards: they are a second
    /// cache line that most received packets never touch.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.l2 = NOWHERE;
        self.l3 = NOWHERE;
        self.l4 = NOWHERE;
        self.end = NOWHERE;
        self.flags = Flags::NONE;
        self.queue = 0;
        self.vlan = 0;
        self.ethertype = 0;
        self.entry = 0;
        self.link = 0;
        self.segment = 0;
        self.iface = NO_IFACE;
        self.arrived = 0;
    }
}
