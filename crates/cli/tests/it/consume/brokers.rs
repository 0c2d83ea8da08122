//! `pillarbox consume` from the brokers that the other tests of it do not read.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::ALWAYS_GOOD;
use crate::home::{Home, Said, eventually};
use crate::place::{Broker, Place};

const EVENTS: u32 = 12;

/// With credentials for SQS, of which any will do.
fn run(home: &Home, args: &[&str]) -> Said {
    let mut command = home.command(args);
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    let said: Said = command.output().unwrap().into();
    assert_eq!(said.code, 0, "{said:?}");
    said
}

/// Consumes all that is there, and returns the tally.
fn consumed(home: &Home, place: &Place) -> (Value, Said) {
    let from = place.from(&place.server);
    let to = "exec:python3 good.py";
    let args = ["consume", "--json", "--name", "billing", "--from", &from, "--to", to, "--idle", "4s"];
    let said = run(home, &args);
    (said.json(), said)
}

/// Each event is handed to the child once and acknowledged, so that none comes again.
fn each_event_is_handed_over_once_and_acknowledged(broker: Broker) {
    let (home, place) = (Home::migrated(), Place::new(broker));
    home.write("good.py", ALWAYS_GOOD);
    let staged: BTreeSet<String> = home.stage_many("orders", EVENTS).into_iter().collect();
    run(&home, &["relay", "--drain", "--route", "orders", "--to", &place.to(&place.server)]);
    let (tally, said) = consumed(&home, &place);
    assert_eq!((&tally["processed"], &tally["parked"]), (&json!(EVENTS), &json!(0)), "{said:?}");
    let seen = home.read("seen");
    assert_eq!(seen.lines().count(), staged.len(), "an event was handed over twice");
    assert_eq!(seen.lines().map(ToOwned::to_owned).collect::<BTreeSet<_>>(), staged);
    assert_eq!(home.numbers("select count(*) from pillarbox_inbox"), [i64::from(EVENTS)]);
    // MQTT has no way to ask: what is not acknowledged comes again with the session.
    if broker != Broker::Mqtt {
        eventually("all is acknowledged", || place.is_drained());
    }
    let (tally, said) = consumed(&home, &place);
    assert_eq!((&tally["processed"], &tally["duplicates"]), (&json!(0), &json!(0)), "{said:?}");
}

#[test]
fn events_of_kafka_are_handed_to_the_child_once_and_acknowledged() {
    each_event_is_handed_over_once_and_acknowledged(Broker::Kafka);
}

#[test]
fn events_of_mqtt_are_handed_to_the_child_once_and_acknowledged() {
    each_event_is_handed_over_once_and_acknowledged(Broker::Mqtt);
}

#[test]
fn events_of_sqs_are_handed_to_the_child_once_and_acknowledged() {
    each_event_is_handed_over_once_and_acknowledged(Broker::Sqs);
}
