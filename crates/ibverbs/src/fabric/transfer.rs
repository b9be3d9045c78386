//! RDMA reads of any length: cut into parts, and the parts dealt out to the streams in turn.

use std::sync::Arc;

use super::connection::Posted;
use super::failing::Fault;
use super::sending::work_id;
use super::spread::{Spread, key_of};
use super::{ConnectionFailure, ConnectionId, Event, Fabric, RemoteRange, TransferError};
use crate::objects::{RemoteMemory, SendKind, SendWork};

/// One work request of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) transfer: u32,
    at: u64,
    len: u32,
}

/// A transfer under way.
#[derive(Debug)]
struct Transfer {
    token: u64,
    connection: u32,
    local: Arc<Spread>,
    local_at: usize,
    remote_start: u64,
    remote_keys: u64,
    left: u32,
    failed: Option<TransferError>,
}

/// All transfers under way.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    slots: Vec<Option<Transfer>>,
    free: Vec<u32>,
}

impl Fabric {
    /// Reads `len` bytes of the peer's memory into registered memory, from its byte `at` on.
    /// [`Event::Transferred`] says when it is over.
    ///
    /// # Errors
    /// [`TransferError::Failed`] if the connection is over; nothing was started then.
    ///
    /// # Safety
    /// The bytes stay mapped and untouched until the event.
    pub unsafe fn read(
        &mut self,
        from: ConnectionId,
        remote: RemoteRange,
        local: &Arc<Spread>,
        at: usize,
        len: usize,
        token: u64,
    ) -> Result<(), TransferError> {
        let stripe = u64::from(self.settings.stripe_bytes);
        let Some(connection) = self.connections.get_mut(&from.0) else {
            return Err(TransferError::Failed(ConnectionFailure::Closed));
        };
        let parts = (len as u64).div_ceil(stripe);
        if parts == 0 {
            self.events.push_back(Event::Transferred {
                token,
                result: Ok(()),
            });
            return Ok(());
        }
        let transfer = self.transfers.insert(Transfer {
            token,
            connection: from.0,
            local: Arc::clone(local),
            local_at: at,
            remote_start: remote.start,
            remote_keys: remote.keys,
            left: parts as u32,
            failed: None,
        });
        for part in 0..parts {
            let at = part * stripe;
            connection.waiting.push_back(Part {
                transfer,
                at,
                len: stripe.min(len as u64 - at) as u32,
            });
        }
        self.post_parts(from.0);
        Ok(())
    }

    /// Posts parts while streams have free entries. One entry of each stream is left for packets.
    pub(super) fn post_parts(&mut self, number: u32) {
        loop {
            let Some(connection) = self.connections.get_mut(&number) else {
                return;
            };
            if !connection.is_ready() {
                return;
            }
            let Some(part) = connection.waiting.front().copied() else {
                return;
            };
            // What is left of one that was refused would break each further stream.
            let transfer = self.transfers.get(part.transfer);
            let Some(transfer) = transfer.filter(|transfer| transfer.failed.is_none()) else {
                connection.waiting.pop_front();
                self.part_over(part, Ok(()));
                continue;
            };
            let count = connection.streams.len();
            let turn = connection.turn;
            let place = (0..count).map(|step| (turn + step) % count).find(|place| {
                connection.streams[*place]
                    .as_ref()
                    .is_some_and(|stream| stream.free > 1)
            });
            let Some(place) = place else { return };
            connection.turn = (place + 1) % count;
            connection.waiting.pop_front();
            let Some(stream) = &mut connection.streams[place] else {
                return;
            };
            let slice = transfer.local.slice(
                stream.rail,
                transfer.local_at.saturating_add(part.at as usize),
                part.len as usize,
            );
            let Some(slice) = slice else {
                self.part_over(part, Err(TransferError::Refused));
                continue;
            };
            let remote = RemoteMemory {
                start: transfer.remote_start.wrapping_add(part.at),
                key: key_of(transfer.remote_keys, stream.rail_there),
            };
            let work = SendWork {
                id: work_id(number, place, stream.next),
                kind: SendKind::Read(remote),
                slices: &[slice],
                inline: false,
                signalled: true,
            };
            // SAFETY: the caller of `read` promised to leave the bytes alone until the event, which
            // comes when every part is over or its queue pair destroyed; the transfer holds the
            // registration until then.
            let result = unsafe { stream.pair.post(&work) };
            stream.account(true, Posted::Part(part));
            self.counts.parts += 1;
            if let Err(error) = result {
                self.stream_failed(number, place, Fault::Request(error.to_string()));
            }
        }
    }

    /// A part is over; with the last one the transfer is.
    pub(super) fn part_over(&mut self, part: Part, result: Result<(), TransferError>) {
        let Some(transfer) = self.transfers.get_mut(part.transfer) else {
            return;
        };
        if let Err(error) = result {
            transfer.failed.get_or_insert(error);
        }
        transfer.left -= 1;
        if transfer.left > 0 {
            return;
        }
        if let Some(transfer) = self.transfers.remove(part.transfer) {
            self.events.push_back(Event::Transferred {
                token: transfer.token,
                result: transfer.failed.map_or(Ok(()), Err),
            });
        }
    }

    /// The connection is over, and with it all its transfers. Its queue pairs are destroyed
    /// already.
    pub(super) fn fail_transfers(&mut self, number: u32, why: &ConnectionFailure) {
        for transfer in self.transfers.of(number) {
            self.events.push_back(Event::Transferred {
                token: transfer.token,
                result: Err(TransferError::Failed(why.clone())),
            });
        }
    }
}

impl Transfers {
    fn insert(&mut self, transfer: Transfer) -> u32 {
        if let Some(free) = self.free.pop() {
            self.slots[free as usize] = Some(transfer);
            return free;
        }
        self.slots.push(Some(transfer));
        (self.slots.len() - 1) as u32
    }

    fn get(&self, number: u32) -> Option<&Transfer> {
        self.slots.get(number as usize)?.as_ref()
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Transfer> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    fn remove(&mut self, number: u32) -> Option<Transfer> {
        let transfer = self.slots.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(transfer)
    }

    /// Takes out all transfers of a connection.
    fn of(&mut self, connection: u32) -> Vec<Transfer> {
        let numbers: Vec<u32> = (0..self.slots.len() as u32)
            .filter(|n| self.get(*n).is_some_and(|t| t.connection == connection))
            .collect();
        numbers.into_iter().filter_map(|n| self.remove(n)).collect()
    }
}
