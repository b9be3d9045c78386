//! Messages go out.

use limic_fabric::{ConnectionFailure, Form, SendRefused};
use limic_ofi_abi::fi_addr_t;

use crate::connection::{Outgoing, Remote};
use crate::device::Posted;
use crate::fabric::OfiFabric;
use crate::packet::{HEADER, Header, Kind, LONGEST, MESSAGE, PACKET};
use crate::pool::Owner;

/// Packets that one peer may have: who does not take them keeps nobody else from sending.
const SHARE: usize = 4;
/// Packets of no connection that wait.
const MOST_LOOSE: usize = 64;
/// Connections whose packets are tried again at one poll.
const TRIED: usize = 4;

impl OfiFabric {
    /// Copies a message into a packet, and sends that unless more follow.
    pub(crate) fn write_message(
        &mut self,
        number: u32,
        form: Form,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendRefused> {
        let len = form.len as usize;
        if len > LONGEST {
            return Err(SendRefused::TooLong { len, most: LONGEST });
        }
        let connection = self.at(number).ok_or(SendRefused::Failed)?;
        if !connection.is_ready() {
            return Err(SendRefused::Later);
        }
        let fits = |open: Outgoing| open.len + MESSAGE + len <= PACKET;
        if connection.open.is_some_and(|open| !fits(open)) {
            self.seal(number);
            self.push(number);
        }
        let connection = self.at(number).ok_or(SendRefused::Failed)?;
        let open = match connection.open {
            Some(open) => open,
            None => {
                let room = connection.packets() < SHARE;
                match self.new_packet(number, room) {
                    Some(open) => open,
                    None => return Err(SendRefused::Later),
                }
            }
        };
        let end = open.len + MESSAGE + len;
        let room = &mut self.device.pool.bytes(open.slot)[open.len..end];
        let (head, payload) = room.split_at_mut(MESSAGE);
        head.copy_from_slice(&form.to_header());
        fill(payload);
        self.counts.messages += 1;
        let Some(connection) = self.connection(number) else {
            return Err(SendRefused::Failed);
        };
        connection.open = Some(Outgoing { len: end, ..open });
        connection.refused = false;
        if connection.corked {
            self.note_held(number);
        } else {
            self.flush(number);
        }
        Ok(())
    }

    /// A packet for messages, if there is room for one.
    fn new_packet(&mut self, number: u32, room: bool) -> Option<Outgoing> {
        let slot = room.then(|| self.device.take());
        if let Some(Err(why)) = &slot {
            tracing::debug!("no packet: {why}");
        }
        let slot = slot.and_then(Result::ok);
        let connection = self.connection(number)?;
        connection.refused = slot.is_none();
        let len = HEADER;
        connection.open = slot.map(|slot| Outgoing { slot, len });
        let open = connection.open;
        self.note_held(number);
        open
    }

    /// The packet that messages were copied into takes no more, and joins the queue.
    fn seal(&mut self, number: u32) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let (Some(packet), Some(_)) = (connection.open.take(), connection.remote) else {
            return;
        };
        let sequence = connection.sent;
        connection.sent += 1;
        connection.queue.push_back(packet);
        self.counts.packets += 1;
        self.head(number, packet, Kind::Data, sequence);
    }

    fn head(&mut self, number: u32, packet: Outgoing, kind: Kind, sequence: u64) {
        let Some(remote) = self.at(number).and_then(|connection| connection.remote) else {
            return;
        };
        let header = Header {
            kind,
            number: remote.number,
            token: remote.token,
            sequence,
        };
        self.device.pool.bytes(packet.slot)[..HEADER].copy_from_slice(&header.to_bytes());
    }

    /// Queues a packet without messages: one that asks whether the peer is there, or a goodbye.
    pub(crate) fn say(&mut self, number: u32, kind: Kind) {
        self.seal(number);
        let Ok(slot) = self.device.take() else {
            return;
        };
        let packet = Outgoing { slot, len: HEADER };
        let Some(connection) = self.connection(number) else {
            return self.device.pool.give_back(slot);
        };
        let sequence = connection.sent;
        connection.sent += 1;
        connection.leaving |= kind == Kind::Goodbye;
        connection.queue.push_back(packet);
        self.head(number, packet, kind, sequence);
        self.push(number);
        if kind == Kind::Data {
            self.unsay(number);
        }
    }

