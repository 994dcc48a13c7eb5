//! Control messages of `recvmsg` and `sendmsg`: addresses, hop limits, traffic classes, times of arrival.

use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::{
    AF_INET, IPPROTO_IP, IPPROTO_IPV6, MSG_CTRUNC, SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6,
    SO_EE_ORIGIN_LOCAL, SOL_SOCKET, c_int, in_addr, in_pktinfo, in6_addr, in6_pktinfo, msghdr,
    sock_extended_err, sockaddr_in, sockaddr_in6,
};
use weever_app_sockets::{Cause, Info, SendOptions};

use crate::file::Options;

/// Writes the messages that a program has asked for, and the length of each of several datagrams; returns the flags of
/// the answer.
///
/// # Safety
/// `message` names writable memory for control messages, or none.
pub(crate) unsafe fn write(
    message: &mut msghdr,
    family: c_int,
    options: &Options,
    (info, segment): (&Info, Option<c_int>),
    interface: u32,
) -> c_int {
    let mut out = Writer { message, used: 0, cut: false };
    let four = family == AF_INET;
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(name) = options.timestamp {
            out.put_time(name, info.timestamp());
        }
        if options.packet_info {
            out.put_address(four, info.local().ip(), interface);
        }
        if let Some(segment) = segment {
            out.put(libc::SOL_UDP, libc::UDP_GRO, &segment);
        }
        if options.hops {
            let value = c_int::from(info.hops());
            match four {
                true => out.put(IPPROTO_IP, libc::IP_TTL, &value),
                false => out.put(IPPROTO_IPV6, libc::IPV6_HOPLIMIT, &value),
            }
        }
        if options.class {
            let class = info.traffic_class();
            match four {
                true => out.put(IPPROTO_IP, libc::IP_TOS, &class),
                false => out.put(IPPROTO_IPV6, libc::IPV6_TCLASS, &c_int::from(class)),
            }
        }
    }
    let Writer { message, used, cut } = out;
    message.msg_controllen = used as _;
    if cut { MSG_CTRUNC } else { 0 }
}

/// Writes an error of the queue of errors (ip(7), `IP_RECVERR`); returns the flags of the answer.
///
/// # Safety
/// As [`write`].
pub(crate) unsafe fn write_error(
    message: &mut msghdr,
    family: c_int,
    errno: c_int,
    cause: &Cause,
) -> c_int {
    let icmp = cause.message();
    let word = icmp.get(4..8).and_then(|word| word.first_chunk().copied()).map(u32::from_be_bytes);
    let word = word.unwrap_or(0);
    let (origin, info) = match (cause.sender(), icmp.first()) {
        (None, _) => (SO_EE_ORIGIN_LOCAL, cause.mtu().into()),
        (Some(IpAddr::V6(_)), _) => (SO_EE_ORIGIN_ICMP6, word),
        // A parameter problem's pointer is the first byte.
        (_, Some(12)) => (SO_EE_ORIGIN_ICMP, word >> 24),
        _ => (SO_EE_ORIGIN_ICMP, cause.mtu().into()),
    };
    let told = sock_extended_err {
        ee_errno: errno as u32,
        ee_origin: origin,
        ee_type: icmp.first().copied().unwrap_or(0),
        ee_code: icmp.get(1).copied().unwrap_or(0),
        ee_pad: 0,
        ee_info: info,
        ee_data: 0,
    };
    let mut out = Writer { message, used: 0, cut: false };
    // SAFETY: all zero is valid; the caller's promise.
    unsafe {
        if family == AF_INET {
            let mut offender: sockaddr_in = std::mem::zeroed();
            if let Some(IpAddr::V4(four)) = cause.sender() {
                offender.sin_family = AF_INET as _;
                offender.sin_addr.s_addr = u32::from_ne_bytes(four.octets());
            }
            out.put(IPPROTO_IP, libc::IP_RECVERR, &(Told { told, offender }));
        } else {
            let mut offender: sockaddr_in6 = std::mem::zeroed();
            if let Some(sender) = cause.sender() {
                offender.sin6_family = libc::AF_INET6 as _;
                offender.sin6_addr.s6_addr = match sender {
                    IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
                    IpAddr::V6(six) => six.octets(),
                };
            }
            out.put(IPPROTO_IPV6, libc::IPV6_RECVERR, &(Told { told, offender }));
        }
    }
    let Writer { message, used, cut } = out;
    message.msg_controllen = used as _;
    if cut { MSG_CTRUNC } else { 0 }
}

/// An error with the address of the message's sender.
#[repr(C)]
struct Told<A> {
    told: sock_extended_err,
    offender: A,
}

fn time(clock: libc::clockid_t) -> i128 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(clock, &mut now) };
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

struct Writer<'m> {
    message: &'m mut msghdr,
    used: usize,
    cut: bool,
}

