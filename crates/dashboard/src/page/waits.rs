//! How long the deliveries of a route took: a sentence, and a bar for each span of time.

use std::time::Duration;

use maud::{Markup, html};
use pillarbox_core::Result;
use pillarbox_core::limits::WAITS_MAX;
use pillarbox_core::port::{WAIT_BOUNDS, Waits};

use crate::api::WAITS_WITHIN;
use crate::text;

use super::parts;

/// The longest bound: what waited longer is not told apart.
const LONGEST: Duration = WAIT_BOUNDS[WAIT_BOUNDS.len() - 1];

/// The waits of a route, or why they are not shown.
pub(super) fn shown(waits: &Result<Waits>) -> Markup {
    match waits {
        Ok(waits) if waits.entries() > 0 => histogram(waits),
        Ok(_) => html! {
            p.nothing {
                "No event that was delivered in the last " (hours()) " is kept, so there is nothing to measure. "
                (parts::words("With `retention.delivered = \"0s\"`, events are deleted when they are delivered: keep them for a while to see how long they took."))
            }
        },
        Err(error) => html! {
            p.nothing { "How long events waited cannot be read now: " (text::visible(error.message())) ". Reload the page to try again." }
        },
    }
}

fn histogram(waits: &Waits) -> Markup {
    let highest = waits.counts.iter().copied().max().unwrap_or(0).max(1);
    // What is there is seen, however little it is beside the others.
    let width = |count: u64| if count == 0 { 0 } else { (count * 100 / highest).max(1) };
    html! {
        p { (sentence(waits)) }
        ol.waits {
            @for (place, count) in waits.counts.iter().copied().enumerate() {
                li {
                    span.label { (label(place)) }
                    svg.length viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" { rect width=(width(count)) height="8" {} }
                    span.number { (parts::number(count)) }
                }
            }
        }
        p.legend { "From staging to the confirmed delivery, delays and retries included." }
    }
}

/// What the bars show, in words.
fn sentence(waits: &Waits) -> String {
    let (entries, ago) = (waits.entries(), hours());
    let which = match entries >= u64::from(WAITS_MAX) {
        true => format!("the last {}", text::count(entries)),
        false => format!("the {} delivered in the last {ago}", text::count(entries)),
    };
    // The last of the faster half, and the first of the slowest hundredth.
    let half = waits.place_of(entries.saturating_sub(1) / 2);
    let slow = waits.place_of(entries * 99 / 100);
    let within = half.and_then(|place| WAIT_BOUNDS.get(place)).map(|bound| format!("under {}", span(*bound)));
    let took = within.clone().unwrap_or_else(|| format!("over {}", span(LONGEST)));
    if entries == 1 {
        return format!("The only event delivered in the last {ago} took {took}.");
    }
    if within.is_none() {
        return format!("At least half of {which} took {took}.");
    }
    let slower = slow.filter(|_| slow != half).and_then(|place| WAIT_BOUNDS.get(place.checked_sub(1)?));
    match (slower, entries < 100) {
        (Some(over), true) => format!("Half of {which} took {took}; the slowest over {}.", span(*over)),
        (Some(over), false) => {
            format!("Half of {which} took {took}; the slowest 1 in 100 over {}.", span(*over))
        }
        (None, true) => format!("All of {which} took {took}."),
        (None, false) => format!("At least 99 in 100 of {which} took {took}."),
    }
}

fn label(place: usize) -> String {
    match WAIT_BOUNDS.get(place) {
        Some(bound) => format!("≤ {}", span(*bound)),
        None => format!("over {}", span(LONGEST)),
    }
}

/// A bound in one unit.
fn span(bound: Duration) -> String {
    let (millis, seconds) = (bound.as_millis(), bound.as_secs());
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// How far back is looked.
fn hours() -> String {
    format!("{} hours", WAITS_WITHIN.as_secs() / 3600)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(waits: &[(u64, u64)], wanted: &str) {
        let mut counted = Waits::default();
        for (entries, millis) in waits {
            (0..*entries).for_each(|_| counted.add(Duration::from_millis(*millis)));
        }
        assert_eq!(sentence(&counted), wanted, "{waits:?}");
    }

    #[test]
    fn the_sentence_tells_of_the_half_and_of_the_slowest() {
        check(
            &[(500, 40), (490, 900), (10, 6_000)],
            "Half of the last 1,000 took under 50 ms; the slowest 1 in 100 over 5 s.",
        );
        check(&[(991, 40), (9, 6_000)], "At least 99 in 100 of the last 1,000 took under 50 ms.");
        check(
            &[(3, 40), (1, 20_000)],
            "Half of the 4 delivered in the last 24 hours took under 50 ms; the slowest over 5 s.",
        );
        check(&[(1, 5)], "The only event delivered in the last 24 hours took under 10 ms.");
        check(&[(2, 5)], "All of the 2 delivered in the last 24 hours took under 10 ms.");
        check(
            &[(1, 5), (9, 7_200_000)],
            "At least half of the 10 delivered in the last 24 hours took over 1 h.",
        );
    }

    #[test]
    fn bounds_are_told_in_one_unit() {
        let labels: Vec<String> = (0..=WAIT_BOUNDS.len()).map(label).collect();
        let wanted = [
            "≤ 10 ms",
            "≤ 50 ms",
            "≤ 100 ms",
            "≤ 500 ms",
            "≤ 1 s",
            "≤ 5 s",
            "≤ 30 s",
            "≤ 1 min",
            "≤ 5 min",
            "≤ 1 h",
            "over 1 h",
        ];
        assert_eq!(labels, wanted);
    }
}
