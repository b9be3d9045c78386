//! The ways in which a process sends.

use limic::raw::{Loans, Messages, Posted, RawSlice, RequestId, Requests, SendOptions};
use limic::{Error, Tag};

use super::states::reached;
use super::{Honest, Result, doing, one_in};
use crate::script::{Malice, content};
use crate::sim;

/// A send under way.
pub(super) struct Sending {
    pub(super) id: RequestId,
    /// Its message.
    pub(super) message: usize,
    _data: Data,
}

/// Bytes of a message. A reader that comes after they were given back finds others.
enum Data {
    Private(Box<[u8]>),
    PeerReadable(limic::Buffer),
}

impl Data {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Private(bytes) => bytes,
            Self::PeerReadable(buffer) => buffer,
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let bytes = match self {
            Self::Private(bytes) => &mut bytes[..],
            Self::PeerReadable(buffer) => &mut buffer[..],
        };
        bytes.fill(0xee);
    }
}

/// A buffer whose owner's code panics when it is dropped.
struct PanicsOnDrop(#[expect(dead_code, reason = "kept until it is dropped")] Data);

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        std::panic::panic_any(PanicsToo);
    }
}

/// What that panic comes with.
pub(crate) struct PanicsToo;

impl Drop for PanicsToo {
    fn drop(&mut self) {
        panic!("{}", crate::campaign::A_USERS_PANIC);
    }
}

impl Honest<'_> {
    pub(super) fn post_send(&mut self, index: usize) -> Result<()> {
        let message = &self.script.messages[index];
        doing(|| format!("sends message {index} ({message:?})"));
        let (to, tag) = (self.peers[message.to], Tag(message.tag));
        let data: Box<[u8]> = (0..message.len).map(|at| content(index, at)).collect();
        sim::with(|sim| {
            sim.counts.sent += 1;
            sim.board.sent_as[index] = sim.counts.sent;
            sim.board.words[index] = None;
        });
        if message.loan
            && let Ok(loan) = self.endpoint.borrow_loan(message.len)
        {
            let room = loan.start;
            // SAFETY: a loan is writable for its length until it is sent.
            unsafe { room.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
            // SAFETY: it was borrowed just now.
            let posted = unsafe { self.endpoint.post_loan(to, tag, loan, data.len()) };
            return self.sent(index, posted, Data::Private(Box::default()));
        }
        let data = match limic::Buffer::new(data.len()).filter(|_| one_in(2)) {
            Some(mut buffer) => {
                buffer.copy_from_slice(&data);
                Data::PeerReadable(buffer)
            }
            None => Data::Private(data),
        };
        let bytes = data.bytes();
        if self.script.malice != Malice::Scribbles && one_in(16) {
            match self.send_in_time(message.to, tag, bytes) {
                Ok(_) => return Ok(()),
                Err(Error::Cancelled) => reached("cancel", "a send whose time is over"),
                Err(error) => return self.fails(&error),
            }
        }
        let cut = sim::with(|sim| sim.rng.usize(0..=bytes.len()));
        let whole = [RawSlice::from(bytes)];
        let pieces = [RawSlice::from(&bytes[..cut]), RawSlice::from(&bytes[cut..])];
        let slices = if one_in(4) { &pieces[..] } else { &whole[..] };
        // Shorter ones may look like others.
        let immediate = (bytes.len() >= 8 && one_in(2)).then_some(index as u64);
        sim::with(|sim| sim.board.words[index] = immediate);
        let options = SendOptions {
            immediate,
            ..SendOptions::default()
        };
        // SAFETY: the data is kept until the send is over (`sends`, or abandoned to the endpoint);
        // a process that is killed leaks it.
        let posted = unsafe {
            if slices.len() == 1 && one_in(2) {
                if self.endpoint.try_send(to, tag, immediate, slices) {
                    return Ok(());
                }
                self.endpoint.post_send_slow(to, tag, options, slices)
            } else {
                self.endpoint.post_send_with(to, tag, options, slices)
            }
        };
        self.sent(index, posted, data)
    }

    fn sent(&mut self, index: usize, posted: limic::Result<Posted>, data: Data) -> Result<()> {
        match posted {
            Ok(Posted::Done(Ok(_))) => Ok(()),
            Ok(Posted::Done(Err(error))) | Err(error) => self.fails(&error),
            Ok(Posted::Pending(id)) if one_in(16) => {
                self.endpoint.abandon(id, Box::new(PanicsOnDrop(data)));
                sim::with(|sim| sim.counts.fault("panic in a drop"));
                Ok(())
            }
            Ok(Posted::Pending(id)) => {
                self.sends.push(Sending {
                    id,
                    message: index,
                    _data: data,
                });
                Ok(())
            }
        }
    }

    /// Cancels a send. What becomes of it is waited for at once, and if nothing, it is sent again:
    /// its receiver may take this message before all others.
    pub(super) fn cancel_send(&mut self, at: usize) -> Result<()> {
        let Sending { id, message, .. } = self.sends[at];
        doing(|| format!("cancels the send of message {message}"));
        self.cancel(id);
        let outcome = self.endpoint.wait(id);
        self.sends.swap_remove(at);
        match outcome {
            Ok(_) => {
                reached("cancel", "a send too late");
                Ok(())
            }
            Err(Error::Cancelled) => {
                reached("cancel", "a send");
                self.post_send(message)
            }
            Err(error) => self.fails(&error),
        }
    }
}
