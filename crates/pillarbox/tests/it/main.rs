//! Every broker with every database: the suite for consuming, with real servers on both sides.
//!
//! `cargo xtask services postgres rabbitmq nats mosquitto redis -- cargo test -p pillarbox --all-features` starts them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "in a test a panic is the report")]

mod broker;
mod inbox;
mod killer;
mod saga_crash;
mod traces;

/// A value that `cargo xtask services` sets.
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `cargo xtask services all -- cargo test -p pillarbox --all-features`")
    })
}

/// A name that no other test has.
fn unique() -> String {
    format!("t{:016x}", pillarbox_host::random_u64())
}

mod rabbitmq_sqlite {
    pillarbox_conformance::consumer_conformance!(crate::broker::RabbitMq, crate::inbox::Sqlite);
}

mod rabbitmq_postgres {
    pillarbox_conformance::consumer_conformance!(crate::broker::RabbitMq, crate::inbox::Postgres);
}

mod kafka_sqlite {
    pillarbox_conformance::consumer_conformance!(crate::broker::Kafka, crate::inbox::Sqlite);
}

mod kafka_postgres {
    pillarbox_conformance::consumer_conformance!(crate::broker::Kafka, crate::inbox::Postgres);
}

mod mqtt_sqlite {
    pillarbox_conformance::consumer_conformance!(crate::broker::Mqtt, crate::inbox::Sqlite);
}

mod mqtt_postgres {
    pillarbox_conformance::consumer_conformance!(crate::broker::Mqtt, crate::inbox::Postgres);
}

mod nats_sqlite {
    pillarbox_conformance::consumer_conformance!(crate::broker::Nats, crate::inbox::Sqlite);
}

mod nats_postgres {
    pillarbox_conformance::consumer_conformance!(crate::broker::Nats, crate::inbox::Postgres);
}

mod redis_sqlite {
    pillarbox_conformance::consumer_conformance!(crate::broker::Redis, crate::inbox::Sqlite);
}

mod redis_postgres {
    pillarbox_conformance::consumer_conformance!(crate::broker::Redis, crate::inbox::Postgres);
}