    /// An empty packet that was not taken does not wait while others are on their way, which ask as
    /// well as it does: a peer that computes would look as one that is not there.
    fn unsay(&mut self, number: u32) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        if connection.posted == 0 {
            return;
        }
        if let Some(packet) = connection.queue.pop_back() {
            connection.sent -= 1;
            self.device.pool.give_back(packet.slot);
            self.note_held(number);
        }
    }

    /// Posts what waits, as far as the provider takes it. The packet that is not full goes if it is
    /// the next one; else it may be filled meanwhile.
    pub(crate) fn flush(&mut self, number: u32) {
        if self.push(number) {
            self.seal(number);
            self.push(number);
        }
    }

    /// Posts the packets that wait. True if none is left.
    fn push(&mut self, number: u32) -> bool {
        let failed = loop {
            let Some(connection) = self.connections.get_mut(&number) else {
                return false;
            };
            let Some(packet) = connection.queue.front().copied() else {
                break None;
            };
            // Half of what the endpoint takes is for peers that have nothing on its way.
            let most = match connection.posted {
                0 => self.most_sends,
                _ => self.most_sends / 2,
            };
            let (slot, len, to) = (packet.slot, packet.len, connection.address);
            let posted = if self.sending.len() + self.reads.posted() < most {
                self.device.post_send(slot, len, to)
            } else {
                Posted::Later
            };
            match posted {
                Posted::Yes => {
                    connection.queue.pop_front();
                    connection.posted += 1;
                    connection.moved = true;
                    self.sending.add(packet.slot, Owner::Connection(number));
                }
                Posted::Later => {
                    if !core::mem::replace(&mut connection.listed, true) {
                        self.blocked.push_back(number);
                    }
                    self.note_held(number);
                    return false;
                }
                Posted::Failed(why) => break Some(why),
            }
        };
        if let Some(why) = failed {
            self.lose(number, why);
            return false;
        }
        self.note_held(number);
        true
    }

    /// Nothing goes to a peer any more.
    pub(crate) fn lose(&mut self, number: u32, why: String) {
        let Some(connection) = self.connection(number) else {
            return;
        };
        let failure = if connection.is_ready() {
            ConnectionFailure::Lost(why)
        } else {
            ConnectionFailure::Unreachable(why)
        };
        self.fail(number, failure);
    }

    /// Tells an endpoint that its connection is over here.
    pub(crate) fn send_left(&mut self, to: Remote, address: fi_addr_t) {
        let Ok(slot) = self.device.take() else {
            return;
        };
        let header = Header {
            kind: Kind::Left,
            number: to.number,
            token: to.token,
            sequence: 0,
        };
        self.device.pool.bytes(slot)[..HEADER].copy_from_slice(&header.to_bytes());
        let packet = Outgoing { slot, len: HEADER };
        self.loose.push_back((packet, address, self.walks));
        if self.loose.len() > MOST_LOOSE {
            self.drop_loose();
        }
        self.push_loose();
    }

    pub(crate) fn drop_loose(&mut self) {
        if let Some((packet, ..)) = self.loose.pop_front() {
            self.device.pool.give_back(packet.slot);
        }
    }

    /// Packets that the provider did not take before are tried again.
    pub(crate) fn try_again(&mut self) {
        for _ in 0..TRIED.min(self.blocked.len()) {
            let Some(number) = self.blocked.pop_front() else {
                break;
            };
            if let Some(connection) = self.connection(number) {
                connection.listed = false;
                self.flush(number);
            }
        }
        self.push_loose();
    }

    /// Each of those that wait is tried once.
    fn push_loose(&mut self) {
        for _ in 0..self.loose.len().min(TRIED) {
            let Some((packet, address, since)) = self.loose.pop_front() else {
                return;
            };
            match self.device.post_send(packet.slot, packet.len, address) {
                Posted::Yes => self.sending.add(packet.slot, Owner::Nobody(self.walks)),
                Posted::Later => self.loose.push_back((packet, address, since)),
                Posted::Failed(_) => self.device.pool.give_back(packet.slot),
            }
        }
    }
}
