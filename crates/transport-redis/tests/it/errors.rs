//! The table of errors, row by row, provoked on a real server.

use pillarbox_conformance::delivery::{deliver, deliver_one, down, entries, entry, fresh, rejected};
use pillarbox_core::port::Sink;
use pillarbox_core::{Entry, Event, Outcome};
use pillarbox_transport_redis::RedisSink;

use crate::harness::{OwnStream, REDIS, Server, VALKEY, variable};

fn order() -> Entry {
    entry(Event::new("order.placed", "{}"))
}

async fn outcome_of(url: &str) -> Outcome {
    deliver_one(&RedisSink::new(url).unwrap(), &order()).await
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_down_and_names_the_setting() {
    let server = Server::start("requirepass secret").await;
    for login in [":wrong@", "nobody:secret@", ""] {
        let outcome = outcome_of(&format!("redis://{login}127.0.0.1:{}?stream=orders", server.port())).await;
        assert!(down(&outcome).text().contains("user and password"), "{login}: {outcome:?}");
        assert!(!format!("{outcome:?}").contains("secret"), "{outcome:?}");
    }
    let right = format!("redis://:secret@127.0.0.1:{}?stream=orders", server.port());
    assert_eq!(outcome_of(&right).await, Outcome::Confirmed);
}

#[tokio::test]
async fn a_missing_right_is_down_and_names_the_stream() {
    for server in [REDIS, VALKEY] {
        let place = OwnStream::new(server).await;
        let user = fresh("user");
        let keys = format!("~{}:allowed", place.stream);
        place.ask(&["ACL", "SETUSER", &user, "on", ">pw", &keys, "+@all"]).await.unwrap();
        let url = place.server.replacen("redis://", &format!("redis://{user}:pw@"), 1);
        let sink = RedisSink::new(&format!("{url}?stream={}:{{type}}", place.stream)).unwrap();
        let batch = ["allowed", "denied", "allowed"].map(|event_type| entry(Event::new(event_type, "{}")));
        let outcomes = deliver(&sink, &batch).await;
        place.ask(&["ACL", "DELUSER", &user]).await.unwrap();
        assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Confirmed, &Outcome::Confirmed));
        assert_eq!(down(&outcomes[1]).code(), "noperm");
        let named = format!("{}:denied", place.stream);
        assert!(down(&outcomes[1]).text().contains(&named), "{outcomes:?}");
    }
}

#[tokio::test]
async fn a_key_that_is_not_a_stream_is_down_and_named() {
    let place = OwnStream::new(REDIS).await;
    place.ask(&["SET", &place.stream, "7"]).await.unwrap();
    let outcome = outcome_of(&place.to()).await;
    assert_eq!(down(&outcome).code(), "wrongtype");
    assert!(down(&outcome).text().contains(&place.stream), "{outcome:?}");
}

#[tokio::test]
async fn a_server_without_memory_is_down_until_it_has_some() {
    let server = Server::start("maxmemory-policy noeviction").await;
    let place = OwnStream::on(&server.url()).await;
    let sink = RedisSink::new(&place.to()).unwrap();
    let batch = entries(2);
    assert_eq!(deliver_one(&sink, &batch[0]).await, Outcome::Confirmed);
    place.ask(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    let outcome = deliver_one(&sink, &batch[1]).await;
    assert_eq!(down(&outcome).code(), "oom");
    assert!(down(&outcome).text().contains("maxmemory"), "{outcome:?}");
    place.ask(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert_eq!(deliver_one(&sink, &batch[1]).await, Outcome::Confirmed);
}

#[tokio::test]
async fn a_replica_is_down_and_says_so() {
    let server = Server::start("replicaof 127.0.0.1 1").await;
    let outcome = outcome_of(&format!("{}?stream=orders", server.url())).await;
    assert_eq!(down(&outcome).code(), "readonly");
    assert!(down(&outcome).text().contains("master"), "{outcome:?}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_down_and_says_so() {
    let server = Server::start("cluster-enabled yes").await;
    let outcome = outcome_of(&format!("{}?stream=orders", server.url())).await;
    assert_eq!(down(&outcome).code(), "clusterdown");
    assert!(down(&outcome).text().contains("Cluster"), "{outcome:?}");
}

#[tokio::test]
async fn missing_replicas_are_down() {
    let server = Server::start("min-replicas-to-write 1").await;
    assert_eq!(down(&outcome_of(&format!("{}?stream=orders", server.url())).await).code(), "noreplicas");
}

#[tokio::test]
async fn too_many_clients_are_down() {
    let server = Server::start("").await;
    let place = OwnStream::on(&server.url()).await;
    place.ask(&["CONFIG", "SET", "maxclients", "1"]).await.unwrap();
    // It says so, but hangs up before everybody has heard it.
    down(&outcome_of(&place.to()).await);
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_down_and_named() {
    let server = variable(REDIS);
    let beyond = format!("{}/4711?stream=orders", server.trim_end_matches("/0"));
    let outcome = outcome_of(&beyond).await;
    assert!(down(&outcome).text().contains("DB index is out of range"), "{outcome:?}");
}

#[tokio::test]
async fn what_the_server_finds_too_large_is_rejected_and_the_rest_confirmed() {
    let server = Server::start("proto-max-bulk-len 1mb").await;
    let place = OwnStream::on(&server.url()).await;
    let sink = RedisSink::new(&place.to()).unwrap();
    assert_eq!(sink.capabilities().payload_bytes_max, None, "not asked yet");
    let sized = |bytes: usize| entry(Event::new("sized", vec![b'x'; bytes]));
    let limit = 1024 * 1024;
    let outcomes = deliver(&sink, &[order(), sized(limit + 1), sized(limit), order()]).await;
    assert_eq!(rejected(&outcomes[1]).code(), "too_large");
    for confirmed in [0, 2, 3] {
        assert_eq!(outcomes[confirmed], Outcome::Confirmed);
    }
    assert_eq!(sink.capabilities().payload_bytes_max, Some(limit));
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_limit_is_used_without() {
    let place = OwnStream::new(REDIS).await;
    let user = fresh("user");
    place.ask(&["ACL", "SETUSER", &user, "on", ">pw", "~*", "+xadd"]).await.unwrap();
    let url = place.to().replacen("redis://", &format!("redis://{user}:pw@"), 1);
    let outcome = outcome_of(&url).await;
    place.ask(&["ACL", "DELUSER", &user]).await.unwrap();
    assert_eq!(outcome, Outcome::Confirmed);
}

#[tokio::test]
async fn an_entry_without_a_stream_is_rejected_and_the_rest_confirmed() {
    let place = OwnStream::new(VALKEY).await;
    let sink = RedisSink::new(&format!("{}?stream={{key}}", place.server)).unwrap();
    let batch = [entry(Event::new("t", "")), entry(Event::new("t", "").key(place.stream.clone()))];
    let outcomes = deliver(&sink, &batch).await;
    assert_eq!(rejected(&outcomes[0]).code(), "unroutable");
    assert_eq!(outcomes[1], Outcome::Confirmed);
}

#[tokio::test]
async fn tls_with_a_server_that_has_none_is_down() {
    let plain = variable(REDIS).replacen("redis://", "rediss://", 1);
    let outcome = outcome_of(&format!("{plain}?stream=orders&connect_timeout=2s")).await;
    assert!(matches!(down(&outcome).code(), "tls" | "no_answer" | "unreachable"), "{outcome:?}");
}
