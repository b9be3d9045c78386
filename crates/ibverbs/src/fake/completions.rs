//! Completions of the adapters of a test: some come late.

use rdma_sys::{ibv_wc, ibv_wc_opcode as opcode, ibv_wc_status as status};

use super::net::Net;
use super::parts::Entry;

impl Net {
    /// Something that a queue pair had posted is over, and gives back so many entries of its send
    /// queue.
    pub(super) fn complete(&mut self, at: usize, queue: usize, mut completion: ibv_wc, frees: u32) {
        let pair = &mut self.pairs[at];
        completion.qp_num = pair.number;
        let entry = Entry {
            completion,
            pair: pair.handle,
            frees,
        };
        if self.natures[pair.device].lags && !pair.datagrams {
            pair.behind.push_back((queue, entry));
        } else {
            self.put(queue, entry);
        }
    }

    fn put(&mut self, queue: usize, entry: Entry) {
        let queue = self.queues.get_mut(&queue).expect("it lives");
        queue.overrun |= queue.entries.len() >= queue.room;
        queue.entries.push_back(entry);
    }

    /// Nothing was there: of each queue pair the first completion on its way comes.
    fn catch_up(&mut self, queue: usize) {
        for at in 0..self.pairs.len() {
            let behind = &mut self.pairs[at].behind;
            if behind.front().is_some_and(|(to, _)| *to == queue) {
                let (_, entry) = behind.pop_front().expect("it was seen");
                self.put(queue, entry);
            }
        }
    }

    /// Takes completions off a queue; `None` if there were too many for it.
    pub(super) fn poll(&mut self, queue: usize, most: usize) -> Option<Vec<ibv_wc>> {
        self.carry();
        if self.queues[&queue].entries.is_empty() {
            self.catch_up(queue);
            return (!self.queues[&queue].overrun).then(Vec::new);
        }
        let queue = self.queues.get_mut(&queue).expect("it lives");
        let most = most.min(queue.entries.len());
        let entries: Vec<Entry> = queue.entries.drain(..most).collect();
        if queue.overrun {
            return None;
        }
        for entry in &entries {
            let mut pairs = self.pairs.iter_mut();
            if let Some(pair) = pairs.find(|pair| pair.handle == entry.pair) {
                pair.taken -= entry.frees;
            }
        }
        Some(entries.iter().map(|entry| entry.completion).collect())
    }
}

pub(super) fn wc(id: u64, how: status::Type, what: opcode::Type, bytes: usize) -> ibv_wc {
    // SAFETY: all-zero bytes are a value of this plain C struct.
    let mut completion: ibv_wc = unsafe { std::mem::zeroed() };
    completion.wr_id = id;
    completion.status = how;
    completion.opcode = what;
    completion.byte_len = bytes as u32;
    completion
}
