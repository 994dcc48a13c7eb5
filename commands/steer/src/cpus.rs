//! Lists of CPUs.

use crate::SteerError;

const ONLINE: &str = "/sys/devices/system/cpu/online";
/// No machine has more.
const MOST: u32 = 8192;

/// The CPUs of a list, or all that are online.
pub(crate) fn of(list: Option<&str>) -> Result<Vec<u32>, SteerError> {
    match list {
        Some(list) => parse(list).ok_or_else(|| SteerError::Cpus(list.into())),
        None => {
            let online = std::fs::read_to_string(ONLINE).unwrap_or_else(|_| "0".into());
            Ok(parse(online.trim()).unwrap_or_else(|| vec![0]))
        }
    }
}

fn parse(list: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    let twice = |i: usize| cpus[..i].contains(&cpus[i]);
    (!(0..cpus.len()).any(twice)).then_some(cpus)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(parse("3,0-1"), Some(vec![3, 0, 1]));
        for wrong in ["", "a", "1-0", "0,0", "0-99999999", "1,,2", "-1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
