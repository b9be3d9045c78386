//! What is under way at the endpoint on the heap, and the buffers that it holds.

use std::collections::HashMap;

use limic_shm::bytes::{LooseMemory, ReceiveBuffer, SendBuffer};

use crate::engine::envelope::{Envelope, Told};
use crate::engine::request::{Operation, Requests as Table, Slot, sent};
use crate::raw::{Posted, RequestId};
use crate::{Selector, Status, Tag};

/// What is under way.
pub(super) enum Task {
    /// A message, with the loan that it lies in.
    Send(Tag, SendBuffer, Option<u64>),
    Receive(Selector, ReceiveBuffer),
    /// A one-sided access.
    Copy(SendBuffer, ReceiveBuffer),
}

/// A vector whose bytes are known by their address alone.
#[derive(Debug)]
pub(super) struct Memory(pub(super) LooseMemory);

impl Memory {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self(LooseMemory::of(bytes))
    }

    pub(super) fn into_vec(self) -> Vec<u8> {
        // SAFETY: this value stands for the vector.
        unsafe { self.0.rebuild() }
    }
}

#[derive(Default)]
pub(super) struct State {
    table: Option<Table>,
    pub(super) tasks: Vec<(Slot, Task)>,
    pub(super) claimed: HashMap<u64, (Slot, Task)>,
    /// Regions, and loans that are not sent or not received yet, by the same names.
    pub(super) memory: HashMap<u64, Memory>,
    names: u64,
}

// SAFETY: it stands for the vectors in it.
unsafe impl Send for State {}

impl State {
    pub(super) fn table(&mut self) -> &mut Table {
        self.table.get_or_insert_with(Table::new)
    }

    pub(super) fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    pub(super) fn start(&mut self, task: Task) -> Posted {
        let slot = self.table().insert(Operation::Over);
        self.tasks.push((slot, task));
        Posted::Pending(self.table().id(slot))
    }

    pub(super) fn slot(&mut self, id: RequestId) -> Option<Slot> {
        self.table().find(id)
    }

    /// The oldest message that is asked for.
    pub(super) fn sent(&self, selector: &Selector) -> Option<(usize, Status)> {
        let fits = |(at, (_, task)): (usize, &(Slot, Task))| match task {
            Task::Send(tag, data, _) if selector.fits_tag(tag.0) => {
                Some((at, Envelope::new(0, tag.0).status(data.len())))
            }
            _ => None,
        };
        self.tasks.iter().enumerate().find_map(fits)
    }

    /// Copies a message, and ends both sides.
    pub(super) fn deliver(
        &mut self,
        (send, task): (Slot, Task),
        receive: Slot,
        into: &ReceiveBuffer,
    ) {
        let Task::Send(tag, data, loan) = task else {
            panic!("no message");
        };
        into.copy_from_send(&data, into.len());
        let outcome = Envelope::new(0, tag.0).outcome(data.len(), into.len());
        let done = sent(0, tag.0, data.len());
        self.table().complete(send, done);
        self.table().complete(receive, outcome);
        if let Some(memory) = loan.and_then(|loan| self.memory.remove(&loan)) {
            drop(memory.into_vec());
        }
    }

    /// Ends one operation, or a send and its receive; whether there was any to end.
    pub(super) fn step(&mut self) -> bool {
        for at in 0..self.tasks.len() {
            match &self.tasks[at].1 {
                Task::Copy(from, to) => {
                    to.copy_from_send(from, to.len());
                    let (slot, _) = self.tasks.remove(at);
                    self.table().complete(slot, sent(0, 0, 0));
                    return true;
                }
                Task::Receive(selector, _) => {
                    let Some((from, _)) = self.sent(selector) else {
                        continue;
                    };
                    let (receive, task) = self.tasks.remove(at);
                    let Task::Receive(_, into) = task else {
                        return false;
                    };
                    let send = self.tasks.remove(from - usize::from(from > at));
                    self.deliver(send, receive, &into);
                    return true;
                }
                Task::Send(..) => {}
            }
        }
        false
    }
}
