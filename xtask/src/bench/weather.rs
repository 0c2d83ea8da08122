//! Whether a measurement had the processors to itself: on a shared host they are lent to others now and then.

use std::fs;

use crate::Result;

/// The most of the processors' time that others may take during a measurement, and how often it is taken before the calmest
/// one has to do.
const ONE_ROUND: (f64, u32) = (0.02, 4);
/// The same of a measurement of minutes whose figures are medians of several rounds.
const MEDIANS: (f64, u32) = (0.1, 2);

/// What was seen of it.
#[derive(Debug)]
pub(crate) struct Weather {
    /// The most that others may take.
    stolen_max: f64,
    /// How often a measurement is taken at most.
    tries: u32,
    /// How many measurements were taken again.
    again: u32,
    /// The most that was stolen during one that counts.
    worst: f64,
}

impl Default for Weather {
    fn default() -> Self {
        Self::of(ONE_ROUND)
    }
}

impl Weather {
    /// For measurements whose figures are medians of several rounds.
    pub(crate) fn of_medians() -> Self {
        Self::of(MEDIANS)
    }

    fn of((stolen_max, tries): (f64, u32)) -> Self {
        Self { stolen_max, tries, again: 0, worst: 0.0 }
    }

    /// Measures, again if others took the processors meanwhile. Whether to is decided before anybody looks at the figures.
    pub(crate) fn calm<T>(&mut self, mut measure: impl FnMut() -> Result<T>) -> Result<T> {
        self.calm_by(&mut ticks, &mut measure)
    }

    fn calm_by<T>(
        &mut self,
        ticks: &mut impl FnMut() -> Option<Ticks>,
        measure: &mut impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut calmest: Option<(f64, T)> = None;
        for left in (0..self.tries).rev() {
            let before = ticks();
            let measured = measure()?;
            let stolen = before.zip(ticks()).map_or(0.0, |(before, after)| after.stolen_since(before));
            if calmest.as_ref().is_none_or(|(least, _)| stolen < *least) {
                calmest = Some((stolen, measured));
            }
            if stolen <= self.stolen_max || left == 0 {
                break;
            }
            eprintln!(
                "bench: other machines took {:.0} % of the processor time (steal); this measurement is \
                 repeated",
                stolen * 100.0
            );
            self.again += 1;
        }
        let (stolen, measured) = calmest.ok_or("nothing was measured")?;
        self.worst = self.worst.max(stolen);
        Ok(measured)
    }

    /// One sentence for people.
    pub(crate) fn describe(&self) -> String {
        let times = match self.again {
            0 => "No measurement had to be taken again".to_owned(),
            1 => "One measurement was taken again".to_owned(),
            again => format!("{again} measurements were taken again"),
        };
        format!(
            "{times} because others took more than {:.0} % of the processors' time; during those that count they took at \
             most {:.1} %.",
            self.stolen_max * 100.0,
            self.worst * 100.0,
        )
    }
}

/// Processor time since the machine began, in ticks of all processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    fn stolen_since(self, before: Self) -> f64 {
        let [stolen, all] = [self.stolen - before.stolen, (self.all - before.all).max(1)]
            .map(|ticks| f64::from(u32::try_from(ticks).unwrap_or(u32::MAX)));
        stolen / all
    }
}

/// `None` where the kernel does not tell.
fn ticks() -> Option<Ticks> {
    parsed(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line: user, nice, system, idle, waiting, interrupts twice, stolen; what follows is part of the first two.
fn parsed(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let spent: Vec<u64> = line.split_whitespace().map_while(|ticks| ticks.parse().ok()).take(8).collect();
    Some(Ticks { all: spent.iter().sum(), stolen: *spent.get(7)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each measurement takes 100 ticks, of which these are stolen.
    fn measured(stolen: &[u64]) -> (u32, Weather) {
        let (mut measurements, mut looks) = (0, 0);
        let mut weather = Weather::default();
        let mut ticks = || {
            let over: usize = looks / 2 + looks % 2;
            looks += 1;
            let all = u64::try_from(over).ok()? * 100;
            Some(Ticks { all, stolen: stolen.iter().take(over).sum() })
        };
        let mut measure = || {
            measurements += 1;
            Ok(measurements)
        };
        (weather.calm_by(&mut ticks, &mut measure).unwrap(), weather)
    }

    #[test]
    fn a_calm_measurement_counts_at_once() {
        let (which, weather) = measured(&[2, 0]);
        assert_eq!((which, weather.again, weather.worst), (1, 0, 0.02));
    }

    #[test]
    fn a_disturbed_one_is_taken_again_and_the_calmest_counts_in_the_end() {
        let (which, weather) = measured(&[30, 9, 1]);
        assert_eq!((which, weather.again, weather.worst), (3, 2, 0.01));
        let (which, weather) = measured(&[30, 9, 20, 40, 0]);
        assert_eq!((which, weather.again, weather.worst), (2, 3, 0.09));
        let said = weather.describe();
        assert!(
            said.starts_with("3 measurements were taken again because others took more than 2 %"),
            "{said}"
        );
        assert!(said.ends_with("during those that count they took at most 9.0 %."), "{said}");
    }

    #[test]
    fn guests_are_counted_once() {
        let ticks = parsed("cpu  1 2 3 4 5 6 7 8 1 2\ncpu0 9 9\n");
        assert_eq!(ticks, Some(Ticks { all: 36, stolen: 8 }));
        assert_eq!(parsed("intr 1 2"), None);
    }
}
