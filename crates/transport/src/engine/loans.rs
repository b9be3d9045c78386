//! Loans on the way (K9): sent by a record that says where the bytes lie, taken where they lie.

mod taking;

use limic_shm::segment::LOAN_FLAGS;

use super::arenas::LoanRecord;
use super::lender::{Keeper, Share};
use super::peer_arenas::Lender;
use super::stash::{Arrived, LoanedAt, Waiting};
use super::wire;
use super::{Core, Engine};
use crate::buffer::{Lying, ReceiveBuffer, Source, words};
use crate::policy::Path;
use crate::raw::{Hold, Posted, RawLoan, RawLoaned, RawSlice, SendOptions};
use crate::{Error, Peer, Result, Status, Tag};

/// Keeps a received loan mapped, and tells its owner when it is dropped.
#[derive(Debug)]
pub(crate) struct LoanHold {
    lender: Share<Lender>,
    flag: u32,
    generation: u32,
}

impl Drop for LoanHold {
    fn drop(&mut self) {
        self.lender.flags.release(self.flag, self.generation);
    }
}

impl Core {
    /// Sends a loan if that is one record in a ring. False: nothing was done.
    #[inline(always)]
    pub(crate) fn send_loan_at_once(&mut self, to: u32, tag: u64, id: u64, len: usize) -> bool {
        let held = self.arenas.held(id);
        held.is_some_and(|mut slot| {
            slot < LOAN_FLAGS && self.push_loan(to, tag, &mut slot, len as u64)
        })
    }

    /// Sends a loan: one cache line, whatever its length. Where that is not possible (oneself, a peer that
    /// is not attached yet, no flag left) its bytes go as an ordinary message.
    pub(crate) fn post_loan(
        &mut self,
        to: u32,
        tag: u64,
        loan: RawLoan,
        len: usize,
    ) -> Result<Posted> {
        let mut slot = self.arenas.held(loan.id).ok_or(Error::UnknownRequest)?;
        if self.push_loan(to, tag, &mut slot, len as u64) {
            return Ok(Posted::Done(super::send::sent(to, tag, len as u64)));
        }
        let id = self.arenas.id(slot);
        self.post_bytes_of_loan(to, tag, RawLoan { id, ..loan }, len)
    }

    #[cold]
    fn post_bytes_of_loan(
        &mut self,
        to: u32,
        tag: u64,
        loan: RawLoan,
        len: usize,
    ) -> Result<Posted> {
        // SAFETY: the loan's bytes stay where they are until `give_back`, which happens after completion.
        let posted = unsafe {
            self.post_send(
                to,
                tag,
                SendOptions::default(),
                &[RawSlice {
                    start: loan.start,
                    len,
                }],
            )
        };
        match &posted {
            Ok(Posted::Pending(id)) => self.loans_in_flight.push((*id, loan.id)),
            _ => self.arenas.give_back(loan.id),
        }
        posted
    }

    /// Lends the loan of a slot, and tells the peer. The loan moves to a slot with a flag if it has none. False: that peer takes no loans
    /// now, no flag is left, or no room in the ring.
    #[inline(always)]
    fn push_loan(&mut self, to: u32, tag: u64, slot: &mut u32, len: u64) -> bool {
        let Some(peer) = self.peers.get(to) else {
            return false;
        };
        let (true, Some(link)) = (peer.backlog.is_empty(), &mut peer.link) else {
            return false;
        };
        if !link.capabilities.paths.contains(Path::Loan) {
            return false;
        }
        let arena = self.arenas.arena_of(*slot);
        if !link.arenas.given(arena) {
            return self.push_first_loan(to, tag, slot, len);
        }
        if *slot >= LOAN_FLAGS {
            let Some(other) = self.arenas.find_flag(*slot) else {
                return false;
            };
            *slot = other;
        }
        let record = self.arenas.lend(*slot, to);
        let pushed = link.push_words(wire::LOAN, tag, [record.name(), record.offset, len]);
        if pushed {
            self.tally.sent(&peer.counts, Path::Loan, len);
        } else {
            self.arenas.unlend();
        }
        pushed
    }

