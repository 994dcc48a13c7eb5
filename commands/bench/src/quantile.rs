//! Quantiles of samples.

/// The value that a share of all values does not exceed; nothing if there are none.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied()
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_of_the_sorted_values() {
        let values: Vec<f64> = (0..100).rev().map(f64::from).collect();
        assert_eq!(
            [0.5, 0.99, 1.0].map(|share| quantile(&values, share)),
            [50.0, 99.0, 99.0].map(Some)
        );
        assert_eq!(quantile(&[], 0.5), None);
    }
}
