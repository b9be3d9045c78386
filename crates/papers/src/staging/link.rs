//! One reliable connection with RDMA writes and reads, and notices of eight bytes that follow them
//! in order.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use limic_ibverbs::VerbsError;
use limic_ibverbs::objects::{
    Access, Bytes, CompletionQueue, LocalSlice, MemoryRegion, Notifier, Port, ProtectionDomain,
    QueuePair, QueuePairSettings, ReceiveQueue, RemoteMemory, SendKind, SendWork,
    SharedReceiveQueue, WorkStatus,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::card::LinkCard;

/// Why a link is of no use any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A call failed.
    #[error("{0}")]
    Verbs(#[from] VerbsError),
    /// A request failed: the peer refused, or is gone.
    #[error("a request failed ({0:?}): the peer is gone, or refused access to its memory")]
    Failed(WorkStatus),
    /// Nothing came in time.
    #[error("nothing came for {0:?}")]
    Late(Duration),
    /// The slices lie outside of their area, or are too many.
    #[error("{0}")]
    Pieces(String),
}

/// A request, to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// Bytes of a notice.
const NOTICE: usize = 8;
/// Notices that may come before they are taken.
const NOTICES: u32 = 64;
/// Empty polls before a sleep.
const SPINS: u32 = 200;
/// Receives have this bit in their number.
const RECEIVE: u64 = 1 << 63;
/// Work requests on their way.
const ENTRIES: u32 = 64;
/// Retries and timeout (4.096 us x 2^14) as with the connections of an endpoint.
const RETRIES: u8 = 6;
const TIMEOUT: u8 = 14;

/// One end of a connection.
#[derive(Debug)]
pub struct Link {
    // The queue pair goes first, the memory of its receives last.
    pair: QueuePair,
    receives: Arc<SharedReceiveQueue>,
    queue: Arc<CompletionQueue>,
    notifier: Arc<Notifier>,
    inbox: MemoryRegion<Bytes>,
    most_slices: u32,
    posted: u64,
    done: u64,
    came: VecDeque<u64>,
    failed: Option<WorkStatus>,
    patience: Duration,
}

impl Link {
    /// An end that is not connected yet. Every wait gives up after `patience`.
    ///
    /// # Errors
    /// [`VerbsError`]: limits of the device, failed calls.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        port: Port,
        patience: Duration,
    ) -> Result<Self, VerbsError> {
        let most_slices = domain.context().limits().slices.min(16);
        let notifier = Notifier::new(domain.context())?;
        let entries = 2 * (ENTRIES + NOTICES);
        let queue = CompletionQueue::new(domain.context(), entries, Some(&notifier))?;
        let receives = SharedReceiveQueue::new(domain, NOTICES)?;
        let inbox = Bytes::zeroed(NOTICE * NOTICES as usize)?;
        let inbox = MemoryRegion::new(domain, inbox, Access::LOCAL)?;
        let settings = QueuePairSettings {
            send_entries: ENTRIES,
            slices: most_slices,
            inline_bytes: NOTICE as u32,
            retries: RETRIES,
            timeout: TIMEOUT,
        };
        let first_packet = getrandom::u32().unwrap_or(1);
        let pair = QueuePair::new(
            domain,
            &queue,
            ReceiveQueue::Shared(&receives),
            port,
            first_packet,
            settings,
        )?;
        let mut link = Self {
            pair,
            receives,
            queue,
            notifier,
            inbox,
            most_slices,
            posted: 0,
            done: 0,
            came: VecDeque::new(),
            failed: None,
            patience,
        };
        for slot in 0..NOTICES {
            link.post_receive(slot)?;
        }
        Ok(link)
    }

    /// What the other end needs to connect.
    #[must_use]
    pub fn card(&self) -> LinkCard {
        LinkCard(self.pair.as_remote())
    }

    /// Connects to the other end, which does the same.
    ///
    /// # Errors
    /// [`VerbsError::Call`] for a card that leads nowhere.
    pub fn connect(&mut self, to: &LinkCard) -> Result<(), VerbsError> {
        self.pair.connect(&to.0)
    }

    /// Pieces that one write may gather.
    #[must_use]
    pub fn most_slices(&self) -> usize {
        self.most_slices as usize
    }

    /// Writes registered slices, one behind the other, into the peer's memory. They stay as they
    /// are until it is over.
    ///
    /// # Errors
    /// [`LinkError`]: too many slices, or the link has failed.
    pub fn write(&mut self, slices: &[LocalSlice], to: RemoteMemory) -> Result<Ticket, LinkError> {
        self.post(slices, SendKind::Write(to), false)
    }

    /// Tells the peer eight bytes, when it has got all that was written before.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn notify(&mut self, word: u64) -> Result<Ticket, LinkError> {
        let bytes = word.to_le_bytes();
        let slice = LocalSlice {
            start: bytes.as_ptr() as u64,
            len: NOTICE as u32,
            key: 0,
        };
        self.post(&[slice], SendKind::Send, true)
    }

    fn post(
        &mut self,
        slices: &[LocalSlice],
        kind: SendKind,
        inline: bool,
    ) -> Result<Ticket, LinkError> {
        if slices.len() > self.most_slices() {
            return Err(LinkError::Pieces(format!(
                "{} slices are more than the {} of one work request",
                slices.len(),
                self.most_slices
            )));
        }
        self.until(|link| (link.posted - link.done < u64::from(ENTRIES)).then_some(()))?;
        let work = SendWork {
            id: self.posted,
            kind,
            slices,
            inline,
            signalled: true,
        };
        // SAFETY: inline bytes are the caller's, alive during the call. Other slices are only read,
        // and only if they are registered: who registered them has promised that an adapter's reads
        // do no harm.
        unsafe { self.pair.post(&work)? };
        self.posted += 1;
        Ok(Ticket(self.posted))
    }

    /// Waits until a request is over, with all that were posted before.
    ///
    /// # Errors
    /// [`LinkError::Failed`], [`LinkError::Late`].
    pub fn wait(&mut self, ticket: Ticket) -> Result<(), LinkError> {
        self.until(|link| (link.done >= ticket.0).then_some(()))
    }

    /// Waits for the next notice.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn notice(&mut self) -> Result<u64, LinkError> {
        self.until(|link| link.came.pop_front())
    }

    fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> Result<T, LinkError> {
        let mut since = None;
        let mut polls = 0;
        loop {
            if let Some(done) = done(self) {
                return Ok(done);
            }
            if let Some(status) = self.failed {
                return Err(LinkError::Failed(status));
            }
            if self.poll()? {
                continue;
            }
            polls += 1;
            if polls < SPINS {
                core::hint::spin_loop();
                continue;
            }
            // The clock is looked at only by who waits long.
            let began = *since.get_or_insert_with(Instant::now);
            let left = self.patience.checked_sub(began.elapsed());
            self.sleep(left.ok_or(LinkError::Late(self.patience))?)?;
        }
    }

    /// Sleeps until the next completion, or for this long: a peer on the same processor, and an
    /// adapter in software, get their turn.
    fn sleep(&mut self, at_most: Duration) -> Result<(), VerbsError> {
        self.queue.take_notices();
        self.queue.arm()?;
        // What came before the arming gives no notice.
        if self.poll()? {
            return Ok(());
        }
        let mut fds = [PollFd::from_borrowed_fd(
            self.notifier.as_fd(),
            PollFlags::IN,
        )];
        let timeout = Timespec::try_from(at_most).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(VerbsError::Call {
                call: "poll on the completion channel",
                errno,
            }),
        }
    }

    /// Takes completions; true if there were any.
    fn poll(&mut self) -> Result<bool, VerbsError> {
        let mut came = [None; 32];
        let mut count = 0;
        let (done, failed) = (&mut self.done, &mut self.failed);
        let any = self.queue.poll(|completion| {
            if completion.status != WorkStatus::Done {
                // What is flushed says only that something else failed.
                match failed {
                    None | Some(WorkStatus::Flushed) => *failed = Some(completion.status),
                    Some(_) => {}
                }
            } else if completion.id & RECEIVE == 0 {
                // Requests of one queue pair complete in order.
                *done = completion.id + 1;
            } else if let Some(slot) = came.get_mut(count) {
                *slot = Some((completion.id & !RECEIVE) as u32);
                count += 1;
            }
        })?;
        for slot in came.into_iter().flatten() {
            let mut word = [0; NOTICE];
            // The slot is one that this end posted: completions bring back the number.
            let at = slot as usize % NOTICES as usize * NOTICE;
            self.inbox.memory().read(at, &mut word);
            self.came.push_back(u64::from_le_bytes(word));
            self.post_receive(slot % NOTICES)?;
        }
        Ok(any)
    }

    fn post_receive(&mut self, slot: u32) -> Result<(), VerbsError> {
        let at = slot as usize * NOTICE;
        let Some(slice) = LocalSlice::of(self.inbox.registration(), at, NOTICE) else {
            return Ok(());
        };
        // SAFETY: the slot was never posted, or its receive has completed and its bytes were copied
        // out; the inbox is dropped after the queue pair (field order), and nothing but `poll`
        // looks at it.
        unsafe { self.receives.post(RECEIVE | u64::from(slot), slice) }
    }
}
