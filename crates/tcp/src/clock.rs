//! What has to do with time: calls that nobody answers, strangers who say nothing, machines that
//! are silent.

use core::time::Duration;
use std::os::fd::AsFd;
use std::time::Instant;

use limic_fabric::ConnectionFailure;

use crate::connection::{Connection, Stage};
use crate::fabric::TcpFabric;
use crate::sockets;

/// The longest that a stranger may take for its greeting.
const GREETING: Duration = Duration::from_secs(10);
/// The longest sleep while something has a deadline.
const SLEEP: Duration = Duration::from_millis(100);

impl TcpFabric {
    /// How long a sleeper may sleep.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let strangers = self.strangers.iter().any(Option::is_some);
        (self.beginning > 0 || strangers || self.paused.is_some()).then_some(SLEEP)
    }

    /// Ends what has waited for too long.
    ///
    /// A limit is judged by the time of the look before. Between two looks the event set has told
    /// all its news, so what came while this endpoint computed is taken before its limit counts.
    pub(crate) fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if self.paused.is_some_and(|until| now >= until) {
            self.accept_again();
        }
        if now.duration_since(self.listened_at) > self.timeout / 4 {
            self.listened_at = now;
            self.end_silent();
        }
        if self.unseen == 0 {
            let callers = sockets::BACKLOG as usize;
            self.unseen = self.connections.len() + self.strangers.len() + callers;
            let before = core::mem::replace(&mut self.looked_at, now);
            self.end_late(before);
        }
    }

    /// Ends what has waited for too long at this time.
    fn end_late(&mut self, before: Instant) {
        let greeting = self.timeout.min(GREETING);
        for place in 0..self.strangers.len() {
            let since = self.strangers[place]
                .as_ref()
                .map(|stranger| stranger.since);
            if since.is_some_and(|since| before.saturating_duration_since(since) > greeting) {
                self.send_away(place, "it said no greeting");
            }
        }
        if self.beginning > 0 {
            self.end_late_calls(before);
        }
    }

    fn end_late_calls(&mut self, before: Instant) {
        let waited = self.timeout.as_millis();
        let late = self.numbers_if(|connection| {
            let (Stage::Calling(until) | Stage::Awaited(until) | Stage::Pausing(until)) =
                connection.stage
            else {
                return false;
            };
            before >= until
        });
        for number in late {
            let why = match self.connection(number).map(|c| &c.stage) {
                Some(Stage::Calling(_)) => format!("its address did not answer for {waited} ms"),
                Some(Stage::Awaited(_)) => {
                    format!("it calls itself, but its call did not come for {waited} ms")
                }
                Some(Stage::Pausing(_)) => {
                    self.call_again(number);
                    continue;
                }
                _ => continue,
            };
            self.fail(number, ConnectionFailure::Unreachable(why));
        }
    }

    /// Ends connections with machines that do not answer.
    fn end_silent(&mut self) {
        let timeout = self.timeout;
        let silent = self.numbers_if(|connection| {
            let connected = matches!(connection.stage, Stage::Ready | Stage::Greeted { .. });
            let socket = connection.socket.as_ref().filter(|_| connected);
            socket.is_some_and(|socket| sockets::is_silent(socket.as_fd(), timeout))
        });
        for number in silent {
            let why = format!("its machine was silent for {} ms", timeout.as_millis());
            self.fail(number, ConnectionFailure::Unreachable(why));
        }
    }

    /// The numbers of those connections of which that is so.
    fn numbers_if(&self, is_so: impl Fn(&Connection) -> bool) -> Vec<u32> {
        let all = self.connections.iter();
        all.filter_map(|(number, connection)| is_so(connection).then_some(*number))
            .collect()
    }
}
