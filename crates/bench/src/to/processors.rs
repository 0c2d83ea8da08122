//! How busy the processors of this machine are while the database, the destination and the relay share them, and how much
//! of that is this process.

use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// The processor time that this machine has spent, all programs together, at one moment; `None` where the kernel does
/// not tell.
pub(super) struct Busy {
    at: Instant,
    spent: Option<f64>,
}

impl Busy {
    /// Looks.
    pub(super) fn now() -> Self {
        let spent = std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(busy_seconds);
        Self { at: Instant::now(), spent }
    }

    /// How much of all processors' time was spent since then.
    pub(super) fn share(&self) -> Option<f64> {
        let now = Self::now();
        let processors = u32::try_from(available_parallelism().ok()?.get()).ok()?;
        Some(share(now.spent? - self.spent?, now.at.duration_since(self.at), processors))
    }
}

/// The processor time that this process has spent at one moment; `None` where the kernel does not tell.
pub(super) struct Own(Option<Duration>);

impl Own {
    /// Looks.
    pub(super) fn now() -> Self {
        Self(own_time())
    }

    /// Microseconds that were spent since then on each of so many entries.
    pub(super) fn micros(&self, entries: u32) -> Option<f64> {
        let spent = own_time()?.saturating_sub(self.0?);
        Some(spent.as_secs_f64() * 1e6 / f64::from(entries.max(1)))
    }
}

// The runtime's threads live as long as the process.
fn own_time() -> Option<Duration> {
    processor_time("/proc/self/task")
}

/// The time of all threads of a process that live; `None` where the kernel does not tell.
pub(crate) fn processor_time(threads: &str) -> Option<Duration> {
    let threads = std::fs::read_dir(threads).ok()?;
    let nanos = threads.filter_map(|thread| {
        let told = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse::<u64>().ok()
    });
    Some(Duration::from_nanos(nanos.sum()))
}

/// So many seconds of processor time, of what so many processors have in this time. A reading may be a little late.
fn share(spent: f64, time: Duration, processors: u32) -> f64 {
    let all = time.as_secs_f64() * f64::from(processors);
    (spent / all.max(f64::EPSILON)).clamp(0.0, 1.0)
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
    fn work_of_this_process_is_counted_for_each_entry() {
        let own = Own::now();
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(50) {
            std::hint::black_box(busy_seconds("cpu  1 2 3"));
        }
        if let (Some(one), Some(ten)) = (own.micros(1), own.micros(10)) {
            assert!(one > 0.0 && ten < one, "{one} {ten}");
        }
    }

    #[test]
    fn a_share_is_of_the_time_of_all_processors() {
        let second = Duration::from_secs(1);
        assert_eq!(share(0.5, second, 2), 0.25);
        assert_eq!(share(1.5, second * 2, 1), 0.75);
        assert_eq!(share(4.1, second, 4), 1.0, "a reading may be a little late");
        assert_eq!(share(-0.1, second, 4), 0.0);
        assert_eq!(Busy { at: Instant::now(), spent: None }.share(), None);
    }
}
