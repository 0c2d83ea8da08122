//! Lanes: the suite.

use crate::harness::MongoHarness;

pillarbox_conformance::lanes_conformance!(MongoHarness);
