//! Fifteen minutes of a route, in points of five seconds.

use std::collections::VecDeque;
use std::time::Duration;

use pillarbox_core::Timestamp;

use super::RATE_WINDOW;

/// How long one point lasts.
const POINT: Duration = Duration::from_secs(5);
/// How many points are kept: fifteen minutes.
pub(crate) const POINTS: usize = 180;
/// How many looks are remembered to compare with.
const LOOKS_MAX: usize = 32;

/// Events per second that came and went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) came: f64,
    pub(crate) went: f64,
}

/// The rates of a route or a consumer over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    points: VecDeque<(Timestamp, Point)>,
    /// How many entries waited at the last looks.
    waited: VecDeque<(Timestamp, u64)>,
    now: Point,
}

impl History {
    /// Adds a look: how many entries wait, how many were delivered within [`RATE_WINDOW`], and how many ended at all.
    pub(crate) fn add(&mut self, at: Timestamp, waits: u64, delivered: u64, ended: u64) {
        let per_second = |events: u64| events as f64 / RATE_WINDOW.as_secs_f64();
        // What came is what ended and what waits more than before. A requeued entry comes again.
        let before = self.waited.iter().find(|(then, _)| at.since(*then) <= RATE_WINDOW + POINT);
        let more = before
            .filter(|(then, _)| *then < at)
            .map_or(0.0, |(then, waited)| (waits as f64 - *waited as f64) / at.since(*then).as_secs_f64());
        self.now = Point { came: (per_second(ended) + more).max(0.0), went: per_second(delivered) };
        self.waited.push_back((at, waits));
        while self.waited.len() > LOOKS_MAX {
            self.waited.pop_front();
        }
        match self.points.back_mut() {
            Some((then, point)) if at.since(*then) < POINT => *point = self.now,
            _ => self.points.push_back((at, self.now)),
        }
        let oldest = at.saturating_sub(POINT * u32::try_from(POINTS).unwrap_or(u32::MAX));
        while self.points.front().is_some_and(|(then, _)| *then < oldest) || self.points.len() > POINTS {
            self.points.pop_front();
        }
    }

    /// The rates now.
    pub(crate) fn now(&self) -> Point {
        self.now
    }

    /// The points, each with its place from the right: 0 is the newest.
    pub(crate) fn points(&self) -> impl Iterator<Item = (usize, Point)> {
        let newest = self.points.back().map_or(Timestamp::MIN, |(at, _)| *at);
        let place = move |at: Timestamp| {
            usize::try_from(newest.since(at).as_secs() / POINT.as_secs()).unwrap_or(usize::MAX)
        };
        self.points.iter().map(move |(at, point)| (place(*at), *point))
    }

    /// Whether anything happened within the time that is kept.
    pub(crate) fn has_moved(&self) -> bool {
        self.points.iter().any(|(_, point)| point.came > 0.0 || point.went > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::MIN.saturating_add(Duration::from_secs(1_000_000 + secs))
    }

    #[test]
    fn what_comes_is_what_ends_and_what_waits_more_than_before() {
        let mut history = History::default();
        history.add(at(0), 0, 0, 0);
        // In ten seconds 50 were delivered, and 100 more wait: 15 a second came.
        history.add(at(10), 100, 50, 50);
        assert_eq!(history.now(), Point { came: 15.0, went: 5.0 });
        // Nothing comes; the backlog goes.
        history.add(at(20), 0, 100, 100);
        assert_eq!(history.now(), Point { came: 0.0, went: 10.0 });
    }

    #[test]
    fn a_history_is_bounded_in_time_and_number() {
        let mut history = History::default();
        (0..5_000).for_each(|secs| history.add(at(secs), 1, 10, 10));
        assert!(history.points().count() <= POINTS);
        assert_eq!(history.points().map(|(place, _)| place).max(), Some(POINTS - 1));
        assert!(history.has_moved());
        history.add(at(10_000), 0, 0, 0);
        assert_eq!(history.points().count(), 1);
        assert!(!history.has_moved());
    }
}
