//! Lanes: the suite, and what only a file has.

use crate::harness::SqliteHarness;

pillarbox_conformance::lanes_conformance!(SqliteHarness);
