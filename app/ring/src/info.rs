//! Packet info: addresses and options of a datagram, in front of its payload.
//!
//! It lies in a frame as seven words ([`PackedInfo`]). The worker writes them from the packet's metadata, and reads
//! them into it, without an address being taken apart in between; an application that answers in the frame of a
//! question leaves the addresses where they are. [`PacketInfo`] is the same for those who want to look at it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bits of [`PacketInfo::flags`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFlags(pub u8);

impl PacketFlags {
    /// Received: the datagram came to a group or a broadcast address.
    pub const GROUP: PacketFlags = PacketFlags(1);
    /// Received: the datagram was longer than the space for it and was cut.
    pub const TRUNCATED: PacketFlags = PacketFlags(2);
    /// To send: a datagram to a group or to everybody does not come back to this host's members.
    pub const NO_LOOP: PacketFlags = PacketFlags(4);
    /// To send: `hops` is set. Otherwise the socket's default applies.
    pub const HOPS: PacketFlags = PacketFlags(8);
    /// To send: `traffic_class` is set. Otherwise the socket's default applies.
    pub const TRAFFIC_CLASS: PacketFlags = PacketFlags(16);

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: PacketFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub fn with(self, other: PacketFlags) -> PacketFlags {
        PacketFlags(self.0 | other.0)
    }
}

/// Whether a datagram may be cut up on its way, in the manner of Linux's `IP_MTU_DISCOVER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// The stack cuts up datagrams longer than the path's MTU; routers must not (`WANT`).
    #[default]
    Want,
    /// Anybody may cut it up (`DONT`).
    Allow,
    /// Nobody may; a datagram longer than the path's MTU is refused with `EMSGSIZE` (`DO`).
    Never,
    /// Nobody may; the path's MTU is ignored, only the link's counts (`PROBE`).
    Probe,
}

impl Fragment {
    fn of(number: u8) -> Fragment {
        match number {
            1 => Fragment::Allow,
            2 => Fragment::Never,
            3 => Fragment::Probe,
            _ => Fragment::Want,
        }
    }
}

/// Addresses and options of a datagram, in the frame's first [`INFO_SIZE`](crate::INFO_SIZE) bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// The other host. Unspecified in a datagram to send: the socket's connected peer.
    pub remote: SocketAddr,
    /// Our address. Unspecified in a datagram to send: the socket's, or the route's choice.
    pub local: SocketAddr,
    /// The interface, by the stack's numbering from 1 on; 0 in a datagram to send: the route's choice.
    pub interface: u32,
    /// Time to live, or hop limit.
    pub hops: u8,
    /// Type of service, or traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// See [`PacketFlags`].
    pub flags: PacketFlags,
    /// To send: whether it may be cut up.
    pub fragment: Fragment,
    /// IPv6's flow label, 20 bits.
    pub flow_label: u32,
    /// When it was received, in nanoseconds of the monotonic clock; 0: unknown.
    pub timestamp: u64,
}

impl Default for PacketInfo {
    fn default() -> PacketInfo {
        let nowhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        PacketInfo {
            remote: nowhere,
            local: nowhere,
            interface: 0,
            hops: 0,
            traffic_class: 0,
            flags: PacketFlags::default(),
            fragment: Fragment::default(),
            flow_label: 0,
            timestamp: 0,
        }
    }
}

/// The datagram that an error is about, and the ICMP message that says so.
#[derive(Clone, Copy, Debug)]
pub struct About<'m> {
    /// Both ends of the datagram.
    pub info: PackedInfo,
    /// Whose message it is; unspecified for an error of this host.
    pub sender: PackedAddr,
    /// The message from its type on, or nothing.
    pub message: &'m [u8],
}

