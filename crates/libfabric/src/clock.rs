//! What has to do with time: peers to which nothing goes, and packets that do not come.

use core::time::Duration;
use std::time::Instant;

use limic_fabric::ConnectionFailure;

use crate::connection::Connection;
use crate::fabric::OfiFabric;
use crate::packet::Kind;

/// Looks at all connections within the time after which a peer counts as lost.
const WALKS: u32 = 4;
/// Packets on their way to a peer, beyond which it is sent no more empty ones.
const MOST_ASKED: usize = 36;
/// Peers that are asked at one poll.
const ASKED: usize = 16;
/// The longest sleep while something is to be done that no descriptor tells of.
const BLOCKED: Duration = Duration::from_millis(1);
/// The same while one waits whose sending nobody waits for, or is on its way.
const UNDER_WAY: Duration = Duration::from_millis(10);

impl OfiFabric {
    /// How long a sleeper may sleep.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let is_due = !self.events.is_empty() || !self.deliverable.is_empty();
        let waits = !self.unposted.is_empty() || !self.blocked.is_empty();
        let waits = waits || self.reads.are_waiting();
        if is_due || waits || !self.silent.is_empty() {
            Some(BLOCKED)
        } else if !self.loose.is_empty() || self.sending.len() > 0 {
            Some(UNDER_WAY)
        } else {
            let any = !self.connections.is_empty() || !self.ending.is_empty();
            any.then_some(self.timeout / WALKS)
        }
    }

    /// Looks at all connections when it is time to.
    ///
    /// A peer to which nothing can be posted, while nothing is on its way to it, is not there. One
    /// that computes is: its provider has taken packets, or has room for them. So that it is
    /// noticed when nothing is to be sent, a peer that says nothing is sent an empty packet, or is
    /// called again. A provider with connections may never complete what was on its way over one
    /// that broke, so with such a one nothing is concluded from that.
    pub(crate) fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.walked_at) < self.timeout / WALKS {
            return;
        }
        self.walked_at = now;
        self.walks = self.walks.wrapping_add(1);
        while let Some((.., since)) = self.loose.front() {
            if self.walks.wrapping_sub(*since) <= WALKS {
                break;
            }
            self.drop_loose();
        }
        self.sending.give_up(self.walks, WALKS);
        self.end_late_reads(WALKS);
        self.device.hear();
        // Else it is not the peer that keeps its packets from being posted.
        let has_room = self.sending.len() + self.reads.posted() < self.most_sends;
        let waited = self.timeout.as_millis();
        let (mut lost, mut gaps) = (Vec::new(), Vec::new());
        // So each has its turn, however seldom this side polls.
        let all_asked = self.silent.is_empty();
        for (number, connection) in &mut self.connections {
            let heard = core::mem::take(&mut connection.heard);
            let moved = core::mem::take(&mut connection.moved);
            let under_way = connection.posted > 0 && !self.connects;
            let stuck = has_room && !moved && !under_way && !connection.queue.is_empty();
            connection.stuck = if stuck { connection.stuck + 1 } else { 0 };
            let before = core::mem::replace(&mut connection.seen, connection.expected);
            let missing = !connection.early.is_empty() && before == connection.expected;
            connection.missing = if missing { connection.missing + 1 } else { 0 };
            if connection.stuck > WALKS {
                lost.push(*number);
            } else if connection.missing > WALKS {
                gaps.push(*number);
            } else if !heard && !moved {
                let asked = connection.posted >= MOST_ASKED || under_way;
                if all_asked && connection.queue.is_empty() && !asked {
                    self.silent.push_back(*number);
                }
            }
        }
        for number in lost {
            self.lose(
                number,
                format!("nothing could be sent to it for {waited} ms"),
            );
        }
        for number in gaps {
            let why = format!("a packet of it is missing for {waited} ms");
            self.fail(number, ConnectionFailure::Corrupt(why));
        }
    }

    /// Some of the silent peers are asked: each takes a packet, and there may be many.
    pub(crate) fn ask(&mut self) {
        for _ in 0..ASKED {
            let Some(number) = self.silent.pop_front() else {
                return;
            };
            let idle = |connection: &&Connection| connection.queue.is_empty();
            let Some(connection) = self.at(number).filter(idle) else {
                continue;
            };
            if connection.is_ready() {
                self.say(number, Kind::Data);
            } else if let Err(why) = self.say_hello(number) {
                tracing::debug!("a call is not said again: {why}");
            }
        }
    }
}
