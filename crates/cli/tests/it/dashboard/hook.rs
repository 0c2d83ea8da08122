//! A webhook that answers as a test wants it to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// Answers each request with what `answer` makes of its body, many at a time. Returns its port. It ends with the
/// process.
pub(super) fn hook(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> u16 {
    let (listener, answer) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(answer));
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || talk(stream, &*answer));
        }
    });
    port
}

/// An answer of this status, with this text.
pub(super) fn answer(status: &str, text: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}", text.len())
}

fn talk(mut stream: TcpStream, answer: &dyn Fn(&str) -> String) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
    let length = head.to_ascii_lowercase();
    let length = length.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    let _ = reader.read_exact(&mut body);
    let _ = stream.write_all(answer(&String::from_utf8_lossy(&body)).as_bytes());
}
