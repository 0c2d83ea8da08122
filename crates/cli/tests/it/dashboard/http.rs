//! A client that says exactly what a test wants to say, and nothing else.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::home::PATIENCE;

/// A request.
pub(super) struct Asked {
    address: String,
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn new(address: &str, method: &'static str, path: &str) -> Self {
        let host = ("host".to_owned(), address.to_owned());
        Self {
            address: address.to_owned(),
            method,
            path: path.to_owned(),
            headers: vec![host],
            body: String::new(),
        }
    }

    /// Sets a header in the place of the one before.
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("authorization", &format!("Bearer {token}"))
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.body(&body.to_string(), "application/json")
    }

    pub(super) fn body(mut self, body: &str, kind: &str) -> Self {
        self.body = body.to_owned();
        self.header("content-type", kind)
    }

    pub(super) fn send(self) -> Answer {
        let mut stream = self.open();
        let (mut bytes, mut part) = (Vec::new(), [0; 16 * 1024]);
        // Not every server closes the connection when it is asked to.
        while !is_whole(&bytes) {
            match stream.read(&mut part).unwrap() {
                0 => break,
                read => bytes.extend_from_slice(&part[..read]),
            }
        }
        Answer::read(&String::from_utf8_lossy(&bytes))
    }

    /// Sends it, and leaves the answer to the caller.
    pub(super) fn open(self) -> TcpStream {
        let mut text = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method == "POST" {
            text.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }
}

impl Answer {
    fn read(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: Vec<_> = lines.map(header).collect();
        let is_chunked =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_owned() };
        Self { status, headers, body }
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts the status, and that the body says each of these.
    #[track_caller]
    pub(super) fn says(&self, status: u16, with: &[&str]) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        for part in with {
            assert!(self.body.contains(part), "{part:?} is not said: {self:?}");
        }
        self
    }
}

/// Whether as much has come as the head promised.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length
        .and_then(|length| length.trim().parse::<usize>().ok())
        .is_some_and(|length| bytes.len() >= end + 4 + length)
}

fn unchunked(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            break;
        }
        body.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    body
}