impl About<'_> {
    /// Bytes in front of a message: its sender and its length.
    pub(crate) const HEAD: usize = 18;
    /// The longest message that goes along, longer ones are cut: what RFC 1812 §4.3.2.3 has routers quote.
    const LONGEST: usize = 576;

    /// The head of a message that has room for so many bytes with it, and how many of it go along.
    pub(crate) fn head(&self, room: usize) -> ([u8; About::HEAD], usize) {
        let len = self.message.len().min(About::LONGEST).min(room.saturating_sub(About::HEAD));
        let mut head = [0; About::HEAD];
        head[..16].copy_from_slice(&self.sender.octets());
        head[16..].copy_from_slice(&(len as u16).to_ne_bytes());
        (head, len)
    }
}

/// Bytes of a packet info in a frame.
const SIZE: usize = 56;

/// A packet info as it lies in a frame, in native byte order: both sides are on one machine. IPv4 addresses are
/// IPv4-mapped IPv6 addresses. Any words are a valid one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedInfo([u64; SIZE / 8]);

/// An address and a port.
pub type PackedEnd = (PackedAddr, u16);

/// An address as it lies in a packet info: two words, which hold its 16 bytes in network order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedAddr([u64; 2]);

impl PackedAddr {
    /// The address of these bytes.
    #[inline]
    pub fn of(octets: [u8; 16]) -> PackedAddr {
        let [first, second] = octets.as_chunks::<8>().0 else { return PackedAddr::default() };
        PackedAddr([u64::from_ne_bytes(*first), u64::from_ne_bytes(*second)])
    }

    /// Its bytes.
    #[inline]
    pub fn octets(self) -> [u8; 16] {
        let mut octets = [0; 16];
        let (first, second) = octets.split_at_mut(8);
        first.copy_from_slice(&self.0[0].to_ne_bytes());
        second.copy_from_slice(&self.0[1].to_ne_bytes());
        octets
    }

    /// No address of a family.
    #[inline]
    pub fn unspecified(is_ipv4: bool) -> PackedAddr {
        if is_ipv4 { PackedAddr([0, NO_IPV4]) } else { PackedAddr([0, 0]) }
    }

    /// Whether it is an IPv4 one.
    #[inline]
    pub fn is_ipv4(self) -> bool {
        // The bytes of the address itself, which are the last ones in memory.
        let address = u64::from_ne_bytes([0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        self.0[0] == 0 && self.0[1] & !address == NO_IPV4
    }

    /// Whether it is no address, of either family.
    #[inline]
    pub fn is_unspecified(self) -> bool {
        self.0[0] == 0 && (self.0[1] == 0 || self.0[1] == NO_IPV4)
    }
}

impl From<IpAddr> for PackedAddr {
    #[inline]
    fn from(address: IpAddr) -> PackedAddr {
        PackedAddr(words(address))
    }
}

/// The second word of 0.0.0.0.
const NO_IPV4: u64 = u64::from_ne_bytes([0, 0, 0xff, 0xff, 0, 0, 0, 0]);

impl PackedInfo {
    /// The info of a received datagram with these ends, hop limit, traffic class, flags and flow label, on an
    /// interface that counts from 1, at that time.
    #[inline]
    pub fn received(
        (remote, remote_port): PackedEnd,
        (local, local_port): PackedEnd,
        (hops, traffic_class, flags, flow_label): (u8, u8, PacketFlags, u32),
        (interface, timestamp): (u32, u64),
    ) -> PackedInfo {
        let (PackedAddr([first, second]), PackedAddr([third, fourth])) = (remote, local);
        let ports = u64::from(remote_port) | u64::from(local_port) << 16;
        let options = options(hops, traffic_class, flags, Fragment::default(), flow_label);
        let ports = ports | u64::from(interface) << 32;
        PackedInfo([first, second, third, fourth, ports, options, timestamp])
    }

    /// The info of an answer to the datagram with this one: to its sender, from the address that was asked, unless
    /// that is a group's.
    #[inline]
    #[must_use]
    pub fn answer(self) -> PackedInfo {
        let PackedInfo([first, second, third, fourth, ports, ..]) = self;
        let (from, port) = if self.flags().contains(PacketFlags::GROUP) {
            ([0; 2], 0xffff)
        } else {
            ([third, fourth], 0xffff_ffff)
        };
        PackedInfo([first, second, from[0], from[1], ports & port, 0, 0])
    }

    /// The other host.
    #[inline]
    pub fn remote(&self) -> PackedEnd {
        (PackedAddr([self.0[0], self.0[1]]), self.0[4] as u16)
    }

    /// Our address and port.
    #[inline]
    pub fn local(&self) -> PackedEnd {
        (PackedAddr([self.0[2], self.0[3]]), (self.0[4] >> 16) as u16)
    }

    /// See [`PacketInfo::interface`].
    #[inline]
    pub fn interface(&self) -> u32 {
        (self.0[4] >> 32) as u32
    }

    /// See [`PacketInfo::hops`].
    #[inline]
    pub fn hops(&self) -> u8 {
        self.0[5] as u8
    }

    /// See [`PacketInfo::traffic_class`].
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.0[5] >> 8) as u8
    }

