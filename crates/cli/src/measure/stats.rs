//! Rates and ratios of interleaved rounds.

use std::time::Instant;

/// Work done in a second, from a start until now.
#[must_use]
pub fn rate(count: u64, since: Instant) -> f64 {
    let seconds = since.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let count = count as f64;
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

/// The middle one; the mean of the two middle ones for an even number.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The median of the rounds' ratios: both sides of one round met the same weather.
#[must_use]
pub fn ratio(values: &[f64], bases: &[f64]) -> f64 {
    let ratios: Vec<f64> =
        values.iter().zip(bases).map(|(value, base)| if *base > 0.0 { value / base } else { 0.0 }).collect();
    (median(&ratios) * 100.0).round() / 100.0
}

/// The value that so many of a hundred do not exceed. The values are sorted.
#[must_use]
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_one_bad_round() {
        assert_eq!(median(&[3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
        assert_eq!(ratio(&[2.0, 4.0, 1.0], &[1.0, 2.0, 100.0]), 2.0);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (100.0, 198.0));
        assert_eq!((percentile(&values[..1], 99), percentile(&[], 99)), (1.0, 0.0));
    }
}
