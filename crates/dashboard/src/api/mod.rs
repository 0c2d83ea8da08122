//! The API under `/api/v1`.

mod actions;
mod answer;
mod asked;
mod extract;
mod looking;
mod openapi;
mod reading;
mod sagas;
mod trail;
mod waiting;

pub(crate) use actions::{act, pause, purge, resume};
pub(crate) use asked::{EntriesQuery, parse_sentence};
pub(crate) use looking::{inbox, relays, route, routes, status};
pub(crate) use openapi::document;
pub(crate) use reading::{entries, entry, groups, payload};
pub(crate) use sagas::{SagasQuery, intervene, saga, sagas, wishes};
pub(crate) use trail::{AuditQuery, BY_HAND, GIVEN_UP, OF_SAGAS, PURGES, audit};
pub(crate) use waiting::{WAITS_WITHIN, lanes, waits};
