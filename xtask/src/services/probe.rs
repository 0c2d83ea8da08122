//! Asks a server over TCP whether it answers, without a client library and without starting a process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take. A server that starts is slow, and is asked again.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Whether the server at this port answers these bytes with an answer that begins like that.
pub(super) fn answers(port: u16, question: &[u8], beginning: &[u8]) -> bool {
    ask(port, question, beginning.len()).is_ok_and(|answer| answer == beginning)
}

/// Whether the server at this port greets whoever connects, as MySQL and MariaDB do: a length, the number 0, version 10.
pub(super) fn greets(port: u16) -> bool {
    ask(port, b"", 5).is_ok_and(|greeting| greeting[3..] == [0, 10])
}

fn ask(port: u16, question: &[u8], length: usize) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    stream.write_all(question)?;
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn only_the_expected_beginning_is_an_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(b"+PONG\r\n").unwrap();
            }
        });
        assert!(answers(port, b"", b"+PONG"));
        assert!(!answers(port, b"", b"-LOAD"));
        server.join().unwrap();
        assert!(!answers(port, b"", b"+PONG"), "nobody listens");
    }
}
