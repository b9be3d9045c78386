//! A rank's line to its test, beside limic: exchange of small blobs, and meeting points.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use limic::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The first frame of each rank: it shows that the test really ran there.
pub(crate) const HELLO: &[u8] = b"here";

/// What one rank holds of the exchange that all ranks of a test share.
#[derive(Debug)]
pub struct Link {
    stream: UnixStream,
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> Self {
        let link = Self { stream };
        write_frame(&link.stream, HELLO).expect("the test that started this rank listens");
        link
    }

    /// Gives a blob and gets those of all ranks; `None` for a rank that has ended. Every rank that
    /// is alive has to call it.
    ///
    /// # Panics
    /// If the test that started this rank is gone.
    #[must_use]
    pub fn exchange(&self, blob: &[u8]) -> Vec<Option<Vec<u8>>> {
        self.exchange_while(blob, || {})
    }

    /// Like [`exchange`](Self::exchange), and `meanwhile` is called about every millisecond.
    ///
    /// # Panics
    /// If the test that started this rank is gone.
    pub fn exchange_while(&self, blob: &[u8], mut meanwhile: impl FnMut()) -> Vec<Option<Vec<u8>>> {
        write_frame(&self.stream, blob).expect("the test that started this rank listens");
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        loop {
            meanwhile();
            let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
            match poll(&mut fds, Some(&tick)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(error) => panic!("poll: {error}"),
            }
        }
        let mut count = [0; 4];
        let mut stream = Plain(&self.stream);
        stream
            .read_exact(&mut count)
            .expect("the test that started this rank answers");
        (0..u32::from_le_bytes(count))
            .map(|_| {
                let mut alive = [0];
                stream.read_exact(&mut alive).expect("a whole answer");
                (alive[0] == 1).then(|| {
                    read_frame(&self.stream)
                        .expect("a whole answer")
                        .unwrap_or_default()
                })
            })
            .collect()
    }

    /// Waits until every rank that is alive is here, and moves messages along meanwhile.
    ///
    /// # Panics
    /// If the test that started this rank is gone.
    pub fn meet<E: Endpoint + ?Sized>(&self, endpoint: &E) {
        let _ = self.exchange_while(&[], || {
            endpoint.progress();
        });
    }

    pub(crate) fn try_clone(&self) -> Self {
        Self {
            stream: self.stream.try_clone().expect("a descriptor"),
        }
    }
}

/// The stream by `read` and `write`, which no test makes fail (`failing`): the standard library
/// receives and sends.
struct Plain<'a>(&'a UnixStream);

impl Read for Plain<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::read(self.0, into)?)
    }
}

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn write_frame(stream: &UnixStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut frame = (bytes.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(bytes);
    Plain(stream).write_all(&frame)
}

/// `None` at the end of the stream.
pub(crate) fn read_frame(stream: &UnixStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut len = [0; 4];
    let mut stream = Plain(stream);
    match stream.read_exact(&mut len) {
        Ok(()) => {}
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
            ) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    }
    let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(Some(bytes))
}