    /// The same of the first loan in an arena to that peer.
    #[cold]
    fn push_first_loan(&mut self, to: u32, tag: u64, slot: &mut u32, len: u64) -> bool {
        let arena = self.arenas.arena_of(*slot);
        self.hand_arena(to, arena) && self.push_loan(to, tag, slot, len)
    }

    /// Gives back loans that went as ordinary messages and are done.
    pub(crate) fn sweep_loans(&mut self) {
        let (requests, arenas) = (&self.requests, &mut self.arenas);
        self.loans_in_flight.retain(|(id, loan)| {
            let over = requests.find(*id).is_none_or(|slot| requests.is_done(slot));
            if over {
                arenas.give_back(*loan);
            }
            !over
        });
    }

    /// The memory that a loan of a peer lies in.
    fn loan_memory(&mut self, loan: &LoanedAt) -> Option<&mut Keeper<Lender>> {
        if self.peers.link(loan.from)?.arenas.get(loan.arena).is_none() {
            self.fetch_arena(loan);
        }
        self.peers.link(loan.from)?.arenas.get(loan.arena)
    }

    /// Takes in an arena's descriptor. It was sent before the message, so it is there: perhaps in a connection that this side has not
    /// accepted yet, if both sides made the first contact at once.
    #[cold]
    fn fetch_arena(&mut self, loan: &LoanedAt) {
        self.read_connections_of(loan.from);
        for _ in 0..1024 {
            let link = self.peers.link(loan.from);
            if link.is_none_or(|link| link.arenas.get(loan.arena).is_some()) {
                return;
            }
            let happened = self.poll_events(Some(core::time::Duration::ZERO));
            if self.is_unheard(loan.from) {
                // Another thread has the spare descriptors at the moment.
                rustix::thread::sched_yield();
                self.read_connections_of(loan.from);
            } else if !happened {
                return;
            }
        }
    }

    /// A private copy of a waiting loan, if its bytes can be had.
    pub(crate) fn loan_bytes(&mut self, token: u32) -> Option<Vec<u8>> {
        let arrived = self.stash.get(token)?;
        let Waiting::Loaned(loan) = arrived.waiting else {
            return None;
        };
        let len = arrived.len;
        let lender = self.loan_memory(&loan)?;
        let bytes = Lying::new(&lender.arena, loan.offset, len)?;
        let mut copy = Vec::new();
        copy.try_reserve_exact(usize::try_from(len).ok()?).ok()?;
        crate::buffer::append(&bytes, &mut copy);
        Some(copy)
    }

    /// Copies a loan into an ordinary receive (one copy), and gives it back.
    pub(crate) fn copy_loan(
        &mut self,
        loan: LoanedAt,
        len: u64,
        into: &ReceiveBuffer,
    ) -> Result<()> {
        let bytes = self
            .loan_memory(&loan)
            .and_then(|lender| Lying::new(&lender.arena, loan.offset, len));
        let Some(bytes) = bytes else {
            return Err(self.cannot_be_had(&loan));
        };
        // The arena stays mapped meanwhile: only a record takes it away, and none is looked at in this call.
        into.copy_part(0, len, &bytes, len);
        self.note_received_by(loan.from, loan.path(), len);
        if let Some(link) = self.peers.link(loan.from) {
            link.loans_released.release(loan.flag, loan.generation);
        }
        Ok(())
    }

    /// Takes an arrived message in place, or says that it must be received in the ordinary way.
    pub(crate) fn take_in_place(&mut self, token: u32) -> Result<Option<RawLoaned>> {
        let Some(arrived) = self.stash.get(token) else {
            return Err(Error::UnknownRequest);
        };
        let status = Status {
            peer: Peer(arrived.from),
            tag: Tag(arrived.tag),
            len: arrived.len,
            immediate: arrived.immediate,
        };
        match &arrived.waiting {
            Waiting::Loaned(loan) => {
                let loan = *loan;
                self.stash.take(token);
                if let Some(behind) = Waiting::Loaned(loan).holds_up() {
                    self.sender_waited(loan.from, behind);
                }
                self.in_place(&loan, status).map(Some)
            }
            Waiting::Bytes(_) => {
                let Some(Arrived {
                    waiting: Waiting::Bytes(bytes),
                    ..
                }) = self.stash.take(token)
                else {
                    return Err(Error::UnknownRequest);
                };
                self.count_unexpected(-(bytes.len() as i64));
                self.note_kept(status.peer.0, status.len);
                // It stays a vector: to move a box would claim its bytes for the box alone.
                Ok(Some(RawLoaned {
                    status,
                    start: bytes.as_ptr(),
                    hold: Hold::new(Box::new(bytes)),
                }))
            }
            _ => Ok(None),
        }
    }