impl Writer<'_> {
    /// The time of arrival, by the stack's clock.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    unsafe fn put_time(&mut self, name: c_int, timestamp: u64) {
        // The stack's clock is the monotonic one; a program wants the time of day.
        let now = time(libc::CLOCK_REALTIME) - time(libc::CLOCK_MONOTONIC);
        let at = now + i128::from(timestamp);
        let (seconds, nanos) = ((at / 1_000_000_000) as i64, (at % 1_000_000_000) as i64);
        let parts = if name == libc::SO_TIMESTAMP { nanos / 1000 } else { nanos };
        // SAFETY: the caller's promise.
        unsafe { self.put(SOL_SOCKET, name, &[seconds, parts]) };
    }

    /// The address that a datagram came to, and the interface.
    ///
    /// # Safety
    /// As [`put`](Self::put).
    unsafe fn put_address(&mut self, four: bool, local: IpAddr, interface: u32) {
        if let (true, IpAddr::V4(local)) = (four, local) {
            let address = in_addr { s_addr: u32::from_ne_bytes(local.octets()) };
            let told = in_pktinfo {
                ipi_ifindex: interface as c_int,
                ipi_spec_dst: address,
                ipi_addr: address,
            };
            // SAFETY: the caller's promise.
            return unsafe { self.put(IPPROTO_IP, libc::IP_PKTINFO, &told) };
        }
        let six = match local {
            IpAddr::V4(four) => four.to_ipv6_mapped(),
            IpAddr::V6(six) => six,
        };
        let ipi6_addr = in6_addr { s6_addr: six.octets() };
        let told = in6_pktinfo { ipi6_addr, ipi6_ifindex: interface };
        // SAFETY: the caller's promise.
        unsafe { self.put(IPPROTO_IPV6, libc::IPV6_PKTINFO, &told) };
    }

    /// # Safety
    /// The message's control memory is writable.
    unsafe fn put<T>(&mut self, level: c_int, kind: c_int, value: &T) {
        let room = self.message.msg_controllen;
        let size = size_of::<T>() as u32;
        // SAFETY: lengths only.
        let (space, len) = unsafe { (libc::CMSG_SPACE(size) as usize, libc::CMSG_LEN(size)) };
        if self.message.msg_control.is_null() || self.used + len as usize > room {
            self.cut = true;
            return;
        }
        // SAFETY: inside the control memory, by the check; it may be unaligned for the program's own reasons.
        unsafe {
            let at = self.message.msg_control.cast::<u8>().add(self.used);
            let header = libc::cmsghdr { cmsg_len: len as _, cmsg_level: level, cmsg_type: kind };
            at.cast::<libc::cmsghdr>().write_unaligned(header);
            let data = at.add(libc::CMSG_LEN(0) as usize);
            std::ptr::copy_nonoverlapping(
                std::ptr::from_ref(value).cast::<u8>(),
                data,
                size as usize,
            );
        }
        self.used = (self.used + space).min(room);
    }
}

/// How a datagram is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sending {
    pub(crate) options: SendOptions,
    /// Octets after which the payload is cut into datagrams (`UDP_SEGMENT`); 0: it is one.
    pub(crate) segment: u16,
}

impl Sending {
    /// As the socket's options say.
    pub(crate) fn of(options: &Options) -> Sending {
        let send = SendOptions {
            hops: options.send_hops,
            traffic_class: options.send_class,
            fragment: options.send_fragment,
            ..SendOptions::default()
        };
        Sending { options: send, segment: options.segment }
    }
}

/// Reads the messages of a datagram to send.
///
/// # Safety
/// `message` names readable memory with control messages, or none.
pub(crate) unsafe fn read(message: &msghdr, options: &Options) -> Sending {
    let mut sending = Sending::of(options);
    let send = &mut sending.options;
    // SAFETY: the caller's promise; the macros stay inside the control memory.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(message);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (IPPROTO_IP, libc::IP_PKTINFO) => {
                    let told = data.cast::<in_pktinfo>().read_unaligned();
                    let four = Ipv4Addr::from(told.ipi_spec_dst.s_addr.to_ne_bytes());
                    source(send, four.into());
                }
                (IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let told = data.cast::<in6_pktinfo>().read_unaligned();
                    let six = Ipv6Addr::from(told.ipi6_addr.s6_addr);
                    let ip = six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4);
                    source(send, ip);
                }
                (IPPROTO_IP, libc::IP_TTL) | (IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    send.hops = u8::try_from(data.cast::<c_int>().read_unaligned()).ok();
                }
                (IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    send.traffic_class = u8::try_from(data.cast::<c_int>().read_unaligned()).ok();
                }
                (IPPROTO_IP, libc::IP_TOS) => send.traffic_class = Some(data.read()),
                (libc::SOL_UDP, libc::UDP_SEGMENT) => {
                    sending.segment = data.cast::<u16>().read_unaligned();
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    sending
}

fn source(send: &mut SendOptions, ip: IpAddr) {
    if !ip.is_unspecified() {
        send.source = Some(ip);
    }
}
