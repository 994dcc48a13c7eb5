//! The memory nodes of the machine, and a mapping's place on one of them.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::io;
use std::path::Path;

/// The nodes that have memory; absent on a kernel that knows only one.
const NODES: &str = "/sys/devices/system/node/has_memory";
/// `MPOL_BIND` of `<linux/mempolicy.h>`: memory of these nodes or none.
const BIND: c_int = 2;
/// `MPOL_MF_STRICT | MPOL_MF_MOVE`: pages that are there already move, or the call fails.
const STRICT_AND_MOVE: c_long = 3;
/// Nodes that a mask has room for; kernels are built for 1,024 at most.
const MOST_NODES: usize = 1024;
const WORD: usize = c_ulong::BITS as usize;

/// # Errors
/// The nodes with memory, if the node is none of them.
pub(crate) fn check(node: u32) -> Result<(), String> {
    let text = std::fs::read_to_string(Path::new(NODES));
    // Without the list, the kernel has one node.
    let known = text.as_deref().unwrap_or("0").trim();
    if has(known, node) { Ok(()) } else { Err(known.to_owned()) }
}

/// Whether a list such as `0-3,8` has the number.
fn has(list: &str, number: u32) -> bool {
    list.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let bounds = first.trim().parse().ok().zip(last.trim().parse().ok());
        bounds.is_some_and(|(first, last): (u32, u32)| (first..=last).contains(&number))
    })
}

/// Has all pages of a mapping be of a node, which [`check`] let pass.
///
/// # Errors
/// The kernel's. None where the kernel knows no nodes: then there is only one.
///
/// # Safety
/// The range is a mapping of this process.
pub(crate) unsafe fn bind(start: *mut c_void, len: usize, node: u32) -> io::Result<()> {
    let mut mask = [0 as c_ulong; MOST_NODES / WORD];
    let word = mask.get_mut(node as usize / WORD).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (node as usize % WORD);
    // One more than there are bits: the kernel takes one off.
    let bits = MOST_NODES as c_long + 1;
    let (nodes, mode) = (mask.as_ptr(), c_long::from(BIND));
    // SAFETY: the mask is live and has that many bits; the mapping is one by the caller's word, and where
    // its pages are changes nothing that can be seen in it.
    let done =
        unsafe { libc::syscall(libc::SYS_mbind, start, len, mode, nodes, bits, STRICT_AND_MOVE) };
    match io::Error::last_os_error() {
        _ if done == 0 => Ok(()),
        error if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        error => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        for (list, inside, outside) in
            [("0", 0, 1), ("0-3", 3, 4), ("0,2-5,8", 8, 7), ("1", 1, 0), ("0-1,16", 16, 2)]
        {
            assert!(has(list, inside) && !has(list, outside), "{list}");
        }
        assert!(!has("", 0) && !has("a-b", 0));
    }
}
