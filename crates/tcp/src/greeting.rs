//! The first words of a connection: who calls says a greeting, who is called answers.
//!
//! ```text
//! greeting  'lmtcp' version 0 0 | to u64 | its secret u64 | from u64 | secret of that one u64
//!           attempt u32 | bytes of hello u16 | 0 u16 | hello
//! answer    'lmtca' version verdict 0 | from u64 | secret of the caller u64
//!           attempt u32 | bytes of hello u16 | 0 u16 | hello
//! ```
//!
//! The caller shows the secret of the one it calls, and gives its own, which the answer has to
//! show. The hello is the layer above's.

use crate::called::{MOST_FROM_ONE_ADDRESS, MOST_KNOWN};

/// Most bytes of a hello.
pub(crate) const HELLO: usize = 128;

const GREETING: [u8; 6] = *b"lmtcp\x01";
const ANSWER: [u8; 6] = *b"lmtca\x01";
const FIXED: usize = 48;
const ANSWER_FIXED: usize = 32;

/// What a caller says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// Whom it calls.
    pub(crate) to: u64,
    /// That endpoint's secret.
    pub(crate) secret: u64,
    /// The caller.
    pub(crate) from: u64,
    /// The caller's secret.
    pub(crate) answer_secret: u64,
    /// The caller's count of its calls to this endpoint.
    pub(crate) attempt: u32,
    /// For the layer above.
    pub(crate) hello: Vec<u8>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The connection is ready.
    Taken,
    /// Both have called: the call of the one who answers stays, and this one goes.
    MineStays,
    /// The called endpoint is not there, or the caller has not its secret. The answer says nothing
    /// that the caller has not said.
    Refused,
    /// The called endpoint takes no more callers of this kind at the moment.
    Full(Limit),
}

/// What an endpoint has as much of as it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Connections from the caller's address.
    FromAddress,
    /// Endpoints.
    Known,
}

impl Limit {
    /// What its caller is told.
    pub(crate) fn text(self) -> String {
        match self {
            Self::FromAddress => format!(
                "the peer takes no more than {MOST_FROM_ONE_ADDRESS} connections from the address \
                 of this machine at a time"
            ),
            Self::Known => format!("the peer takes no more than {MOST_KNOWN} endpoints at a time"),
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) verdict: Verdict,
    /// The endpoint that answers.
    pub(crate) from: u64,
    /// The secret of the caller.
    pub(crate) secret: u64,
    /// The answering side's count of its calls to this endpoint.
    pub(crate) attempt: u32,
    /// For the layer above.
    pub(crate) hello: Vec<u8>,
}

/// What has come of a greeting or an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard<T> {
    /// So many bytes are to be read; not more, since what is behind them is none of this.
    Missing(usize),
    Whole(T),
}

impl Greeting {
    /// As it travels.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = GREETING.to_vec();
        out.extend([0; 2]);
        for word in [self.to, self.secret, self.from, self.answer_secret] {
            out.extend(word.to_le_bytes());
        }
        tail(&mut out, self.attempt, &self.hello);
        out
    }

    /// From what anybody may have sent.
    ///
    /// # Errors
    /// It is no greeting of this version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Heard<Self>, &'static str> {
        let (fixed, hello) = match split::<FIXED>(bytes, GREETING)? {
            Heard::Missing(more) => return Ok(Heard::Missing(more)),
            Heard::Whole(parts) => parts,
        };
        if fixed[6..8] != [0; 2] {
            return Err("reserved bytes that are not zero");
        }
        Ok(Heard::Whole(Self {
            to: word(fixed, 8),
            secret: word(fixed, 16),
            from: word(fixed, 24),
            answer_secret: word(fixed, 32),
            attempt: half(fixed, 40),
            hello: hello.to_vec(),
        }))
    }
}

