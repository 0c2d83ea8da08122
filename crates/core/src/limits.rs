//! A limit on everything. Each is checked before anything is written, and a limit reached is a typed error.

use std::time::Duration;

/// Longest route, type, key, header name, content type or context id, in characters.
pub const NAME_CHARS_MAX: usize = 255;
/// Most headers of one event.
pub const HEADERS_MAX: usize = 64;
/// Longest header value, in bytes.
pub const HEADER_VALUE_BYTES_MAX: usize = 4 * 1024;
/// Largest payload by default, in bytes. A setting of the outbox.
pub const PAYLOAD_BYTES_DEFAULT: usize = 1024 * 1024;
/// Largest payload that may be configured, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest stored error text, in bytes; longer texts are cut with an ellipsis before they are stored.
pub const ERROR_TEXT_BYTES_MAX: usize = 2 * 1024;
/// Longest path of a field that is told of a payload that does not fit, in bytes; longer ones are cut.
pub const PAYLOAD_PATH_BYTES_MAX: usize = 256;
/// Longest chain of errors that is logged of a failed attempt, in bytes; longer ones are cut.
pub const CAUSE_BYTES_MAX: usize = 4 * 1024;
/// Most entries of one claim.
pub const BATCH_MAX: u32 = 10_000;
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
/// Dead heads of one route that counts name, those that hold back the most first.
pub const HEADS_NAMED_MAX: u32 = 5;
/// Skipped entries of one change that are told with their reason; the others are only counted.
pub const SKIPS_TOLD_MAX: usize = 100;
/// Longest time for which one announcement of a relay holds: one that is silent for longer is shown as gone.
pub const PRESENCE_LEASE_MAX: Duration = Duration::from_secs(10);
/// Shortest time for which one announcement of a relay holds: however short its lease is, it does not announce itself all
/// the time.
pub const PRESENCE_LEASE_MIN: Duration = Duration::from_secs(3);
/// A relay that was not seen for this long is forgotten.
pub const RELAY_SWEPT_AFTER: Duration = Duration::from_secs(3600);
/// Longest name of a lane that an inbox remembers, with the source of its events, in bytes.
pub const LANE_BYTES_MAX: usize = 1023;
/// Open sagas of a route are counted up to this.
pub const OPEN_SAGAS_MAX: u64 = 1_000;
/// Most steps of one saga.
pub const SAGA_STEPS_MAX: usize = 64;
/// Largest input of a step, as JSON, in bytes.
pub const STEP_INPUT_BYTES_MAX: usize = 64 * 1024;
/// Most that a step may pass on to later ones, as JSON, in bytes.
pub const STEP_DATA_BYTES_MAX: usize = 8 * 1024;
/// How long one run of a step's handler may take where the step does not say: one that hangs must not wedge its saga.
pub const STEP_TIMEOUT_DEFAULT: Duration = Duration::from_secs(3600);
/// Most extra values of a reference.
pub const REFERENCE_EXTRA_MAX: usize = 32;
