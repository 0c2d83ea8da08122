//! A limit on everything. Each limit is checked before anything is written. Input over a limit is a typed error.
//! Only texts for people are cut, where the constant says so.

use std::time::Duration;

/// Longest route, type, key, header name, content type or context id, in characters.
pub const NAME_CHARS_MAX: usize = 255;
/// Most headers of one event.
pub const HEADERS_MAX: usize = 64;
/// Longest header value, in bytes.
pub const HEADER_VALUE_BYTES_MAX: usize = 4 * 1024;
/// Largest payload by default, in bytes. The outbox has a setting for it.
pub const PAYLOAD_BYTES_DEFAULT: usize = 1024 * 1024;
/// Largest payload that may be configured, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest stored error text, in bytes. Longer texts are cut with an ellipsis before they are stored.
pub const ERROR_TEXT_BYTES_MAX: usize = 2 * 1024;
/// Longest field path in the error about a payload of another shape, in bytes. Longer paths are cut.
pub const PAYLOAD_PATH_BYTES_MAX: usize = 256;
/// Longest chain of errors that is logged for a failed attempt, in bytes. Longer chains are cut.
pub const CAUSE_BYTES_MAX: usize = 4 * 1024;
/// Most entries of one claim.
pub const BATCH_MAX: u32 = 10_000;
/// Most events that an inbox marks in one call.
pub const ACCEPT_BATCH_MAX: usize = 10_000;
/// Longest delay of an event.
pub const DELAY_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
/// Longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Most attempts that a policy or an entry may allow.
pub const ATTEMPTS_MAX: u32 = 1_000_000;
/// Entries of a listing by default.
pub const LIST_DEFAULT: u32 = 100;
/// Most entries of a listing.
pub const LIST_MAX: u32 = 10_000;
/// The number up to which delivered and discarded entries are counted. A store may count so many of all routes
/// together, the newest first, or of each route. They are kept for days, and counting all would take ever longer.
pub const COUNTED_MAX: u32 = 100_000;
/// The most dead entries that counts name per route, those that hold back the most others first.
pub const HEADS_NAMED_MAX: u32 = 5;
/// The most deliveries of a route whose waits are counted, the newest first.
pub const WAITS_MAX: u32 = 1_000;
/// The most deliveries of all routes that are looked at to find those of one route.
pub const WAITS_LOOKED_MAX: u32 = 20_000;
/// The number up to which the entries that wait in a lane are counted.
pub const LANE_WAITING_MAX: u32 = 1_000;
/// The most skipped entries of one change that are reported with their reason. The others are only counted.
pub const SKIPS_TOLD_MAX: usize = 100;
/// The most audit records of one change that are reported.
pub const AUDIT_TOLD_MAX: u32 = 20;
/// Longest time for which one announcement of a relay is valid. A relay that is silent for longer is shown as gone.
pub const PRESENCE_LEASE_MAX: Duration = Duration::from_secs(10);
/// Shortest time for which one announcement of a relay is valid. It keeps a relay with a very short lease from
/// announcing itself all the time.
pub const PRESENCE_LEASE_MIN: Duration = Duration::from_secs(3);
/// A relay that was not seen for this long is forgotten.
pub const RELAY_SWEPT_AFTER: Duration = Duration::from_secs(3600);
/// Longest name of a lane that an inbox remembers, in bytes. The name includes the source of its events.
pub const LANE_BYTES_MAX: usize = 1023;
/// The number up to which the open sagas of a route are counted.
pub const OPEN_SAGAS_MAX: u64 = 1_000;
/// Most open transactions that a doctor tells of.
pub const TRANSACTIONS_TOLD_MAX: u32 = 10;
/// Most steps of one saga.
pub const SAGA_STEPS_MAX: usize = 64;
/// Largest input of a step, as JSON, in bytes.
pub const STEP_INPUT_BYTES_MAX: usize = 64 * 1024;
/// Most data that a step may pass on to later steps, as JSON, in bytes.
pub const STEP_DATA_BYTES_MAX: usize = 8 * 1024;
/// How long one run of a step's handler may take if the step sets no timeout. It keeps a handler that hangs from
/// blocking its saga.
pub const STEP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(3600);
/// Most extra values of a reference.
pub const REFERENCE_EXTRA_MAX: usize = 32;
