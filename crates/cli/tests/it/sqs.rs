//! Queues of the server that speaks the protocol of SQS, asked without a client.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

/// Makes a queue.
pub(crate) fn create(server: &str, name: &str) {
    let body = json!({ "QueueName": name }).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/x-amz-json-1.0\r\n\
         X-Amz-Target: AmazonSQS.CreateQueue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = ask(server, &(head + &body));
    assert!(answer["QueueUrl"].is_string(), "{answer}");
}

/// The event ids of all messages of a queue, those that a consumer holds included. Nothing is taken.
pub(crate) fn ids(server: &str, name: &str) -> Vec<String> {
    let state = messages(server, name);
    let all = ["ready", "inflight"].into_iter().flat_map(|part| state[part].as_array().unwrap().clone());
    let body = |one: &Value| one["body"].as_str().or(one["message"]["body"].as_str()).unwrap().to_owned();
    let id = |body: String| serde_json::from_str::<Value>(&body).unwrap()["id"].as_str().unwrap().to_owned();
    all.map(|one| id(body(&one))).collect()
}

/// Whether it has no message, and no consumer holds one.
pub(crate) fn is_empty(server: &str, name: &str) -> bool {
    ids(server, name).is_empty()
}

fn messages(server: &str, name: &str) -> Value {
    let path = format!("/_fauxqs/queues/{name}");
    let answer = ask(server, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    answer["messages"].clone()
}

fn ask(server: &str, request: &str) -> Value {
    let mut stream = TcpStream::connect(server.strip_prefix("http://").unwrap()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}
