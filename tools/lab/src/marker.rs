//! Markers that say where steps begin and end in a guest's output.
//!
//! The guest's first program writes them between the output of the steps: a zero byte, the words
//! `limic-lab NONCE`, what happened, and a line feed. The nonce is new for each guest, so that no
//! step prints a marker by chance.

/// A part of what a port of the guest brings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Bytes that a step printed.
    Output(Vec<u8>),
    Begin(String),
    /// The step of this name ended with this exit status.
    End(String, i32),
}

/// Cuts a stream at the markers.
#[derive(Debug)]
pub(crate) struct Cutter {
    start: Vec<u8>,
    kept: Vec<u8>,
}

impl Cutter {
    pub(crate) fn new(nonce: &str) -> Self {
        Self {
            start: format!("\0limic-lab {nonce} ").into_bytes(),
            kept: Vec::new(),
        }
    }

    /// Takes more bytes in. Returns the parts that are complete by now.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Said> {
        self.kept.extend_from_slice(bytes);
        let mut said = Vec::new();
        loop {
            let at = self.find_start();
            if at > 0 {
                said.push(Said::Output(self.kept.drain(..at).collect()));
            }
            // Now a marker, or the beginning of one, is in front.
            let line_feed = self.kept.iter().position(|byte| *byte == b'\n');
            match line_feed {
                Some(end) if self.kept.starts_with(&self.start) => {
                    let line: Vec<u8> = self.kept.drain(..=end).collect();
                    let words = String::from_utf8_lossy(&line[self.start.len()..end]).into_owned();
                    said.extend(event(&words));
                }
                _ => return said,
            }
        }
    }

    /// The bytes that are left when the stream has ended.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    /// The first place where a marker begins or may begin.
    fn find_start(&self) -> usize {
        let could_begin = |at: &usize| {
            let rest = &self.kept[*at..];
            let common = rest.len().min(self.start.len());
            rest[..common] == self.start[..common]
        };
        let mut places = 0..self.kept.len();
        places.find(could_begin).unwrap_or(self.kept.len())
    }
}

fn event(words: &str) -> Option<Said> {
    let mut words = words.split(' ');
    match (words.next()?, words.next()?, words.next()) {
        ("begin", name, None) => Some(Said::Begin(name.to_owned())),
        ("end", name, Some(status)) => Some(Said::End(name.to_owned(), status.parse().ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the stream is cut into reads.
    #[test]
    fn markers_are_found_across_reads() {
        let stream =
            b"\0limic-lab 77 begin 01\nhello\0lim\0limic-lab 78 x\n\0limic-lab 77 end 01 3\nrest";
        for size in 1..stream.len() {
            let mut cutter = Cutter::new("77");
            let mut output = Vec::new();
            let mut events = Vec::new();
            for bytes in stream.chunks(size) {
                for said in cutter.feed(bytes) {
                    match said {
                        Said::Output(bytes) => output.extend(bytes),
                        event => events.push(event),
                    }
                }
            }
            output.extend(cutter.rest());
            assert_eq!(output, b"hello\0lim\0limic-lab 78 x\nrest");
            assert_eq!(
                events,
                [Said::Begin("01".to_owned()), Said::End("01".to_owned(), 3)]
            );
        }
    }
}