    /// Takes a message where it lies, in an arena that is mapped here.
    #[inline(always)]
    fn hold_in_place(&mut self, loan: &LoanedAt, len: u64) -> Option<(*const u8, LoanHold)> {
        let peer = self.peers.get(loan.from)?;
        let lender = peer.link.as_deref_mut()?.arenas.get(loan.arena)?;
        let held = lender.hold(loan, len)?;
        peer.counts.received(1, len);
        self.tally.received(loan.path(), len);
        Some(held)
    }

    /// A message where it lies, in an arena of its sender, whose descriptor may not have been taken in yet.
    #[cold]
    fn in_place(&mut self, loan: &LoanedAt, status: Status) -> Result<RawLoaned> {
        if self.loan_memory(loan).is_some()
            && let Some((start, hold)) = self.hold_in_place(loan, status.len)
        {
            let hold = Hold::of_loan(hold);
            return Ok(RawLoaned {
                status,
                start,
                hold,
            });
        }
        Err(self.cannot_be_had(loan))
    }

    /// The bytes of a loan cannot be had: no descriptor is free here, or the numbers are wrong.
    #[cold]
    fn cannot_be_had(&mut self, loan: &LoanedAt) -> Error {
        const OUTSIDE: &str = "a loan outside of its arena";
        if self.is_unheard(loan.from) {
            // The sender has done nothing wrong, and gets it back.
            if let Some(link) = self.peers.link(loan.from) {
                link.loans_released.release(loan.flag, loan.generation);
            }
            return Error::NoMemory(
                "no descriptor is free for the memory in which a message lies: raise ulimit -n"
                    .into(),
            );
        }
        self.corrupt(loan.from, OUTSIDE);
        Error::PeerFailed {
            peer: Peer(loan.from),
            why: crate::PeerFailure::Corrupt(OUTSIDE.into()),
        }
    }
}

impl Keeper<Lender> {
    /// Takes a loan in place. `None`: it does not lie in this arena.
    #[inline(always)]
    fn hold(&mut self, loan: &LoanedAt, len: u64) -> Option<(*const u8, LoanHold)> {
        let bytes = Lying::new(&self.arena, loan.offset, len)?;
        self.flags.expect_release(loan.flag);
        let hold = LoanHold {
            lender: self.share(),
            flag: loan.flag,
            generation: loan.generation,
        };
        Some((bytes.start(), hold))
    }
}

impl Engine {
    /// Sends a loan.
    pub(crate) fn post_loan(
        &mut self,
        to: u32,
        tag: u64,
        loan: RawLoan,
        len: usize,
    ) -> Result<Posted> {
        // As an ordinary message it might wait for its receive, for ever if both sides begin with a loan.
        if self.core.peers.link(to).is_none()
            && let Err(error) = self.meet(to)
        {
            self.core.arenas.give_back(loan.id);
            return Err(error);
        }
        self.core.post_loan(to, tag, loan, len)
    }
}

/// Bits of a flag's number, in the word that names a loan.
const FLAG_BITS: u32 = LOAN_FLAGS.ilog2();
const _: () = assert!(LOAN_FLAGS.is_power_of_two());
/// Numbers of arenas that such a word can have.
pub(super) const ARENAS: usize = 1 << (u32::BITS - FLAG_BITS);

impl LoanRecord {
    /// The word by which a record names a loan.
    #[inline(always)]
    fn name(&self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.arena << FLAG_BITS | self.flag)
    }
}

impl LoanedAt {
    /// What a record says of a loan, and the message's length.
    #[inline(always)]
    pub(crate) fn told(from: u32, source: &impl Source) -> (Self, u64) {
        let [name, offset, len] = words::<3>(source);
        let loan = Self {
            from,
            arena: (name as u32) >> FLAG_BITS,
            offset,
            flag: name as u32 & (LOAN_FLAGS - 1),
            generation: (name >> 32) as u32,
            ahead: None,
        };
        (loan, len)
    }
}
