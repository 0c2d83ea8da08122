//! Sagas: the suite.

use crate::harness::MongoHarness;

pillarbox_conformance::saga_conformance!(MongoHarness);