    /// See [`PacketInfo::flags`].
    #[inline]
    pub fn flags(&self) -> PacketFlags {
        PacketFlags((self.0[5] >> 16) as u8)
    }

    /// See [`PacketInfo::fragment`].
    #[inline]
    pub fn fragment(&self) -> Fragment {
        Fragment::of((self.0[5] >> 24) as u8)
    }

    /// See [`PacketInfo::flow_label`].
    #[inline]
    pub fn flow_label(&self) -> u32 {
        (self.0[5] >> 32) as u32 & 0xf_ffff
    }

    /// The bytes as which it lies in a frame.
    #[inline]
    pub fn to_bytes(self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        for (out, word) in out.chunks_exact_mut(8).zip(self.0) {
            out.copy_from_slice(&word.to_ne_bytes());
        }
        out
    }

    /// From the bytes in a frame, which may be any.
    #[inline]
    pub fn from_bytes(bytes: &[u8; SIZE]) -> PackedInfo {
        PackedInfo(std::array::from_fn(|at| {
            u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().expect("eight bytes"))
        }))
    }
}

impl From<&PacketInfo> for PackedInfo {
    #[inline]
    fn from(info: &PacketInfo) -> PackedInfo {
        let PacketInfo { hops, traffic_class, flags, fragment, flow_label, .. } = *info;
        let ([first, second], [third, fourth]) = (words(info.remote.ip()), words(info.local.ip()));
        let ports = u64::from(info.remote.port()) | u64::from(info.local.port()) << 16;
        let ports = ports | u64::from(info.interface) << 32;
        let options = options(hops, traffic_class, flags, fragment, flow_label);
        PackedInfo([first, second, third, fourth, ports, options, info.timestamp])
    }
}

impl From<PackedInfo> for PacketInfo {
    #[inline]
    fn from(packed: PackedInfo) -> PacketInfo {
        let PackedInfo([first, second, third, fourth, ports, _, timestamp]) = packed;
        PacketInfo {
            remote: SocketAddr::new(address([first, second]), ports as u16),
            local: SocketAddr::new(address([third, fourth]), (ports >> 16) as u16),
            interface: packed.interface(),
            hops: packed.hops(),
            traffic_class: packed.traffic_class(),
            flags: packed.flags(),
            fragment: packed.fragment(),
            flow_label: packed.flow_label(),
            timestamp,
        }
    }
}

#[inline]
fn options(hops: u8, class: u8, flags: PacketFlags, fragment: Fragment, flow_label: u32) -> u64 {
    u64::from(hops)
        | u64::from(class) << 8
        | u64::from(flags.0) << 16
        | u64::from(fragment as u8) << 24
        | u64::from(flow_label) << 32
}

/// The first word of addresses is zero in IPv4-mapped ones (RFC 4291 §2.5.5.2), and so is half of the second,
/// up to these bits, which are in network order in memory.
const MAPPED: u64 = 0xffff << 32;

