//! A few words of MongoDB's wire protocol: enough to start a replica set and to make its first user.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Result;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The number of the one kind of message that servers and clients send.
const MESSAGE: u32 = 2013;
/// No answer here is larger.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A value of a command.
pub(super) enum Value<'a> {
    Number(i32),
    Text(&'a str),
    Document(Vec<(&'a str, Value<'a>)>),
    List(Vec<Value<'a>>),
}

/// Runs a command of the database `admin`. The name of the command is its first field.
pub(super) fn run(port: u16, mut command: Vec<(&str, Value<'_>)>) -> Result<Answer> {
    command.push(("$db", Value::Text("admin")));
    let mut body = vec![0; 5];
    body.extend(document(&command));
    let mut stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    let length = u32::try_from(body.len() + 16)?;
    for word in [length, 1, 0, MESSAGE] {
        stream.write_all(&word.to_le_bytes())?;
    }
    stream.write_all(&body)?;
    let mut header = [0; 16];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let length = usize::try_from(length)?.saturating_sub(header.len());
    if length > ANSWER_BYTES_MAX {
        return Err("the answer of MongoDB is too long".into());
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer)?;
    Ok(Answer(answer))
}

/// What a server said.
pub(super) struct Answer(Vec<u8>);

impl Answer {
    /// Whether the command succeeded.
    pub(super) fn is_ok(&self) -> bool {
        self.contains(b"\x01ok\0\0\0\0\0\0\0\xf0\x3f")
    }

    /// Whether this flag is set.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.contains(format!("\x08{name}\0\x01").as_bytes())
    }

    /// Fails with what the server said, unless the command succeeded.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_ok() {
            return Ok(());
        }
        Err(format!("MongoDB refuses a command: {}", String::from_utf8_lossy(&self.0).replace('\0', " "))
            .into())
    }

    fn contains(&self, bytes: &[u8]) -> bool {
        self.0.windows(bytes.len()).any(|window| window == bytes)
    }
}

fn document(fields: &[(&str, Value<'_>)]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for (name, value) in fields {
        field(name, value, &mut bytes);
    }
    bytes.push(0);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    bytes
}

fn field(name: &str, value: &Value<'_>, bytes: &mut Vec<u8>) {
    let (kind, body) = match value {
        Value::Text(text) => {
            let length = u32::try_from(text.len() + 1).unwrap_or(u32::MAX);
            (2, [&length.to_le_bytes()[..], text.as_bytes(), &[0]].concat())
        }
        Value::Document(fields) => (3, document(fields)),
        Value::List(values) => {
            let mut list = vec![0; 4];
            for (place, value) in values.iter().enumerate() {
                field(&place.to_string(), value, &mut list);
            }
            list.push(0);
            let length = u32::try_from(list.len()).unwrap_or(u32::MAX).to_le_bytes();
            list[..4].copy_from_slice(&length);
            (4, list)
        }
        Value::Number(number) => (16, number.to_le_bytes().to_vec()),
    };
    bytes.push(kind);
    bytes.extend_from_slice(name.as_bytes());
    bytes.push(0);
    bytes.extend(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_written_as_bson() {
        let bytes = document(&[("a", Value::Number(1)), ("b", Value::List(vec![Value::Text("x")]))]);
        let expected = b"\x1d\0\0\0\x10a\0\x01\0\0\0\x04b\0\x0e\0\0\0\x020\0\x02\0\0\0x\0\0\0";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn an_answer_says_whether_it_is_good() {
        let answer = Answer(b"....\x08isWritablePrimary\0\x01\x01ok\0\0\0\0\0\0\0\xf0\x3f\0".to_vec());
        assert!(answer.is_ok() && answer.flag("isWritablePrimary") && !answer.flag("secondary"));
        assert!(Answer(b"\x01ok\0\0\0\0\0\0\0\0\0".to_vec()).check().is_err());
    }
}
