//! Locations for rules, between those of others.

use std::collections::BTreeSet;

/// A free location for each of `wanted`, which are ascending: the wanted one or a later one, so
/// that their order stays. Nothing if there are not enough below `end`.
pub(super) fn assign(wanted: &[u32], others: &BTreeSet<u32>, end: u32) -> Option<Vec<u32>> {
    let mut next = 0;
    let ascending: Option<Vec<u32>> = wanted
        .iter()
        .map(|at| {
            let free = (next.max(*at)..end).find(|location| !others.contains(location))?;
            next = free + 1;
            Some(free)
        })
        .collect();
    // Wishes may lie so high that the table ends too soon: then as low as can be.
    ascending.or_else(|| {
        let free: Vec<u32> =
            (0..end).filter(|at| !others.contains(at)).take(wanted.len()).collect();
        (free.len() == wanted.len()).then_some(free)
    })
}

#[cfg(test)]
mod tests {
    use super::assign;

    #[test]
    fn locations_keep_their_order_between_those_of_others() {
        let others = [1, 2, 5].into();
        assert_eq!(assign(&[0, 1, 2, 4], &others, 9), Some(vec![0, 3, 4, 6]));
        assert_eq!(assign(&[7, 7], &others, 9), Some(vec![7, 8]));
        assert_eq!(assign(&[8, 8], &others, 9), Some(vec![0, 3]), "there is room below");
        assert_eq!(assign(&[0; 4], &others, 6), None);
        assert_eq!(assign(&[], &others, 0), Some(vec![]));
    }
}
