//! Two members of a group in one process, and a message from one to the other.

use limic_copy::{CallError, Group, LocalSlice, LocalSliceMut, Messages, Posted, Wanted};
use limic_measure::{MeasureError, content};

/// Each session has one request at a time.
const SLOT: u32 = 0;
/// Messages that may wait for a receive.
const UNEXPECTED: u32 = 16;
const TAG: u64 = 7;
const SEED: u64 = 77;

/// What a user can do about a module that is not there.
const ADVICE: &str = "breakdown shows what the kernel module measures of itself, so it needs the module: docs/kernel-module.md in limic's sources says \
                      how to load it, and `cargo xtask lab run target/release/limic perf breakdown` runs this in a virtual machine that has it";

/// The two members and their buffers. The sessions go first, and with them whatever is still under
/// way.
pub(super) struct Pair {
    sender: Messages,
    receiver: Messages,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Pair {
    pub(super) fn open(longest: usize) -> Result<Self, MeasureError> {
        let refused = |why| MeasureError::Module(format!("{why}; {ADVICE}"));
        // A token of 0: the kernel draws one, and the second member comes by the descriptor of the
        // first.
        let sender = Messages::open(1, UNEXPECTED, Group::Token([0, 0], 2)).map_err(refused)?;
        let group = Group::Descriptor(std::os::fd::AsRawFd::as_raw_fd(&sender.descriptor()));
        let receiver = Messages::open(1, UNEXPECTED, group).map_err(refused)?;
        let mut outgoing = vec![0; longest];
        content::fill(&mut outgoing, SEED);
        Ok(Self {
            sender,
            receiver,
            outgoing,
            // Touched, so that no page comes only while the clock runs.
            incoming: vec![1; longest],
        })
    }

    /// The sender's session, which lasts as long as this.
    pub(super) fn session(&self) -> u64 {
        self.sender.session()
    }

    /// A call that does nothing.
    pub(super) fn trap(&self) -> Result<(), CallError> {
        self.sender.trap()
    }

    /// One message: its send comes first and is queued, its receive comes second and copies.
    pub(super) fn exchange(&mut self, bytes: usize) -> Result<(), CallError> {
        let from = LocalSlice::new(self.outgoing.as_ptr(), bytes);
        let to = LocalSliceMut::new(self.incoming.as_mut_ptr(), bytes);
        let wanted = Wanted {
            source: Some(self.sender.rank()),
            tag: TAG,
            mask: !0,
        };
        let rank = self.receiver.rank();
        // SAFETY: the first `bytes` of `outgoing`, which nobody writes: the receive below, or the
        // cancel, ends this.
        unsafe {
            self.sender
                .send(SLOT, rank, TAG, None, &[from], false)
                .map(drop)
        }?;
        // SAFETY: the first `bytes` of `incoming`, borrowed for writing. The message is there, so
        // this is over at once.
        let received = unsafe { self.receiver.recv(SLOT, wanted, &[to]) };
        match received {
            Ok(Posted::Done) => self.judge(),
            Ok(Posted::Pending) => {
                self.receiver.cancel(SLOT)?;
                self.sender.cancel(SLOT)?;
                Err(CallError::NoMessage)
            }
            Err(why) => {
                self.sender.cancel(SLOT)?;
                Err(why)
            }
        }
    }

    /// Both sides must have ended well.
    fn judge(&self) -> Result<(), CallError> {
        for side in [&self.sender, &self.receiver] {
            match side.ended(SLOT) {
                Some(ended) if ended.errno == 0 => {}
                Some(ended) => return Err(CallError::Other(-ended.errno)),
                None => return Err(CallError::NoMessage),
            }
        }
        Ok(())
    }

    /// One message whose bytes are looked at.
    pub(super) fn check(&mut self, bytes: usize) -> Result<(), super::Stopped> {
        self.incoming[..bytes].fill(0);
        self.exchange(bytes)?;
        content::verify(&self.incoming[..bytes], self.sender.rank(), SEED).map_err(|wrong| {
            MeasureError::Content {
                rank: self.receiver.rank(),
                wrong,
            }
        })?;
        Ok(())
    }
}
