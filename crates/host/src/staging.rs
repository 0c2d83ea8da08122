//! How events become entries: the settings that every outbox has.

use std::sync::Arc;

use pillarbox_core::limits::HEADERS_MAX;
use pillarbox_core::port::shared::SagaDraft;
use pillarbox_core::port::{Entropy, Wake};
use pillarbox_core::{Event, EventId, EventLimits, HybridClock, NewEntry, Result, RouteName, Saga, SagaId};

use crate::trace::{TRACEPARENT, TRACESTATE, TraceContext, Tracer, creating, creating_saga};
use crate::{OsEntropy, process_clock};

/// A function that returns the W3C `traceparent` of the current span, if there is one.
pub type Trace = dyn Fn() -> Option<String> + Send + Sync;

/// The settings of an outbox. [`outbox!`](crate::outbox!) gives the outbox a setter for each.
#[derive(Clone)]
#[non_exhaustive]
pub struct Staging {
    route: String,
    /// The limits of events. Default: [`EventLimits::default`].
    pub limits: EventLimits,
    /// Whether the route is delivered in order per key. Default: not known.
    pub ordered: bool,
    /// The relay in this process that a commit wakes. Default: none.
    pub wake: Option<Arc<dyn Wake>>,
    /// The function that returns the trace of the current span. Default: none.
    pub trace: Option<Arc<Trace>>,
    /// Makes a span for each staged event, whose context is stored with the event. Default: none.
    pub tracer: Option<Arc<dyn Tracer>>,
    /// The source of clock stamps. Default: [`process_clock`].
    pub clock: Option<Arc<HybridClock>>,
}

impl Staging {
    /// Settings for staging on this route. If the route's name breaks a rule, staging refuses it.
    pub fn new(route: impl Into<String>) -> Self {
        let (limits, ordered) = (EventLimits::default(), false);
        Self { route: route.into(), limits, ordered, wake: None, trace: None, tracer: None, clock: None }
    }

    /// The route's name as it was given.
    #[must_use]
    pub fn route_text(&self) -> &str {
        &self.route
    }

    /// The route's name, checked.
    ///
    /// # Errors
    /// When it breaks a rule.
    pub fn route(&self) -> Result<RouteName> {
        RouteName::new(&*self.route)
    }

    /// Checks events and gives each an id and a stamp. Nothing is written before all of them have passed.
    ///
    /// # Errors
    /// When the route or an event breaks a rule.
    pub fn entries(&self, events: impl IntoIterator<Item = Event>) -> Result<Vec<NewEntry>> {
        let route = self.route()?;
        events.into_iter().map(|event| self.entry(&route, event)).collect()
    }

    /// Checks one event and gives it an id and a stamp.
    ///
    /// # Errors
    /// When the event breaks a rule.
    pub fn entry(&self, route: &RouteName, mut event: Event) -> Result<NewEntry> {
        let id = OsEntropy.event_id();
        if event.headers.contains_key(TRACEPARENT) {
            return self.checked(route, event, id);
        }
        if let Some(tracer) = &self.tracer {
            return creating(&**tracer, route, event.id.unwrap_or(id), |context| {
                self.checked(route, with_context(event, context), id)
            });
        }
        if let Some(parent) = self.traceparent() {
            event = event.header(TRACEPARENT, parent);
        }
        self.checked(route, event, id)
    }

    fn checked(&self, route: &RouteName, event: Event, id: EventId) -> Result<NewEntry> {
        if self.ordered {
            event.check_ordered()?;
        }
        let stamp = self.clock.as_deref().unwrap_or_else(|| process_clock()).now();
        NewEntry::new(route, event, id, stamp, &self.limits)
    }

    /// A draft of a saga on this route, with the trace of the current span.
    ///
    /// # Errors
    /// When the route or a step breaks a rule.
    pub fn saga(&self, mut saga: Saga) -> Result<SagaDraft> {
        let (id, route) = (SagaId(OsEntropy.event_id().0), self.route()?);
        let mut state = None;
        saga.fill_header(TRACEPARENT, || match &self.tracer {
            Some(tracer) => creating_saga(&**tracer, &route, id).map(|context| {
                state = context.tracestate;
                context.traceparent
            }),
            None => self.traceparent(),
        });
        if state.is_some() {
            saga.fill_header(TRACESTATE, || state);
        }
        SagaDraft::new(saga, id, route)
    }

    /// Wakes the relay of this process, if there is one. Called after a commit.
    pub fn committed(&self) {
        if let Some(wake) = &self.wake {
            wake.wake();
        }
    }

    fn traceparent(&self) -> Option<String> {
        self.trace.as_ref().and_then(|trace| trace())
    }
}

/// The event with the context in its headers. A `tracestate` that would be one header too many is left out: an event
/// is not refused because of its trace.
fn with_context(mut event: Event, context: Option<TraceContext>) -> Event {
    let Some(context) = context else { return event };
    event = event.header(TRACEPARENT, context.traceparent);
    match context.tracestate {
        Some(state) if event.headers.len() < HEADERS_MAX => event.header(TRACESTATE, state),
        _ => event,
    }
}
