//! The memory of a call: where a program has octets to send, or wants those that it receives.

use libc::iovec;

/// Octets that a program sends.
pub(crate) struct Parts<'p> {
    list: &'p [iovec],
    len: usize,
}

/// The length of all parts, which are mostly one.
#[inline]
fn total(parts: &[iovec]) -> usize {
    match parts {
        [only] => only.iov_len,
        parts => parts.iter().map(|part| part.iov_len).sum(),
    }
}

/// Whether a buffer is null and not empty: the C library's calls then fail with `EFAULT`.
fn is_nowhere(parts: &[iovec]) -> bool {
    parts.iter().any(|part| part.iov_base.is_null() && part.iov_len > 0)
}

impl<'p> Parts<'p> {
    pub(crate) fn is_nowhere(&self) -> bool {
        is_nowhere(self.list)
    }

    /// # Safety
    /// Each part is readable memory of its length.
    pub(crate) unsafe fn new(list: &'p [iovec]) -> Parts<'p> {
        Parts { list, len: total(list) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &'p [u8]> {
        let parts = self.list.iter().filter(|part| part.iov_len > 0);
        // SAFETY: the promise of `new`.
        parts.map(|part| unsafe {
            std::slice::from_raw_parts(part.iov_base.cast::<u8>().cast_const(), part.iov_len)
        })
    }
}

/// Where a program wants octets.
pub(crate) struct Places<'p> {
    list: &'p [iovec],
    len: usize,
}

impl<'p> Places<'p> {
    pub(crate) fn is_nowhere(&self) -> bool {
        is_nowhere(self.list)
    }

    /// # Safety
    /// Each part is writable memory of its length.
    pub(crate) unsafe fn new(list: &'p [iovec]) -> Places<'p> {
        Places { list, len: total(list) }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The parts, as the C library has them.
    pub(crate) fn list(&self) -> &'p [iovec] {
        self.list
    }

    /// Copies octets behind the first `skip` ones; returns how many there was room for.
    pub(crate) fn fill(&self, mut skip: usize, mut octets: &[u8]) -> usize {
        let mut done = 0;
        for part in self.list {
            if skip >= part.iov_len {
                skip -= part.iov_len;
                continue;
            }
            let count = octets.len().min(part.iov_len - skip);
            // SAFETY: inside the part, by the minimum; the promise of `new`.
            unsafe {
                let to = part.iov_base.cast::<u8>().add(skip);
                std::ptr::copy_nonoverlapping(octets.as_ptr(), to, count);
            }
            (octets, done, skip) = (&octets[count..], done + count, 0);
            if octets.is_empty() {
                break;
            }
        }
        done
    }
}
