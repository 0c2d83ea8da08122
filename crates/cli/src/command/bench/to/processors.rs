//! What this machine's processors allow when the database, the destination and the relay share them.

use std::thread::available_parallelism;

/// The processor time that this machine has spent, all programs together, at one moment; `None` where the kernel does
/// not tell.
pub(super) struct Busy(Option<f64>);

impl Busy {
    /// Looks.
    pub(super) fn now() -> Self {
        Self(std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(busy_seconds))
    }

    /// Seconds of processor time that were spent on each of so many entries since then.
    pub(super) fn each(&self, entries: u32) -> Option<f64> {
        let Self(now) = Self::now();
        Some((now? - self.0?).max(0.0) / f64::from(entries.max(1)))
    }
}

/// The most entries a second if feeding the client and draining the database each cost so much as they did alone, and
/// all processors were busy all the time.
pub(super) fn together(client: Option<f64>, drain: Option<f64>) -> Option<f64> {
    let processors = u32::try_from(available_parallelism().ok()?.get()).ok()?;
    let each = client? + drain?;
    (each > 0.0).then(|| f64::from(processors) / each)
}

/// How much of all processors' time was spent while entries of this cost went by at this rate.
pub(super) fn busy_share(each: Option<f64>, per_second: f64) -> Option<f64> {
    let processors = u32::try_from(available_parallelism().ok()?.get()).ok()?;
    Some((each? * per_second / f64::from(processors)).min(1.0))
}

/// The first line counts hundredths of a second: user, nice, system, idle, waiting, interrupts twice, stolen, …
fn busy_seconds(stat: &str) -> Option<f64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let spent: Vec<f64> = line.split_whitespace().map_while(|ticks| ticks.parse().ok()).collect();
    Some([0, 1, 2, 5, 6].iter().filter_map(|place| spent.get(*place)).sum::<f64>() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_idle_or_stolen_is_not_spent() {
        assert_eq!(busy_seconds("cpu  100 200 300 9999 8888 10 20 7777 0 0\ncpu0 1 1 1 1\n"), Some(6.3));
        assert_eq!(busy_seconds("intr 1 2 3"), None);
    }

    #[test]
    fn both_costs_share_the_processors() {
        let processors = f64::from(u32::try_from(available_parallelism().unwrap().get()).unwrap());
        assert_eq!(together(Some(0.25), Some(0.75)), Some(processors));
        assert_eq!(together(None, Some(1.0)), None);
    }

    #[test]
    fn processors_are_busy_with_what_each_entry_costs() {
        let processors = f64::from(u32::try_from(available_parallelism().unwrap().get()).unwrap());
        assert_eq!(busy_share(Some(0.25), processors), Some(0.25));
        assert_eq!(busy_share(Some(0.5), 4.0 * processors), Some(1.0), "a reading may be a little late");
        assert_eq!(busy_share(None, 1.0), None);
    }
}
