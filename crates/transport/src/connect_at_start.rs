//! The ranks of a job meet before their first message.

use limic_shm::idle::Patience;

use crate::{Endpoint, Peer, Result};

/// Looks for news of a connection that follow one another at once, and those after which a
/// processor is given away each time, before it sleeps. Few: while ranks share a processor, the
/// news is another rank's to make.
const POLLS: u32 = 16;
const YIELDS: u32 = 64;

/// Meets those ranks that the settings want met at the start (`LIMIC_VERBS_CONNECT=static`), in
/// `n - 1` steps: in each, every rank meets one other and is met by one, so that nobody has a crowd
/// at the door. All ranks call it. `peers` are all ranks in their order, and `rank` is this one's
/// place.
///
/// [`World`](crate::World) does it by itself; this is for runtimes with a bootstrap of their own.
///
/// # Errors
/// [`Error::UnknownPeer`](crate::Error::UnknownPeer),
/// [`Error::PeerFailed`](crate::Error::PeerFailed).
pub fn connect_at_start<E: Endpoint>(endpoint: &E, rank: usize, peers: &[Peer]) -> Result<()> {
    let size = peers.len();
    for step in 1..size {
        let to = peers[(rank + step) % size];
        let from = peers[(rank + size - step) % size];
        let mut left = Vec::new();
        for peer in [to, from] {
            if endpoint.connects_at_start(peer)? {
                left.push(peer);
            }
        }
        let mut in_vain = 0;
        let mut patience = Patience::default();
        while !left.is_empty() {
            let mut still = Vec::new();
            for peer in left {
                if !endpoint.attach(peer)? {
                    still.push(peer);
                }
            }
            left = still;
            if endpoint.progress() {
                in_vain = 0;
            } else if in_vain < POLLS + YIELDS {
                in_vain += 1;
                if in_vain > POLLS {
                    std::thread::yield_now();
                }
            } else if let Some(peer) = left.first() {
                if patience.is_over(endpoint.patience()) {
                    endpoint.say_contact(*peer);
                }
                endpoint.sleep(None);
            }
        }
    }
    Ok(())
}
