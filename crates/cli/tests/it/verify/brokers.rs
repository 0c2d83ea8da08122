//! The same on real brokers, where only more can arrive.

use serde_json::json;

use super::{found, route};
use crate::home::Home;
use crate::place::{Broker, Place};

fn to(home: &Home, place: &Place) {
    let to = place.to(&place.server);
    home.write("pillarbox.toml", &format!("[routes.r]\nto = \"{to}\"\norder = \"key\"\n"));
}

fn each_finding(broker: Broker) {
    let place = Place::stream(broker);
    let home = Home::migrated();
    to(&home, &place);
    let drain = || home.ok(["relay", "--drain"]);
    let verify = || home.run(["verify", "--json"]);
    // More than one page of any of them.
    home.stage_numbered("r", "k", 1..=700);
    drain();
    let said = verify();
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!((&route(&said)["staged"], &route(&said)["received"]), (&json!(700), &json!(700)));

    home.stage_numbered("r", "k", 701..=702);
    home.sql("update pillarbox_outbox set status = 'delivered' where status = 'pending'");
    found(&verify(), &[("lost", 2)]);
    home.sql("update pillarbox_outbox set status = 'pending' where event_id glob '*702'");
    drain();
    home.sql("update pillarbox_outbox set status = 'pending' where event_id glob '*701'");
    drain();
    found(&verify(), &[("out_of_order", 1)]);

    let other = Home::migrated();
    to(&other, &place);
    other.stage_numbered("r", "k", 901..=903);
    other.ok(["relay", "--drain"]);
    found(&verify(), &[("out_of_order", 1), ("invented", 3)]);

    home.sql("update pillarbox_outbox set status = 'pending' where event_id glob '*00[5-7]'");
    drain();
    // JetStream knows the repetitions by their ids and keeps none.
    let duplicated = if broker == Broker::Nats { 0 } else { 3 };
    found(&verify(), &[("out_of_order", 1), ("invented", 3), ("duplicated", duplicated)]);
}

#[test]
fn each_finding_is_made_in_a_redis_stream() {
    each_finding(Broker::Redis);
}

#[test]
fn each_finding_is_made_in_a_jetstream_stream() {
    each_finding(Broker::Nats);
}

#[test]
fn each_finding_is_made_in_a_rabbitmq_stream() {
    each_finding(Broker::RabbitMq);
}

#[test]
fn each_finding_is_made_in_a_topic_of_kafka() {
    each_finding(Broker::Kafka);
}

#[test]
fn a_classic_queue_is_no_record_of_what_arrived() {
    let place = Place::new(Broker::RabbitMq);
    let home = Home::migrated();
    to(&home, &place);
    // Empty, and with something in it that must stay there.
    home.run(["verify"]).refused(2, &["r cannot be compared", "is not a stream"]);
    home.stage_numbered("r", "k", 1..=3);
    home.ok(["relay", "--drain"]);
    home.run(["verify"]).refused(2, &["r cannot be compared", "is not a stream"]);
    assert_eq!(place.stored().len(), 3);
}

#[test]
fn a_place_that_is_not_there_holds_nothing() {
    let home = Home::migrated();
    let nowhere = |broker| Place::stream(broker).to_nowhere();
    for url in [Broker::Redis, Broker::Nats, Broker::RabbitMq].map(nowhere) {
        let said = home.ok(["verify", "--route", "r", "--from", &url, "--json"]);
        assert!(said.stderr.contains("the destination does not exist"), "{said:?}");
        assert_eq!(route(&said)["received"], 0);
    }
}
