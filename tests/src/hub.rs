//! The other end of all ranks' links: collects one blob of each, and gives all to all.

use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use crate::link::{HELLO, read_frame};

/// What went through the hub.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Which ranks began.
    pub(crate) began: Vec<bool>,
    /// Each exchange: what the ranks gave.
    pub(crate) exchanges: Vec<Vec<Option<Vec<u8>>>>,
}

/// Serves the links until all ranks have ended.
pub(crate) fn serve(links: Vec<UnixStream>) -> JoinHandle<History> {
    thread::spawn(move || {
        let mut links: Vec<Option<UnixStream>> = links.into_iter().map(Some).collect();
        let mut history = History {
            began: collect(&mut links)
                .iter()
                .map(|blob| blob.as_deref() == Some(HELLO))
                .collect(),
            exchanges: Vec::new(),
        };
        loop {
            let blobs = collect(&mut links);
            if links.iter().all(Option::is_none) {
                return history;
            }
            let mut answer = (blobs.len() as u32).to_le_bytes().to_vec();
            for blob in &blobs {
                answer.push(u8::from(blob.is_some()));
                if let Some(blob) = blob {
                    answer.extend((blob.len() as u32).to_le_bytes());
                    answer.extend_from_slice(blob);
                }
            }
            for link in links.iter_mut() {
                // A rank may have ended since it gave its blob.
                if let Some(stream) = link
                    && std::io::Write::write_all(stream, &answer).is_err()
                {
                    *link = None;
                }
            }
            history.exchanges.push(blobs);
        }
    })
}

/// One frame of each rank; forgets those that have ended.
fn collect(links: &mut [Option<UnixStream>]) -> Vec<Option<Vec<u8>>> {
    let blobs = links.iter_mut().map(|link| {
        let frame = link
            .as_ref()
            .and_then(|stream| read_frame(stream).ok().flatten());
        if frame.is_none() {
            *link = None;
        }
        frame
    });
    blobs.collect()
}

/// For the tests of this crate's own parts.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::Link;

    #[test]
    fn who_has_ended_is_told_to_the_others() {
        let (a, hub_a) = UnixStream::pair().expect("a pair of sockets");
        let (b, hub_b) = UnixStream::pair().expect("a pair of sockets");
        let hub = serve(vec![hub_a, hub_b]);
        let (a, b) = (Link::new(a), Link::new(b));
        let other = thread::spawn(move || {
            let all = b.exchange(b"two");
            assert_eq!(all, [Some(b"one".to_vec()), Some(b"two".to_vec())]);
        });
        assert_eq!(a.exchange(b"one").len(), 2);
        other.join().expect("the other rank");
        assert_eq!(a.exchange(b"alone"), [Some(b"alone".to_vec()), None]);
        drop(a);
        let history = hub.join().expect("the hub");
        assert_eq!(history.began, [true, true]);
        assert_eq!(history.exchanges.len(), 2);
    }
}
