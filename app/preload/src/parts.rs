//! The memory of a call: where a program has octets to send, or wants those that it receives.

use libc::iovec;

/// Octets that a program sends.
pub(crate) struct Parts<'p>(&'p [iovec]);

/// Whether a buffer is null and not empty: the C library's calls then fail with `EFAULT`.
fn is_nowhere(parts: &[iovec]) -> bool {
    parts.iter().any(|part| part.iov_base.is_null() && part.iov_len > 0)
}

impl<'p> Parts<'p> {
    pub(crate) fn is_nowhere(&self) -> bool {
        is_nowhere(self.0)
    }

    /// # Safety
    /// Each part is readable memory of its length.
    pub(crate) unsafe fn new(parts: &'p [iovec]) -> Parts<'p> {
        Parts(parts)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|part| part.iov_len).sum()
    }

    pub(crate) fn slices(&self) -> impl Iterator<Item = &'p [u8]> {
        let parts = self.0.iter().filter(|part| part.iov_len > 0);
        // SAFETY: the promise of `new`.
        parts.map(|part| unsafe {
            std::slice::from_raw_parts(part.iov_base.cast::<u8>().cast_const(), part.iov_len)
        })
    }
}

/// Where a program wants octets.
pub(crate) struct Places<'p>(&'p [iovec]);

impl<'p> Places<'p> {
    pub(crate) fn is_nowhere(&self) -> bool {
        is_nowhere(self.0)
    }

    /// # Safety
    /// Each part is writable memory of its length.
    pub(crate) unsafe fn new(parts: &'p [iovec]) -> Places<'p> {
        Places(parts)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|part| part.iov_len).sum()
    }

    /// The parts, as the C library has them.
    pub(crate) fn list(&self) -> &'p [iovec] {
        self.0
    }

    /// Copies octets behind the first `skip` ones; returns how many there was room for.
    pub(crate) fn fill(&self, mut skip: usize, mut octets: &[u8]) -> usize {
        let mut done = 0;
        for part in self.0 {
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
