//! Destinations beyond the process: what the binary delivers reaches the broker, and what is wrong is told by name.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use krafka::testing::FakeBroker;

use crate::home::{Home, Said};
use crate::place::{Broker, Place, wait};
use crate::server::Server;

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
        "kafka://127.0.0.1:9/orders",
        "mqtt://127.0.0.1:9/orders",
        "nats://127.0.0.1:9/orders",
        "redis://127.0.0.1:9/0?stream=s",
        "sqs://eu-west-1/orders?endpoint=http://127.0.0.1:9",
    ] {
        let home = staged(2);
        let ran = drained(&home, to);
        ran.refused(1, &["the destination of route orders is down", "still due"]);
        assert_eq!(
            (home.totals()["pending"].as_u64(), home.totals()["dead"].as_u64()),
            (Some(2), Some(0)),
            "{to}"
        );
    }
}

/// Drains to this destination, with credentials for SQS.
fn drained(home: &Home, to: &str) -> Said {
    let mut command = home.command(["relay", "--drain", "--route", "orders", "--to", to]);
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command.output().unwrap().into()
}

/// The one line that says why a destination is down.
#[track_caller]
fn told_why(said: &Said, with: &[&str]) {
    said.refused(1, &["the destination of route orders is down"]);
    let is_told = |line: &&str| with.iter().all(|part| line.contains(part));
    assert!(said.stderr.lines().any(|line| is_told(&line)), "no line with all of {with:?}: {said:?}");
    assert!(!said.stderr.contains("hush"), "the password is told: {said:?}");
}

#[test]
fn a_topic_or_queue_that_is_missing_is_one_line_that_names_it() {
    let (kafka, sqs) = (Place::new(Broker::Kafka), Place::new(Broker::Sqs));
    let of_kafka = format!("{}/misspelt?connect_timeout=2s", kafka.server);
    let of_sqs = format!("sqs://eu-west-1/misspelt?endpoint={}", sqs.server);
    for (to, with) in [
        (of_kafka, ["topic \"misspelt\" does not exist", "the path of the URL"]),
        (of_sqs, ["misspelt", "does not exist"]),
    ] {
        let home = staged(1);
        told_why(&drained(&home, &to), &with);
        assert_eq!(home.totals()["pending"], 1, "nothing is lost, and no attempt is spent");
    }
}

#[test]
fn a_wrong_password_is_one_line_that_names_the_setting() {
    let cluster = wait(FakeBroker::start()).unwrap();
    cluster.create_topic("orders", 1);
    cluster.require_sasl_plain("billing", "right");
    let mosquitto = Server::start_for_users(Broker::Mqtt);
    let of_mqtt = mosquitto.url().replace("://", "://billing:hush@");
    for (to, with) in [
        (
            format!("kafka://billing:hush@{}/orders?sasl=plain", cluster.bootstrap_servers()),
            ["the URL's user and password", "sasl="],
        ),
        (format!("{of_mqtt}/orders"), ["the URL's user and password", "mqtt://"]),
    ] {
        let home = staged(1);
        told_why(&drained(&home, &to), &with);
        assert_eq!(home.totals()["pending"], 1);
    }
}

/// Without credentials, there is nothing that a server could refuse.
#[test]
fn sqs_without_credentials_is_one_line_that_says_where_they_are_looked_for() {
    let home = staged(1);
    let to = "sqs://eu-west-1/orders?endpoint=http://127.0.0.1:9";
    let mut command = home.command(["relay", "--drain", "--route", "orders", "--to", to]);
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
        command.env_remove(name);
    }
    command.env("HOME", home.path("nobody")).env("AWS_EC2_METADATA_DISABLED", "true");
    let said: Said = command.output().unwrap().into();
    told_why(&said, &["credentials"]);
}

/// As in a container: an address of the machine's own tells them. They reach neither the log nor the output.
#[test]
fn sqs_with_credentials_of_a_container_delivers_and_tells_none_of_them() {
    const ANSWER: &str = r#"{"AccessKeyId": "AKIAHUSH", "SecretAccessKey": "hush-secret", "Token": "hush-token",
        "Expiration": "2099-01-01T00:00:00Z"}"#;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let full_uri = format!("http://{}/role", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 4096]);
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", ANSWER.len());
            let _ = connection.write_all((head + ANSWER).as_bytes());
        }
    });
    let place = Place::new(Broker::Sqs);
    let missing = format!("sqs://eu-west-1/misspelt?endpoint={}", place.server);
    for (to, code, delivered) in [(place.to(&place.server), 0, 1), (missing, 1, 0)] {
        let home = staged(1);
        let mut command = home.command(["relay", "--drain", "--route", "orders", "--to", &to]);
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
            command.env_remove(name);
        }
        command.env("HOME", home.path("nobody")).env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("AWS_CONTAINER_CREDENTIALS_FULL_URI", &full_uri).env("PILLARBOX_LOG", "trace");
        let said: Said = command.output().unwrap().into();
        assert_eq!((said.code, home.totals()["delivered"].as_u64()), (code, Some(delivered)), "{said:?}");
        for secret in ["hush-secret", "hush-token"] {
            assert!(
                !said.stderr.contains(secret) && !said.stdout.contains(secret),
                "{secret} is told: {said:?}"
            );
        }
    }
}

/// It answers as MQTT 3.1.1 says: return code 1, unacceptable protocol version. RabbitMQ's plugin before 3.13
/// hangs up, which ends in the same line.
#[test]
fn a_server_that_speaks_only_mqtt_3_1_1_is_one_line_that_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 1024]);
            let _ = connection.write_all(&[0x20, 2, 0, 1]);
        }
    });
    let home = staged(1);
    told_why(&drained(&home, &format!("mqtt://127.0.0.1:{port}/orders")), &["MQTT 5"]);
    assert_eq!(home.totals()["pending"], 1);
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
        ("kafka://h/orders?compression=zstd", "lz4"),
        ("mqtt://h/orders?qos=0", "mqtt+qos0://"),
    ] {
        home.run(["relay", "--drain", "--route", "orders", "--to", to]).refused(2, &[named]);
    }
}
