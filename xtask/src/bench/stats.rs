//! Medians, and ratios of what ran in the same round.

use super::ours::CLASSIC;
use super::table::Row;

/// The middle one; the mean of the two middle ones for an even number.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Gives each row its ratio to the raw classic loop of the same rounds, if that ran, and puts the fastest first.
pub(crate) fn compare(rows: &mut [Row]) {
    let classic = rows.iter().find(|row| row.pointer == Some(CLASSIC)).map(|row| row.rates.clone());
    for row in rows.iter_mut() {
        let rounds = row.rates.iter().zip(classic.iter().flatten());
        let ratios: Vec<f64> = rounds.map(|(rate, classic)| rate / classic).collect();
        row.to_classic = (!ratios.is_empty()).then(|| median(&ratios));
    }
    rows.sort_by(|a, b| median(&b.rates).total_cmp(&median(&a.rates)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 9.0]), median(&[4.0, 2.0])), (0.0, 3.0, 3.0));
    }

    #[test]
    fn ratios_are_of_the_same_round_and_the_fastest_comes_first() {
        let mut slow = Row::of_ours("classic", CLASSIC, "", 1);
        slow.rates = vec![10.0, 100.0, 10.0];
        let mut fast = Row::of_ours("lanes", "/x", "", 1);
        fast.rates = vec![40.0, 300.0, 50.0];
        let mut rows = [slow, fast];
        compare(&mut rows);
        assert_eq!((rows[0].name.as_str(), rows[0].to_classic), ("lanes", Some(4.0)));
        assert_eq!(rows[1].to_classic, Some(1.0));
    }
}
