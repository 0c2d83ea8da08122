//! What is told in a sentence if nothing is wrong.

use std::time::Duration;

use crate::port::RouteCounts;
use crate::saga::SagaStatus;
use crate::shown::counted;

use super::routes::running;
use super::{Look, whole};

/// The sentence. It says that routes move only if a relay may deliver everything that waits.
pub(super) fn sentence(look: &Look<'_>) -> String {
    let routes = look.routes.len();
    if routes == 0 {
        return "No events have been staged yet.".to_owned();
    }
    if let Some(still) = unrelayed(look).or_else(|| paused(look)) {
        return still;
    }
    let noun = if routes == 1 { "The only route is".to_owned() } else { format!("All {routes} routes are") };
    let waiting: u64 = look.routes.iter().map(RouteCounts::undrained).sum();
    let sagas = look.sagas.of(SagaStatus::Running);
    match look.routes.iter().filter_map(|counts| counts.oldest_due_age).max() {
        Some(age) => format!("{noun} moving; the oldest due event has waited {}.", shown(age)),
        None if waiting > 0 => format!("{noun} moving; nothing is late."),
        None if sagas > 0 => format!("{noun} drained; {sagas} sagas are running."),
        None => format!("{noun} drained; nothing waits."),
    }
}

/// Entries wait and no relay runs. It is no problem yet, and nothing moves.
fn unrelayed(look: &Look<'_>) -> Option<String> {
    let is_still = |counts: &&RouteCounts| running(&counts.route, look.relays).next().is_none();
    let still = waiting(look).filter(|counts| counts.paused.is_none()).filter(is_still);
    let (names, wait) = told(still.collect())?;
    Some(format!("No relay of {names} is running; {wait}."))
}

/// Entries wait on routes that an operator paused.
fn paused(look: &Look<'_>) -> Option<String> {
    let still: Vec<_> = waiting(look).filter(|counts| counts.paused.is_some()).collect();
    let (noun, verb) = if still.len() == 1 { ("Route", "is") } else { ("Routes", "are") };
    let (names, wait) = told(still)?;
    Some(format!("{noun} {names} {verb} paused; {wait}."))
}

fn waiting<'a>(look: &Look<'a>) -> impl Iterator<Item = &'a RouteCounts> + use<'a> {
    look.routes.iter().filter(|counts| counts.undrained() > 0)
}

/// The first route and how many more there are, and what waits on all of them.
fn told(routes: Vec<&RouteCounts>) -> Option<(String, String)> {
    let first = &routes.first()?.route;
    let names = match routes.len() - 1 {
        0 => first.to_string(),
        1 => format!("{first} and 1 other"),
        more => format!("{first} and {more} others"),
    };
    let waiting =
        counted(routes.iter().map(|counts| counts.undrained()).sum(), "entry waits", "entries wait");
    let oldest = routes.iter().filter_map(|counts| counts.oldest_due_age).max();
    let oldest = oldest.map(|age| format!(", the oldest due one for {}", shown(age))).unwrap_or_default();
    Some((names, format!("{waiting}{oldest}")))
}

/// An age for people: tenths below ten seconds, whole seconds above.
fn shown(age: Duration) -> String {
    if age < Duration::from_secs(10) {
        return format!("{:.1} s", age.as_secs_f64());
    }
    whole(age)
}
