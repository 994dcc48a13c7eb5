//! How many values a per-cpu map entry has.

use std::sync::OnceLock;

const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// The number of CPUs the kernel can ever have, which is the number of values in each entry of a
/// per-cpu map. Read once; `None` if sysfs is not mounted or unreadable.
pub fn possible_cpus() -> Option<usize> {
    static COUNT: OnceLock<Option<usize>> = OnceLock::new();
    *COUNT.get_or_init(|| parse(&std::fs::read_to_string(POSSIBLE).ok()?))
}

/// The list's last CPU plus one: the kernel numbers possible CPUs without relying on the gaps.
fn parse(list: &str) -> Option<usize> {
    let last = list.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse("0\n"), Some(1));
        assert_eq!(parse("0-1\n"), Some(2));
        assert_eq!(parse("0-3,8-15\n"), Some(16));
        assert_eq!(parse(""), None);
        assert_eq!(parse("all"), None);
    }
}