impl Answer {
    /// As it travels.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = ANSWER.to_vec();
        let verdict = match self.verdict {
            Verdict::Taken => 0,
            Verdict::MineStays => 1,
            Verdict::Refused => 2,
            Verdict::Full(Limit::FromAddress) => 3,
            Verdict::Full(Limit::Known) => 4,
        };
        out.extend([verdict, 0]);
        for word in [self.from, self.secret] {
            out.extend(word.to_le_bytes());
        }
        tail(&mut out, self.attempt, &self.hello);
        out
    }

    /// From what anybody may have sent.
    ///
    /// # Errors
    /// It is no answer of this version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Heard<Self>, &'static str> {
        let (fixed, hello) = match split::<ANSWER_FIXED>(bytes, ANSWER)? {
            Heard::Missing(more) => return Ok(Heard::Missing(more)),
            Heard::Whole(parts) => parts,
        };
        let verdict = match fixed[6..8] {
            [0, 0] => Verdict::Taken,
            [1, 0] => Verdict::MineStays,
            [2, 0] => Verdict::Refused,
            [3, 0] => Verdict::Full(Limit::FromAddress),
            [4, 0] => Verdict::Full(Limit::Known),
            _ => return Err("an unknown verdict"),
        };
        Ok(Heard::Whole(Self {
            verdict,
            from: word(fixed, 8),
            secret: word(fixed, 16),
            attempt: half(fixed, 24),
            hello: hello.to_vec(),
        }))
    }
}

fn tail(out: &mut Vec<u8>, attempt: u32, hello: &[u8]) {
    out.extend(attempt.to_le_bytes());
    out.extend((hello.len() as u16).to_le_bytes());
    out.extend([0; 2]);
    out.extend(hello);
}

/// The fixed part and the hello.
type Split<'a, const N: usize> = Heard<(&'a [u8; N], &'a [u8])>;

/// The fixed part, whose last 4 bytes are the length of the hello and zero, and the hello.
fn split<const N: usize>(bytes: &[u8], begins: [u8; 6]) -> Result<Split<'_, N>, &'static str> {
    let known = bytes.len().min(5);
    if bytes[..known] != begins[..known] {
        return Err("bytes that are not of limic");
    }
    if bytes.len() > 5 && bytes[5] != begins[5] {
        return Err("another version of limic");
    }
    let Some((fixed, hello)) = bytes.split_first_chunk::<N>() else {
        return Ok(Heard::Missing(N - bytes.len()));
    };
    let len = usize::from(u16::from_le_bytes([fixed[N - 4], fixed[N - 3]]));
    if len > HELLO || fixed[N - 2..] != [0; 2] {
        return Err("a hello that is too long");
    }
    match hello.get(..len) {
        Some(hello) => Ok(Heard::Whole((fixed, hello))),
        None => Ok(Heard::Missing(len - hello.len())),
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads as a socket is read: only what is said to be missing.
    fn read_in_parts<T>(
        bytes: &[u8],
        from_bytes: impl Fn(&[u8]) -> Result<Heard<T>, &'static str>,
    ) -> Result<(T, usize), &'static str> {
        let mut have = 0;
        loop {
            match from_bytes(&bytes[..have])? {
                Heard::Whole(all) => return Ok((all, have)),
                Heard::Missing(more) => have += more,
            }
        }
    }

    proptest! {
        #[test]
        fn greetings_and_answers_come_back(
            words in any::<[u64; 4]>(),
            attempt in any::<u32>(),
            verdict in 0..5_usize,
            hello in proptest::collection::vec(any::<u8>(), 0..=HELLO),
        ) {
            let [to, secret, from, answer_secret] = words;
            let greeting = Greeting { to, secret, from, answer_secret, attempt, hello };
            let mut bytes = greeting.to_bytes();
            let len = bytes.len();
            bytes.extend([9; 50]);
            let read = read_in_parts(&bytes, Greeting::from_bytes);
            prop_assert_eq!(read, Ok((greeting.clone(), len)));
            let verdict = [
                Verdict::Taken,
                Verdict::MineStays,
                Verdict::Refused,
                Verdict::Full(Limit::FromAddress),
                Verdict::Full(Limit::Known),
            ][verdict];
            let answer = Answer { verdict, from, secret, attempt, hello: greeting.hello };
            let bytes = answer.to_bytes();
            let read = read_in_parts(&bytes, Answer::from_bytes);
            prop_assert_eq!(read, Ok((answer, bytes.len())));
        }

        #[test]
        fn any_bytes_are_read_without_harm(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
            real in any::<bool>(),
        ) {
            if real && bytes.len() > 6 {
                bytes[..6].copy_from_slice(&GREETING);
            }
            let _ = Greeting::from_bytes(&bytes);
            let _ = Answer::from_bytes(&bytes);
        }
    }

    #[test]
    fn garbage_is_known_by_its_first_bytes() {
        assert!(Greeting::from_bytes(b"GET ").is_err());
        assert_eq!(Greeting::from_bytes(b"lmt"), Ok(Heard::Missing(FIXED - 3)));
        let error = Greeting::from_bytes(b"lmtcp\x07").unwrap_err();
        assert_eq!(error, "another version of limic");
    }
}
