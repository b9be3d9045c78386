//! Output of a program, read by a thread of its own.

use std::io::Read;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The time after the program's end in which processes that it left behind may still write.
const LATE_OUTPUT: Duration = Duration::from_secs(2);

/// A pipe that a thread reads from.
#[derive(Debug)]
pub(crate) struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

impl Stream {
    pub(crate) fn read(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (sink, (at_end, ended)) = (Arc::clone(&bytes), mpsc::channel());
        thread::spawn(move || {
            let mut part = [0; 4096];
            let mut pipe = pipe;
            while let Some(length) = pipe.as_mut().and_then(|pipe| pipe.read(&mut part).ok()) {
                if length == 0 {
                    break;
                }
                let mut all = sink.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend_from_slice(&part[..length]);
            }
            // This fails if the other side does not wait any more.
            let _ = at_end.send(());
        });
        Self { bytes, ended }
    }

    /// The output. A descendant that survived may hold the pipe open for ever, so that the wait for
    /// the end of the pipe is bounded.
    pub(crate) fn end(self) -> String {
        let _ = self.ended.recv_timeout(LATE_OUTPUT);
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