/// An address as two words in network order.
#[inline]
fn words(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(v4) => [0, (MAPPED | u64::from(v4.to_bits())).to_be()],
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            [((bits >> 64) as u64).to_be(), (bits as u64).to_be()]
        }
    }
}

/// The inverse of [`words`].
#[inline]
fn address([first, second]: [u64; 2]) -> IpAddr {
    let second = u64::from_be(second);
    if first == 0 && second >> 32 == MAPPED >> 32 {
        return Ipv4Addr::from_bits(second as u32).into();
    }
    Ipv6Addr::from_bits(u128::from(u64::from_be(first)) << 64 | u128::from(second)).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_info_that_is_stable(bytes in proptest::array::uniform32(any::<u8>())) {
            let mut whole = [0; SIZE];
            whole[..32].copy_from_slice(&bytes);
            whole[32..].copy_from_slice(&bytes[..24]);
            let packed = PackedInfo::from_bytes(&whole);
            prop_assert_eq!(packed.to_bytes(), whole);
            let info = PacketInfo::from(packed);
            prop_assert_eq!(PacketInfo::from(PackedInfo::from(&info)), info);
        }

        #[test]
        fn ends_are_the_same_packed_and_not(address: u128, four: u32, ports: (u16, u16)) {
            let six = SocketAddr::new(Ipv6Addr::from_bits(address).into(), ports.0);
            let four = SocketAddr::new(Ipv4Addr::from_bits(four).into(), ports.1);
            let info = PacketInfo { remote: six, local: four, ..PacketInfo::default() };
            let packed = PackedInfo::from(&info);
            let octets = |end: SocketAddr| match end.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            prop_assert_eq!(packed.remote(), (PackedAddr::of(octets(six)), ports.0));
            prop_assert_eq!(packed.local(), (PackedAddr::of(octets(four)), ports.1));
            prop_assert_eq!(packed.local().0.octets(), octets(four));
            prop_assert!(packed.local().0.is_ipv4());
            prop_assert_eq!(packed.remote().0.is_ipv4(), address >> 32 == 0xffff);
            let same = PackedInfo::received(packed.remote(), packed.local(), (0, 0, PacketFlags(0), 0), (0, 0));
            prop_assert_eq!(same, packed);
        }
    }

    #[test]
    fn no_address_is_told_from_others() {
        let nowhere = ["0.0.0.0", "::"].map(|text| text.parse::<IpAddr>().unwrap());
        let somewhere = ["0.0.0.1", "::1", "1::", "::ffff:0:0:1", "::1:0:0"];
        assert!(nowhere.iter().all(|address| PackedAddr::from(*address).is_unspecified()));
        for text in somewhere {
            let address = PackedAddr::from(text.parse::<IpAddr>().unwrap());
            assert!(!address.is_unspecified(), "{text}");
            assert_eq!(address.is_ipv4(), text == "0.0.0.1", "{text}");
        }
        assert_eq!(PackedAddr::unspecified(true), nowhere[0].into());
        assert_eq!(PackedAddr::unspecified(false), nowhere[1].into());
    }

    #[test]
    fn an_answer_goes_to_the_sender_without_the_options_of_the_question() {
        let question = PacketInfo {
            remote: ([192, 0, 2, 1], 9).into(),
            local: ([192, 0, 2, 2], 53).into(),
            interface: 3,
            hops: 64,
            traffic_class: 2,
            flags: PacketFlags::HOPS.with(PacketFlags::TRUNCATED),
            fragment: Fragment::Probe,
            flow_label: 0xabcde,
            timestamp: 12,
        };
        let answer = PacketInfo::from(PackedInfo::from(&question).answer());
        let PacketInfo { remote, local, .. } = question;
        assert_eq!(answer, PacketInfo { remote, local, ..PacketInfo::default() });
        let to_group = PacketInfo { flags: PacketFlags::GROUP, ..question };
        let answer = PacketInfo::from(PackedInfo::from(&to_group).answer());
        assert_eq!(answer, PacketInfo { remote, ..PacketInfo::default() });
    }
}
