//! Destinations beyond the process: what the binary delivers reaches the broker, and what is wrong is told by name.

use std::process::Command;

use crate::home::Home;

fn staged(events: usize) -> Home {
    let home = Home::migrated();
    for number in 1..=events {
        let key = format!("o-{number}");
        home.ok([
            "stage",
            "--route",
            "orders",
            "--type",
            "order.placed",
            "--key",
            &key,
            "--payload",
            "{\"id\": 1}",
        ]);
    }
    home
}

#[test]
fn a_relay_delivers_to_a_redis_stream() {
    let server = std::env::var("PILLARBOX_TEST_REDIS").expect(
        "PILLARBOX_TEST_REDIS is not set: run this through `cargo xtask services redis -- cargo test`",
    );
    let stream = format!("cli-{}", std::process::id());
    let home = staged(3);
    let to = format!("{server}?stream={stream}:{{route}}");
    home.ok(["relay", "--drain", "--route", "orders", "--to", &to]);
    assert_eq!(home.totals()["delivered"], 3);
    let length =
        Command::new("redis-cli").args(["-u", &server, "xlen", &format!("{stream}:orders")]).output();
    assert_eq!(String::from_utf8_lossy(&length.unwrap().stdout).trim(), "3");
}

#[test]
fn a_broker_that_is_not_there_loses_nothing_and_spends_nothing() {
    // Nothing listens on the discard port.
    for to in [
        "amqp://127.0.0.1:9/%2f?exchange=orders",
        "mqtt://127.0.0.1:9/orders",
        "nats://127.0.0.1:9/orders",
        "redis://127.0.0.1:9/0?stream=s",
    ] {
        let home = staged(2);
        let ran = home.run(["relay", "--drain", "--route", "orders", "--to", to]);
        ran.refused(1, &["the destination of route orders is down", "still due"]);
        assert_eq!(
            (home.totals()["pending"].as_u64(), home.totals()["dead"].as_u64()),
            (Some(2), Some(0)),
            "{to}"
        );
    }
}

#[test]
fn a_webhook_to_a_private_address_must_be_allowed() {
    let home = staged(1);
    let webhook = ["relay", "--drain", "--route", "orders", "--to", "http://127.0.0.1:9/hook"];
    home.run(webhook).refused(2, &["allow_private"]);
    let allowed = [webhook.as_slice(), &["--allow-private"]].concat();
    home.run(allowed).refused(1, &["the destination of route orders is down"]);
    assert_eq!(home.totals()["pending"], 1);
}

#[test]
fn a_wrong_broker_url_names_what_is_wrong() {
    let home = staged(1);
    for (to, named) in [
        ("amqp://h/%2f?exchagne=orders", "exchagne"),
        ("redis://h/0", "stream"),
        ("nats://h/orders.{tpye}", "{type}"),
        ("mqtt://h/orders?qos=0", "mqtt+qos0://"),
    ] {
        home.run(["relay", "--drain", "--route", "orders", "--to", to]).refused(2, &[named]);
    }
}
