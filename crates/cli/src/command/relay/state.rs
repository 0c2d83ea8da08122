//! The state of the daemon in one line, on a terminal.

use std::io::IsTerminal;

use pillarbox_core::RouteName;
use pillarbox_engine::{CircuitState, RelayState, Tally};
use tokio::time::Instant;

use crate::logging;
use crate::output::Output;

/// Whether there is somebody to look at it.
pub(super) fn is_wanted(out: Output) -> bool {
    !out.quiet && !logging::is_json() && std::io::stderr().is_terminal()
}

/// The line, with what it needs for rates.
pub(super) struct StatusLine {
    delivered: u64,
    at: Instant,
}

impl Default for StatusLine {
    fn default() -> Self {
        Self { delivered: 0, at: Instant::now() }
    }
}

impl StatusLine {
    /// Draws the state of these routes in place of the last one.
    pub(super) fn draw<'r>(&mut self, routes: impl Iterator<Item = (&'r RouteName, RelayState)>) {
        let routes: Vec<_> = routes.collect();
        let delivered: u64 = routes.iter().map(|(_, state)| state.tally.delivered).sum();
        let seconds = self.at.elapsed().as_secs_f64().max(0.001);
        // A route that started again counts from zero.
        let rate = u32::try_from(delivered.saturating_sub(self.delivered)).map_or(0.0, f64::from) / seconds;
        (self.delivered, self.at) = (delivered, Instant::now());
        logging::show_line(&line(&routes, rate));
    }
}

fn line(routes: &[(&RouteName, RelayState)], rate: f64) -> String {
    let mut total = Tally::default();
    routes.iter().for_each(|(_, state)| total += state.tally);
    let in_flight: usize = routes.iter().map(|(_, state)| state.in_flight).sum();
    let named = |what: &str, is: fn(&RelayState) -> bool| {
        let names: Vec<_> =
            routes.iter().filter(|(_, state)| is(state)).map(|(route, _)| route.as_str()).collect();
        if names.is_empty() { String::new() } else { format!(" · {what}: {}", names.join(", ")) }
    };
    format!(
        "{} routes · {} delivered, {rate:.0}/s · {in_flight} in flight · {} retried · {} dead{}{}",
        routes.len(),
        total.delivered,
        total.retried,
        total.dead,
        named("destination down", |state| state.circuit != CircuitState::Closed),
        named("database away", |state| state.stalled.is_some()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_routes_that_stand_still() {
        let (a, b) = (RouteName::new("a").unwrap(), RouteName::new("b").unwrap());
        let mut down = RelayState::default();
        down.circuit = CircuitState::Open;
        down.in_flight = 2;
        let shown = line(&[(&a, RelayState::default()), (&b, down)], 12.4);
        assert_eq!(
            shown,
            "2 routes · 0 delivered, 12/s · 2 in flight · 0 retried · 0 dead · destination down: b"
        );
    }
}
