//! The lanes of a route: a cell each, shaded by what waits in it.

use maud::{Markup, html};
use pillarbox_core::limits::LANE_WAITING_MAX;
use pillarbox_core::port::LaneBacklog;
use pillarbox_core::{Result, RouteName};
use serde::Deserialize;

use crate::shared::Shared;
use crate::text;

use super::parts;

/// What a route's page shows beyond the rest.
#[derive(Deserialize)]
pub(crate) struct RouteQuery {
    /// Set, with any value: the lanes too.
    lanes: Option<String>,
}

/// The classes of cells. Each step has ten times as many entries as the one before.
const SHADES: [&str; 5] = ["shade-0", "shade-1", "shade-2", "shade-3", "shade-4"];

/// The lanes if they are asked for, otherwise the way to them.
pub(super) async fn section(shared: &Shared, name: &RouteName, query: &RouteQuery) -> Markup {
    let path = parts::route_path(shared, name.as_str());
    let lanes = match query.lanes {
        Some(_) => Some(shared.ports.admin.lanes_of(name).await),
        None => None,
    };
    html! {
        section #lanes {
            h2 { "Lanes" }
            @match &lanes {
                Some(lanes) => { (shown(lanes)) p { a href=(path) { "Hide lanes" } } }
                None => { p { a href={ (path) "?lanes#lanes" } { "Show lanes" } } }
            }
        }
    }
}

fn shown(lanes: &Result<Vec<LaneBacklog>>) -> Markup {
    match lanes {
        Ok(lanes) if lanes.is_empty() => html! {
            p.nothing { (parts::words("No relay has read this route by lanes. Relays do so if the route has `order = \"key\"`.")) }
        },
        Ok(lanes) => cells(lanes),
        Err(error) => html! {
            p.nothing { "The lanes cannot be read now: " (text::visible(error.message())) ". Reload the page to try again." }
        },
    }
}

fn cells(lanes: &[LaneBacklog]) -> Markup {
    html! {
        p { (sentence(lanes)) }
        ol.lanes {
            @for lane in lanes {
                @let words = words(lane);
                li.lane.(shade(lane.waiting)).(if lane.owner.is_some() { "held" } else { "free" }) tabindex="0" title=(words) {
                    span aria-hidden="true" { (lane.lane) }
                    span.words { (words) }
                }
            }
        }
        p.legend { "A cell for each lane: the darker it is, the more events wait, in steps of 1, 10, 100 and 1,000. A dashed cell is held by no relay." }
    }
}

/// What the cells show, in words.
fn sentence(lanes: &[LaneBacklog]) -> String {
    let waiting: u64 = lanes.iter().map(|lane| lane.waiting).sum();
    let used = lanes.iter().filter(|lane| lane.waiting > 0).count();
    let more = if lanes.iter().any(is_cut) { "≥ " } else { "" };
    let backlog = match waiting {
        0 => "Nothing waits in any lane.".to_owned(),
        1 => format!("1 event waits in 1 of {} lanes.", lanes.len()),
        _ => format!("{more}{} wait in {used} of {} lanes.", text::events(waiting), lanes.len()),
    };
    let advice = match lanes.iter().filter(|lane| lane.owner.is_none()).count() {
        0 => return backlog,
        free if free == lanes.len() => {
            "No relay holds a lane. Start a relay of this route, or resume the route if it is paused."
                .to_owned()
        }
        1 => "No relay holds one of them. If this lasts, start another relay of this route.".to_owned(),
        free => {
            format!("No relay holds {free} of them. If this lasts, start another relay of this route.")
        }
    };
    format!("{backlog} {advice}")
}

/// One lane in words: `lane 17: 120 wait, held by web-17`.
fn words(lane: &LaneBacklog) -> String {
    let waiting = match lane.waiting {
        0 => "nothing waits".to_owned(),
        1 => "1 waits".to_owned(),
        waiting => format!("{}{} wait", if is_cut(lane) { "≥ " } else { "" }, text::count(waiting)),
    };
    let owner = lane.owner.as_deref().map_or_else(|| "no relay".to_owned(), text::visible);
    format!("lane {}: {waiting}, held by {owner}", lane.lane)
}

/// Whether more may wait than was counted.
fn is_cut(lane: &LaneBacklog) -> bool {
    lane.waiting >= u64::from(LANE_WAITING_MAX)
}

fn shade(waiting: u64) -> &'static str {
    let step = waiting.checked_ilog10().map_or(0, |tens| tens + 1);
    SHADES[usize::try_from(step).unwrap_or(usize::MAX).min(SHADES.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(lane: u8, waiting: u64, owner: Option<&str>) -> LaneBacklog {
        LaneBacklog { lane, waiting, owner: owner.map(str::to_owned) }
    }

    #[test]
    fn a_lane_says_what_waits_and_who_holds_it() {
        assert_eq!(words(&lane(17, 120, Some("web-17"))), "lane 17: 120 wait, held by web-17");
        assert_eq!(words(&lane(0, 0, None)), "lane 0: nothing waits, held by no relay");
        assert_eq!(words(&lane(1, 1_000, Some("a"))), "lane 1: ≥ 1,000 wait, held by a");
    }

    #[test]
    fn all_lanes_are_told_in_a_sentence() {
        let held = [lane(0, 3, Some("a")), lane(1, 0, Some("a"))];
        assert_eq!(sentence(&held), "3 events wait in 1 of 2 lanes.");
        let cut = [lane(0, 1_000, None), lane(1, 5, Some("a"))];
        assert!(
            sentence(&cut).starts_with("≥ 1,005 events wait in 2 of 2 lanes. No relay holds one of them.")
        );
        assert!(
            sentence(&[lane(0, 0, None)]).starts_with("Nothing waits in any lane. No relay holds a lane.")
        );
    }

    #[test]
    fn a_shade_is_ten_times_the_one_before() {
        let shades = [0, 1, 9, 10, 99, 100, 999, 1_000].map(shade);
        assert_eq!(shades, [0, 1, 1, 2, 2, 3, 3, 4].map(|step: usize| SHADES[step]));
    }
}
