//! Silence of the kernel's sockets at addresses of the stack inside.
//!
//! An address of that stack may be the kernel's as well. The kernel's socket behind one of weever's takes packets as soon
//! as the program listens; the stack, when the program uses its first socket, and in a program of several processes again
//! when another one starts it. A connection that the kernel answers in between is reset when the stack comes. So the
//! kernel's socket gets a filter: what comes for the stack's addresses by the stack's device is dropped without an answer,
//! and the peer repeats it until the stack answers. Other addresses and devices are served as before.

use std::net::IpAddr;

use libc::{SOL_SOCKET, c_int, sock_filter, sock_fprog, socklen_t};

use crate::{log, real};

/// Operations of the kernel's packet filters (`linux/filter.h`): loads into the accumulator, comparison, a jump, an end.
const WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const OCTET: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const MASK: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const SKIP: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const END: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// What a filter returns: how many octets of a packet the socket gets.
const ALL: u32 = u32::MAX;
const NONE: u32 = 0;

/// Where a filter finds the index of a packet's interface, and the IP header.
const INTERFACE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX).cast_unsigned();
const NETWORK: u32 = libc::SKF_NET_OFF.cast_unsigned();
/// The destination's offset in the headers of both versions.
const DESTINATION: u32 = NETWORK + 16;
const DESTINATION6: u32 = NETWORK + 24;

const fn step(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Compares the accumulator; skips so many steps if it is equal, or if it is not.
const fn equal(k: u32, yes: u8, no: u8) -> sock_filter {
    sock_filter { code: EQUAL, jt: yes, jf: no, k }
}

/// A filter that drops packets for these addresses from the interface of this index.
fn filter(interface: u32, addresses: &[IpAddr]) -> Vec<sock_filter> {
    let (mut four, mut six) = (vec![step(WORD, DESTINATION)], Vec::new());
    for address in addresses {
        match address {
            IpAddr::V4(address) => {
                four.extend([equal(address.to_bits(), 0, 1), step(END, NONE)]);
            }
            IpAddr::V6(address) => {
                for (at, word) in (0..).zip(address.octets().as_chunks::<4>().0) {
                    // Past the rest of this address: a load and a comparison for each word, and the end.
                    let rest = 2 * (3 - at) + 1;
                    six.push(step(WORD, DESTINATION6 + 4 * u32::from(at)));
                    six.push(equal(u32::from_be_bytes(*word), 0, rest));
                }
                six.push(step(END, NONE));
            }
        }
    }
    let all = step(END, ALL);
    four.push(all);
    let mut filter = vec![
        step(WORD, INTERFACE),
        equal(interface, 1, 0),
        all,
        step(OCTET, NETWORK),
        step(MASK, 0xf0),
        equal(0x40, 0, 1),
        step(SKIP, six.len() as u32 + 1),
    ];
    filter.extend(six);
    filter.push(all);
    filter.extend(four);
    filter
}

/// Has the kernel's socket ignore what comes for these addresses from the interface of this index. A filter of the
/// program's own stays.
pub(crate) fn begin(fd: c_int, interface: u32, addresses: &[IpAddr]) {
    if has_filter(fd) {
        return;
    }
    let mut steps = filter(interface, addresses);
    let program = sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    let (value, len) = ((&raw const program).cast(), size_of::<sock_fprog>() as socklen_t);
    // SAFETY: a filter that lives until the kernel has copied it.
    if unsafe { real::setsockopt(fd, SOL_SOCKET, libc::SO_ATTACH_FILTER, value, len) } != 0 {
        log::note(format_args!(
            "descriptor {fd}: the kernel may answer for the stack before it runs: {}",
            std::io::Error::last_os_error()
        ));
    }
}

fn has_filter(fd: c_int) -> bool {
    // Without room for steps, the kernel tells how many there are.
    let mut steps: socklen_t = 0;
    // SAFETY: nothing is written but the number.
    let asked = unsafe {
        let nowhere = std::ptr::null_mut();
        real::getsockopt(fd, SOL_SOCKET, libc::SO_GET_FILTER, nowhere, &mut steps)
    };
    asked == 0 && steps > 0
}

/// Lets the kernel's socket have all packets again.
pub(crate) fn end(fd: c_int) {
    let unused: c_int = 0;
    let (value, len) = ((&raw const unused).cast(), size_of::<c_int>() as socklen_t);
    // SAFETY: an integer, which the kernel demands and does not use. Without a filter it fails, which changes nothing.
    unsafe { real::setsockopt(fd, SOL_SOCKET, libc::SO_DETACH_FILTER, value, len) };
}
