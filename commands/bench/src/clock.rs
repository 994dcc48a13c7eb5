//! How fast the machine is at the moment.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Steps whose time is taken at once, some tens of microseconds: most are not interrupted.
const STEPS: u32 = 50_000;
/// Operations in a step, each of one cycle on any recent core, and each waiting for the one before.
const OPERATIONS: f64 = 2.0;

/// The effective clock in GHz, from a tenth of a second of dependent additions.
///
/// A guest's clock depends on the host's power management and neighbours, and no register shows it.
/// Figures of two runs can only be compared if this is the same. For a build without optimisation
/// it means nothing.
pub(crate) fn effective_ghz() -> f64 {
    let started = Instant::now();
    let mut rates = Vec::new();
    let mut value = black_box(1);
    while started.elapsed() < Duration::from_millis(100) {
        let start = Instant::now();
        value = chain(value);
        let ns = start.elapsed().as_nanos().max(1) as f64;
        rates.push(f64::from(STEPS) * OPERATIONS / ns);
    }
    black_box(value);
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Additions, with an exclusive or between them: a row of additions alone the compiler would turn
/// into one multiplication.
#[inline(never)]
fn chain(mut value: u64) -> u64 {
    let (addend, mask) = (black_box(0x9e37_79b9_7f4a_7c15), black_box(0x5555_5555_5555_5555));
    for _ in 0..STEPS {
        value = value.wrapping_add(addend) ^ mask;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_does_what_it_says() {
        let step = |value: u64| value.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ 0x5555_5555_5555_5555;
        assert_eq!(chain(7), (0..STEPS).fold(7, |value, _| step(value)));
        assert!(effective_ghz() > 0.0);
    }
}
