//! Limits of some kernel releases.

/// The first release of each line of stable kernels in which the sockets of a queue lock the fill ring
/// together when they receive in generic mode (commit a1356ac7749c, "xsk: Fix race condition in AF_XDP
/// generic RX path", CVE-2025-37920). Lines that are not here and older than the last have no such release.
const SHARED_FILL_RINGS: [(u32, u32, u32); 5] =
    [(6, 1, 164), (6, 6, 123), (6, 12, 28), (6, 14, 6), (6, 15, 0)];

/// The running kernel's release, as `uname -r` has it.
pub(super) fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Whether several sockets may share a fill ring in generic mode. Before the correction each locked only
/// its own side, so that packets on two cores took the same frame. That a distribution has corrected an
/// older release by itself cannot be seen.
pub(super) fn shares_fill_rings(release: &str) -> bool {
    let Some((major, minor, patch)) = version(release) else { return true };
    let line = SHARED_FILL_RINGS.iter().find(|line| (line.0, line.1) == (major, minor));
    let newest = SHARED_FILL_RINGS[SHARED_FILL_RINGS.len() - 1];
    line.map_or((major, minor) > (newest.0, newest.1), |line| patch >= line.2)
}

/// The numbers in front; `None` for a release that has none.
fn version(release: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((major, minor, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_told_apart() {
        for good in
            ["6.15.0-rc5", "6.15", "6.18.2", "7.0.0", "6.14.6", "6.12.28-generic", "6.6.123"]
        {
            assert!(shares_fill_rings(good), "{good}");
        }
        for bad in ["6.14.5", "6.13.12", "6.12.27", "6.6.90", "6.1.163", "5.15.0-91-generic", "6.5"]
        {
            assert!(!shares_fill_rings(bad), "{bad}");
        }
        assert!(shares_fill_rings("a kernel of my own"), "nothing is known of it");
    }

    #[test]
    fn the_running_kernel_says_its_release() {
        assert!(version(&release()).is_some(), "{}", release());
    }
}
