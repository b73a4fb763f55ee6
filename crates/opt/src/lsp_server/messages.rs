//! The frames of the Language Server Protocol's base protocol: a header with the length of the body, an empty line, the body.

use std::io::{self, BufRead, Read, Write};

/// The size of the largest body that is read as a whole: 256 MiB. Longer ones are passed on in parts.
const LARGEST: usize = 256 << 20;

/// The next bytes of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// A message, with its header as it was sent.
    Framed {
        /// The header, its empty line included.
        header: Vec<u8>,
        /// The content.
        body: Vec<u8>,
    },
    /// Bytes that are not a message: a header without a length, a part of a message that is too long or was cut off.
    Other(Vec<u8>),
    /// The end of the stream.
    End,
}

/// Reads the next message.
///
/// # Errors
/// If the stream cannot be read.
pub fn read(from: &mut impl BufRead) -> io::Result<Message> {
    let (mut header, mut length) = (Vec::new(), None);
    loop {
        let start = header.len();
        // A line of a header is short. Without this limit a stream without line ends would be kept as a whole.
        if Read::take(&mut *from, 4096).read_until(b'\n', &mut header)? == 0 {
            return Ok(if header.is_empty() { Message::End } else { Message::Other(header) });
        }
        let line = header[start..].trim_ascii();
        if line.is_empty() {
            break;
        }
        match std::str::from_utf8(line).ok().and_then(|line| line.split_once(':')) {
            Some((name, value)) if name.trim().eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok(),
            Some(_) => {}
            None => return Ok(Message::Other(header)),
        }
        if header.len() > 1 << 16 {
            return Ok(Message::Other(header));
        }
    }
    let Some(length) = length.filter(|length| *length <= LARGEST) else { return Ok(Message::Other(header)) };
    let mut body = Vec::new();
    Read::take(from, length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        header.append(&mut body);
        return Ok(Message::Other(header));
    }
    Ok(Message::Framed { header, body })
}

/// Writes a message.
///
/// # Errors
/// If the stream cannot be written.
pub fn write(to: &mut impl Write, body: &[u8]) -> io::Result<()> {
    write!(to, "Content-Length: {}\r\n\r\n", body.len())?;
    to.write_all(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that `read` returns for some bytes.
    fn all(mut bytes: &[u8]) -> Vec<Message> {
        let mut found = Vec::new();
        loop {
            match read(&mut bytes).expect("memory can be read") {
                Message::End => return found,
                message => found.push(message),
            }
        }
    }

    /// The bytes of what was read, in order.
    fn joined(messages: &[Message]) -> Vec<u8> {
        let bytes = |message: &Message| match message {
            Message::Framed { header, body } => [header.as_slice(), body].concat(),
            Message::Other(bytes) => bytes.clone(),
            Message::End => Vec::new(),
        };
        messages.iter().flat_map(bytes).collect()
    }

    #[test]
    fn messages_are_told_apart() {
        let text = b"Content-Length: 2\r\nContent-Type: x\r\n\r\n{}content-length:0\n\n";
        let found = all(text);
        let framed = |header: &[u8], body: &[u8]| Message::Framed { header: header.into(), body: body.into() };
        assert_eq!(found, [framed(b"Content-Length: 2\r\nContent-Type: x\r\n\r\n", b"{}"), framed(b"content-length:0\n\n", b"")]);
    }

    #[test]
    fn nothing_is_lost_of_what_is_no_message() {
        let long = format!("Content-Length: {}\r\n\r\nx", usize::MAX);
        let many = "a: b\n".repeat(20_000);
        let line = "x".repeat(10_000);
        for text in ["nonsense\n", "Content-Length: -1\r\n\r\n{}", "Content-Length: 9\r\n\r\n{}", &long, &many, &line, "\n\n", "a:\u{fffd}"]
        {
            let found = all(text.as_bytes());
            assert_eq!(joined(&found), text.as_bytes());
            assert!(!found.iter().any(|message| matches!(message, Message::Framed { .. })), "{text:.80}");
        }
    }
}
