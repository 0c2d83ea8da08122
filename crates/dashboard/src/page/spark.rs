//! A small picture of fifteen minutes: what came above the line, what went below it.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::sampler::{History, POINTS};
use crate::text;

const WIDTH: usize = 180;
const HALF: f64 = 13.0;

/// The picture of a route's history.
pub(super) fn spark(history: &History) -> Markup {
    let points: Vec<_> = history.points().collect();
    let highest = points.iter().map(|(_, point)| point.came.max(point.went)).fold(0.0, f64::max);
    let label = format!(
        "15 minutes: now {} in and {} out per second, at most {}",
        text::rate(history.now().came),
        text::rate(history.now().went),
        text::rate(highest)
    );
    let area = |of: fn(&crate::sampler::Point) -> f64, sign: f64| {
        let mut path = String::new();
        for (place, point) in &points {
            let x = WIDTH.saturating_sub(place * WIDTH / POINTS);
            let height = if highest > 0.0 { of(point) / highest * (HALF - 1.0) } else { 0.0 };
            // Writing to a text cannot fail.
            let _ =
                write!(path, "{}{x} {:.1}", if path.is_empty() { "M" } else { "L" }, HALF - sign * height);
        }
        if let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) {
            let x = |place: usize| WIDTH.saturating_sub(place * WIDTH / POINTS);
            let _ = write!(path, "L{} {HALF}L{} {HALF}Z", x(*last), x(*first));
        }
        path
    };
    html! {
        svg.spark viewBox={ "0 0 " (WIDTH) " 26" } width=(WIDTH) height="26" role="img" aria-label=(label) preserveAspectRatio="none" {
            line.axis x1="0" y1=(HALF) x2=(WIDTH) y2=(HALF) {}
            path.came d=(area(|point| point.came, 1.0)) {}
            path.went d=(area(|point| point.went, -1.0)) {}
        }
    }
}
