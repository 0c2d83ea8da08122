//! Connections: kept, replaced, bounded, and never met by a storm.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox_core::Outcome;
use pillarbox_core::port::Sink as _;
use pillarbox_testkit::eventually;
use pillarbox_transport_http::HttpSink;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::harness::{
    Names, PATIENCE, RawServer, Reports, Server, deliver, deliver_one, entry, private, read_request, shown,
};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Answers every request of a connection with 200.
async fn polite() -> RawServer {
    RawServer::start(async |mut stream| {
        while read_request(&mut stream).await.is_some() {
            stream.write_all(OK).await.unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = polite().await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(1)).unwrap();
    for n in 1..=5 {
        let batch: Vec<_> = (n * 10..n * 10 + 10).map(entry).collect();
        assert!(deliver(&sink, &batch).await.iter().all(|outcome| *outcome == Outcome::Confirmed));
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn no_more_connections_are_opened_than_requests_may_be_under_way() {
    let server = polite().await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(8)).unwrap();
    for _ in 0..5 {
        deliver(&sink, &(1..=100).map(entry).collect::<Vec<_>>()).await;
    }
    assert!(server.accepted() <= 8, "{}", server.accepted());
}

#[tokio::test]
async fn a_connection_that_rested_for_too_long_is_not_used_again() {
    let server = polite().await;
    let sink =
        HttpSink::with_options(private(&server.url()).concurrency(1).idle_max(Duration::ZERO)).unwrap();
    for _ in 0..3 {
        assert_eq!(deliver_one(&sink).await, "confirmed");
    }
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_meanwhile_is_replaced_unnoticed() {
    let (close, closed) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (told, count) = (Arc::clone(&close), Arc::clone(&closed));
    let server = RawServer::start(move |mut stream| {
        let (told, count) = (Arc::clone(&told), Arc::clone(&count));
        async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(OK).await.unwrap();
            told.acquire().await.unwrap().forget();
            drop(stream);
            count.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(1).idle_max(PATIENCE)).unwrap();
    for n in 1..=3 {
        assert_eq!(deliver_one(&sink).await, "confirmed");
        // It rests now, and is closed. A few looks, so that this side has had the time to hear of it.
        close.add_permits(1);
        let mut looks = 0;
        eventually(PATIENCE, || {
            looks += 1;
            std::future::ready(looks > 5 && closed.load(Ordering::SeqCst) == n)
        })
        .await;
    }
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn a_server_that_closes_after_each_answer_is_served_all_the_same() {
    let server = RawServer::start(async |mut stream| {
        read_request(&mut stream).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url())).unwrap();
    let outcomes = deliver(&sink, &(1..=50).map(entry).collect::<Vec<_>>()).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Confirmed));
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_tried_once_per_batch() {
    let names = Names::new(&[&["127.0.0.1"]]);
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let options = private(&format!("http://hooks.example.org:{port}/"));
    let sink = HttpSink::with_options(options.resolver(Arc::<Names>::clone(&names))).unwrap();
    let outcomes = deliver(&sink, &(1..=500).map(entry).collect::<Vec<_>>()).await;
    assert!(outcomes.iter().all(|outcome| shown(outcome) == "down refused"));
    assert_eq!(names.asked().len(), 1);
}

#[tokio::test]
async fn an_answer_counts_by_its_head_however_long_its_body() {
    let cut = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&cut);
    let server = RawServer::start(move |mut stream| {
        let cut = Arc::clone(&cut);
        async move {
            read_request(&mut stream).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
            let chunk = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
            while stream.write_all(&chunk).await.is_ok() {}
            cut.store(true, Ordering::SeqCst);
        }
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url())).unwrap();
    assert_eq!(deliver_one(&sink).await, "confirmed");
    eventually(PATIENCE, async || seen.load(Ordering::SeqCst)).await;
    assert_eq!(deliver_one(&sink).await, "confirmed");
    assert_eq!(server.accepted(), 2, "a body that was not read to its end spoils its connection");
}

#[tokio::test]
async fn a_body_of_more_than_64_kib_is_not_read_to_its_end() {
    let server = RawServer::start(async |mut stream| {
        let bytes = 64 * 1024 + 1;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
        while read_request(&mut stream).await.is_some() {
            let _ = stream.write_all(&[head.as_bytes(), &vec![b'x'; bytes]].concat()).await;
        }
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(1)).unwrap();
    for _ in 0..2 {
        assert_eq!(deliver_one(&sink).await, "confirmed");
    }
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn an_outcome_is_reported_before_the_answer_s_body_is_there() {
    let server = RawServer::start(async |mut stream| {
        read_request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n").await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url())).unwrap();
    let (reports, batch) = (Reports::default(), [entry(1)]);
    tokio::select! {
        () = sink.deliver(&batch, &reports) => {}
        () = eventually(PATIENCE, async || !reports.outcomes().is_empty()) => {}
    }
    assert_eq!(reports.outcomes(), [Outcome::Confirmed]);
}

#[tokio::test]
async fn a_dropped_delivery_closes_its_connections() {
    let (open, closed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, ended) = (Arc::clone(&open), Arc::clone(&closed));
    let server = RawServer::start(move |mut stream| {
        let (open, closed) = (Arc::clone(&open), Arc::clone(&closed));
        async move {
            read_request(&mut stream).await.unwrap();
            open.fetch_add(1, Ordering::SeqCst);
            assert_eq!(read_request(&mut stream).await, None);
            closed.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let sink = HttpSink::with_options(private(&server.url()).concurrency(4)).unwrap();
    let (reports, batch) = (Reports::default(), (1..=20).map(entry).collect::<Vec<_>>());
    tokio::select! {
        () = sink.deliver(&batch, &reports) => panic!("nobody answers"),
        () = eventually(PATIENCE, async || opened.load(Ordering::SeqCst) == 4) => {}
    }
    eventually(PATIENCE, async || ended.load(Ordering::SeqCst) == 4).await;
    assert!(reports.outcomes().is_empty());
}

#[tokio::test]
async fn the_server_s_own_status_is_what_counts_not_its_reason() {
    let server = Server::status(204).await;
    assert_eq!(deliver_one(&super::harness::sink(&server.url())).await, "confirmed");
}
