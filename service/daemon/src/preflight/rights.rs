//! The rights of the process.

use std::fs;

use super::error::PreflightError;

/// Numbers of `linux/capability.h`.
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Reports all missing rights at once; the system calls would each report one, later and in their
/// own way.
pub(super) fn check() -> Result<(), PreflightError> {
    // Where /proc is not mounted, the system calls have to report it.
    let Ok(status) = fs::read_to_string("/proc/thread-self/status") else { return Ok(()) };
    let missing = effective(&status).map(missing).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    let verb = if missing.len() == 1 { "is" } else { "are" };
    Err(PreflightError::Permission { missing: format!("{} {verb}", missing.join(", ")) })
}

fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn missing(capabilities: u64) -> Vec<&'static str> {
    let has = |number: u32| capabilities >> number & 1 == 1;
    let mut missing = Vec::new();
    if !has(CAP_NET_ADMIN) {
        missing.push("CAP_NET_ADMIN");
    }
    if !has(CAP_NET_RAW) {
        missing.push("CAP_NET_RAW");
    }
    if !has(CAP_BPF) && !has(CAP_SYS_ADMIN) {
        missing.push("CAP_BPF");
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_by_name_and_number() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n";
        assert_eq!(effective(status), Some(0x1ff_ffff_ffff));
        assert_eq!(effective("CapEff:\tzz"), None);
        assert!(missing(u64::MAX).is_empty());
        assert_eq!(missing(0), ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF"]);
        assert_eq!(missing(1 << 12 | 1 << 13 | 1 << 21), Vec::<&str>::new());
        assert_eq!(missing(1 << 12 | 1 << 39), ["CAP_NET_RAW"]);
    }
}
