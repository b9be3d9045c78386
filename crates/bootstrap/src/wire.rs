//! The lines of the PMI-1 wire protocol, as Hydra's `mpiexec` speaks it; both the client here and
//! the server in `limic run` use them.
//!
//! A message is one line, `cmd=NAME key=value key=value\n`. Values hold no line ends; a word
//! without `=` belongs to the value before it, so that error texts may hold blanks.

/// Longest line, in bytes, that either side accepts. The longest that limic itself sends is below
/// 1024 bytes, which is what old versions of Hydra can take.
pub const MAX_LINE: usize = 1 << 16;

/// What is wrong with received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// More than [`MAX_LINE`] bytes without a line end.
    #[error("a line of more than {MAX_LINE} bytes")]
    TooLong,
    /// The line does not begin with `cmd=` (or `mcmd=`).
    #[error("a line that does not begin with cmd=")]
    NoCommand,
}

/// One line: a command and its fields, in order. Keys and values are bytes; other MPIs' values need
/// not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Message {
    /// A message with this command and no fields yet.
    #[must_use]
    pub fn new(command: &str) -> Self {
        Self { fields: Vec::new() }.with("cmd", command)
    }

    /// Adds a field. Control bytes in the value (a line end would begin a new message) become `_`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref().iter();
        let value = value.map(|&byte| if byte.is_ascii_control() { b'_' } else { byte });
        self.fields.push((key.as_bytes().to_vec(), value.collect()));
        self
    }

    /// Reads one line, with or without its line end.
    ///
    /// # Errors
    /// [`WireError::NoCommand`] if it does not begin with `cmd=` or `mcmd=`.
    pub fn parse(line: &[u8]) -> Result<Self, WireError> {
        let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let words = line.split(|&byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0));
        for word in words.filter(|word| !word.is_empty()) {
            match (
                word.iter().position(|&byte| byte == b'='),
                fields.last_mut(),
            ) {
                (Some(at), _) if at > 0 => {
                    fields.push((word[..at].to_vec(), word[at + 1..].to_vec()));
                }
                (_, Some((_, value))) => {
                    value.push(b' ');
                    value.extend_from_slice(word);
                }
                (_, None) => return Err(WireError::NoCommand),
            }
        }
        match fields.first() {
            Some((key, _)) if key == b"cmd" || key == b"mcmd" => Ok(Self { fields }),
            _ => Err(WireError::NoCommand),
        }
    }

    /// The line, with its line end.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut line = Vec::new();
        for (key, value) in &self.fields {
            if !line.is_empty() {
                line.push(b' ');
            }
            line.extend_from_slice(key);
            line.push(b'=');
            line.extend_from_slice(value);
        }
        line.push(b'\n');
        line
    }

    /// The command's name; anything that is not UTF-8 is replaced, so it matches no known command.
    #[must_use]
    pub fn command(&self) -> String {
        let value = self.fields.first().map(|(_, value)| value.as_slice());
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    }

    /// The value of the first field with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        let field = fields.find(|(name, _)| name == key.as_bytes());
        field.map(|(_, value)| value.as_slice())
    }

    /// The value of the first field with this key, as text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<String> {
        self.get(key)
            .map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// The value of the first field with this key, as a number; `None` also if it is not one.
    #[must_use]
    pub fn number<N: std::str::FromStr>(&self, key: &str) -> Option<N> {
        std::str::from_utf8(self.get(key)?)
            .ok()?
            .trim()
            .parse()
            .ok()
    }
}

/// Cuts a byte stream into lines, however it arrives.
#[derive(Debug, Default)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    /// Bytes before this index hold no line end: a slow sender must not make the search quadratic.
    searched: usize,
}

impl LineBuffer {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line without its line end, or `None` until more bytes are here.
    ///
    /// # Errors
    /// [`WireError::TooLong`] once the stream cannot be cut any more.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        let found = self.bytes[self.searched..].iter().position(|&b| b == b'\n');
        match found.map(|at| at + self.searched) {
            Some(end) if end <= MAX_LINE => {
                let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
                line.pop();
                self.searched = 0;
                Ok(Some(line))
            }
            None if self.bytes.len() <= MAX_LINE => {
                self.searched = self.bytes.len();
                Ok(None)
            }
            _ => Err(WireError::TooLong),
        }
    }
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    let digits = bytes
        .iter()
        .flat_map(|&byte| [digit(byte >> 4), digit(byte)]);
    digits.collect()
}

/// The bytes behind hexadecimal digits; `None` if there is an odd number of them or one is no
/// digit.
#[must_use]
pub fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|v| u8::try_from(v).ok())
    };
    if digits.len() % 2 != 0 {
        return None;
    }
    let pairs = digits.chunks_exact(2);
    pairs
        .map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_line() {
        let message = Message::new("put")
            .with("key", "a")
            .with("value", "(vector,(0,1,2))");
        let line = message.encode();
        assert_eq!(line, b"cmd=put key=a value=(vector,(0,1,2))\n");
        assert_eq!(Message::parse(&line), Ok(message));
    }

    #[test]
    fn error_texts_may_hold_blanks_and_values_equal_signs() {
        let message =
            Message::parse(b"cmd=get_result rc=-1 msg=key not found  value=a=b\r\n").unwrap();
        assert_eq!(message.text("msg").as_deref(), Some("key not found"));
        assert_eq!(message.number::<i32>("rc"), Some(-1));
        assert_eq!(message.get("value"), Some(&b"a=b"[..]));
        assert_eq!(message.get("absent"), None);
    }

    #[test]
    fn a_value_cannot_begin_a_new_message() {
        let line = Message::new("abort")
            .with("message", "x\ncmd=finalize")
            .encode();
        assert_eq!(line, b"cmd=abort message=x_cmd=finalize\n");
    }

    #[test]
    fn lines_without_a_command_are_errors() {
        for line in [&b""[..], b"hello", b"rc=0 cmd=init", b"=x", b"\0\xff"] {
            assert_eq!(Message::parse(line), Err(WireError::NoCommand), "{line:?}");
        }
    }

    #[test]
    fn lines_are_cut_however_the_bytes_arrive() {
        let stream = b"cmd=a\ncmd=b x=1\n\ncmd=c";
        for step in 1..=stream.len() {
            let mut buffer = LineBuffer::default();
            let mut lines = Vec::new();
            for piece in stream.chunks(step) {
                buffer.push(piece);
                while let Some(line) = buffer.next_line().unwrap() {
                    lines.push(line);
                }
            }
            assert_eq!(lines, [&b"cmd=a"[..], b"cmd=b x=1", b""]);
        }
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let mut buffer = LineBuffer::default();
        buffer.push(&[b'x'; MAX_LINE]);
        assert_eq!(buffer.next_line(), Ok(None));
        buffer.push(b"x");
        assert_eq!(buffer.next_line(), Err(WireError::TooLong));
    }

    #[test]
    fn hex_goes_both_ways_and_rejects_the_rest() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(to_hex(&all).as_bytes()), Some(all));
        assert_eq!(from_hex(b"0"), None);
        assert_eq!(from_hex(b"0g"), None);
        assert_eq!(from_hex("é".as_bytes()), None);
    }
}
