//! Everything that this crate promises, on a real server, directly and through PgBouncer.
//!
//! `cargo xtask services all -- cargo test -p pillarbox-store-postgres` starts both.

// A panic in a test is its report, also where it is in a step that several tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod as_relay;
mod cancelling;
mod claiming;
mod committing;
mod connecting;
mod consuming;
mod drivers;
mod examined;
mod faults;
mod floor;
mod harness;
mod lanes;
mod lean;
mod payloads;
mod plans;
mod roles;
mod round_trips;
mod saga_plans;
mod sagas;
mod schema;
mod sessions;
mod settling;
mod staging;
mod steps;
mod transaction;

/// The suite on a server that is talked to directly.
mod direct {
    pillarbox_conformance::store_conformance!(crate::harness::Direct);

    mod lanes {
        pillarbox_conformance::lanes_conformance!(crate::harness::Direct);
    }

    mod sagas {
        pillarbox_conformance::saga_conformance!(crate::harness::Direct);
    }
}

/// The same suite through PgBouncer in transaction mode.
mod pooled {
    pillarbox_conformance::store_conformance!(crate::harness::Pooled);

    mod lanes {
        pillarbox_conformance::lanes_conformance!(crate::harness::Pooled);
    }

    mod sagas {
        pillarbox_conformance::saga_conformance!(crate::harness::Pooled);
    }
}

/// The same suite as the role that `roles.sql` makes for relays: nothing of it needs more.
mod as_the_relays_role {
    pillarbox_conformance::store_conformance!(crate::as_relay::AsRelay);

    mod lanes {
        pillarbox_conformance::lanes_conformance!(crate::as_relay::AsRelay);
    }

    mod sagas {
        pillarbox_conformance::saga_conformance!(crate::as_relay::AsRelay);
    }
}
