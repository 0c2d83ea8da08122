//! The proxy before a server that answers every byte with the same byte.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::*;
use crate::eventually;

/// Only a test that hangs takes it.
const SOON: Duration = Duration::from_secs(30);

/// How long to listen for what must not come. Too short a time can hide a defect, but never invent one.
const A_MOMENT: Duration = Duration::from_millis(50);

#[expect(clippy::disallowed_methods, reason = "the server must run beside the test")]
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    address
}

async fn proxy() -> FaultProxy {
    FaultProxy::start(echo().await)
}

async fn client(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

async fn says(client: &mut TcpStream, word: &[u8]) {
    client.write_all(word).await.unwrap();
    hears(client, word).await;
}

async fn hears(client: &mut TcpStream, word: &[u8]) {
    let mut heard = vec![0; word.len()];
    timeout(SOON, client.read_exact(&mut heard)).await.unwrap().unwrap();
    assert_eq!(heard, word);
}

async fn hears_nothing(client: &mut TcpStream) {
    assert!(timeout(A_MOMENT, client.read_u8()).await.is_err(), "something arrived");
}

/// What was left to read, and how it ended.
async fn is_over(client: &mut TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut left = Vec::new();
    let ended = timeout(SOON, client.read_to_end(&mut left)).await.unwrap();
    (left, ended.err().map(|error| error.kind()))
}

#[tokio::test]
async fn without_a_fault_everything_arrives_and_is_counted() {
    let proxy = proxy().await;
    let (mut one, mut other) = (client(&proxy).await, client(&proxy).await);
    says(&mut one, b"hello").await;
    says(&mut other, &[7; 100_000]).await;
    assert_eq!((proxy.accepted(), proxy.open(), proxy.broken()), (2, 2, 0));
    assert_eq!(proxy.forwarded(Direction::ToServer), 100_005);
    assert_eq!(proxy.forwarded(Direction::Both), 200_010);
    one.shutdown().await.unwrap();
    assert_eq!(is_over(&mut one).await, (vec![], None), "the end travels too");
    eventually(SOON, async || proxy.open() == 1).await;
}

#[tokio::test]
async fn a_late_byte_is_not_early_and_healing_ends_the_wait() {
    let proxy = proxy().await;
    let mut client = client(&proxy).await;
    proxy.set(Fault::Latency(Duration::from_millis(20)));
    let begin = Instant::now();
    says(&mut client, b"late").await;
    assert!(begin.elapsed() >= Duration::from_millis(40), "both ways are late");
    proxy.set(Fault::Latency(Duration::from_secs(3600)));
    client.write_all(b"later").await.unwrap();
    hears_nothing(&mut client).await;
    proxy.heal();
    hears(&mut client, b"later").await;
}

#[tokio::test]
async fn a_cut_ends_what_is_open_and_nothing_later() {
    let proxy = proxy().await;
    let mut early = client(&proxy).await;
    says(&mut early, b"1").await;
    let mut barely = client(&proxy).await;
    proxy.set(Fault::Cut);
    let mut late = client(&proxy).await;
    is_over(&mut early).await;
    is_over(&mut barely).await;
    says(&mut late, b"2").await;
    assert!(proxy.broken() >= 1);
}

#[tokio::test]
async fn a_reset_looks_like_one() {
    let proxy = proxy().await;
    let mut client = client(&proxy).await;
    says(&mut client, b"1").await;
    proxy.set(Fault::Reset);
    assert_eq!(is_over(&mut client).await.1, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn who_comes_new_is_refused_and_who_is_there_stays() {
    let proxy = proxy().await;
    let mut early = client(&proxy).await;
    says(&mut early, b"1").await;
    proxy.set(Fault::Refuse);
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    says(&mut early, b"2").await;
    proxy.heal();
    says(&mut client(&proxy).await, b"3").await;
}

#[tokio::test]
async fn a_server_that_is_down_cuts_and_refuses_until_it_is_up_again() {
    let proxy = proxy().await;
    let mut early = client(&proxy).await;
    says(&mut early, b"1").await;
    proxy.set(Fault::Down);
    is_over(&mut early).await;
    assert!(TcpStream::connect(proxy.address()).await.is_err());
    proxy.heal();
    says(&mut client(&proxy).await, b"2").await;
}

#[tokio::test]
async fn a_black_hole_has_a_direction_and_ends() {
    for (direction, arrived) in [(Direction::ToServer, 1), (Direction::ToClient, 2), (Direction::Both, 1)] {
        let proxy = proxy().await;
        let mut early = client(&proxy).await;
        says(&mut early, b"1").await;
        proxy.set(Fault::BlackHole(direction));
        early.write_all(b"2").await.unwrap();
        hears_nothing(&mut early).await;
        eventually(SOON, async || proxy.forwarded(Direction::ToServer) == arrived).await;
        assert_eq!(proxy.forwarded(Direction::ToClient), 1);
        let mut late = client(&proxy).await;
        late.write_all(b"3").await.unwrap();
        hears_nothing(&mut late).await;
        proxy.heal();
        hears(&mut early, b"2").await;
        hears(&mut late, b"3").await;
    }
}

#[tokio::test]
async fn a_budget_is_kept_to_the_byte() {
    let proxy = proxy().await;
    let mut client = client(&proxy).await;
    says(&mut client, b"not counted").await;
    proxy.set(Fault::CutAfter { direction: Direction::ToClient, bytes: 3 });
    client.write_all(b"12345").await.unwrap();
    assert_eq!(is_over(&mut client).await.0, b"123");
    eventually(SOON, async || proxy.broken() == 1).await;
    assert_eq!(proxy.forwarded(Direction::ToClient), 11 + 3);
}

#[tokio::test]
async fn with_nobody_behind_it_the_client_is_reset() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let proxy = FaultProxy::start(nobody);
    assert_eq!(is_over(&mut client(&proxy).await).await.1, Some(ErrorKind::ConnectionReset));
}

#[tokio::test]
async fn a_dropped_proxy_cuts_everything() {
    let proxy = proxy().await;
    let address = proxy.address();
    let mut client = client(&proxy).await;
    says(&mut client, b"1").await;
    drop(proxy);
    is_over(&mut client).await;
    eventually(SOON, async || TcpStream::connect(address).await.is_err()).await;
}

#[tokio::test]
async fn a_url_through_the_proxy_differs_in_the_address_alone() {
    let server = echo().await;
    let (proxy, url) = FaultProxy::before(&format!("amqp://user:p@{server}/%2f?at={server}"));
    let address = proxy.address();
    assert_eq!(url, format!("amqp://user:p@{address}/%2f?at={server}"));
    assert_eq!(host_of("nats://127.0.0.1:4222"), "127.0.0.1:4222");
}
