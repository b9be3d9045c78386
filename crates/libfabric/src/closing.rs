//! The end of an endpoint: its peers are told, and what was sent arrives.

use core::time::Duration;
use std::time::Instant;

use limic_fabric::Arrivals;

use crate::fabric::OfiFabric;
use crate::packet::Kind;

/// How long a look for answers pauses: nothing is to be sent any more.
const PAUSE: Duration = Duration::from_micros(100);

impl OfiFabric {
    /// Says goodbye to every peer, and waits until each has said that it is left. What comes
    /// meanwhile is thrown away.
    pub(crate) fn say_goodbye(&mut self, within: Duration) {
        let until = Instant::now() + within;
        let all: Vec<u32> = self.connections.keys().copied().collect();
        for number in all {
            if self
                .at(number)
                .is_some_and(|connection| connection.is_ready())
            {
                self.say(number, Kind::Goodbye);
            } else {
                self.end(number, true);
            }
        }
        let mut arrivals = Arrivals::new();
        loop {
            let under_way = self.connections.len() + self.loose.len() + self.sending.len();
            if under_way == 0 || Instant::now() >= until {
                break;
            }
            if self.take_next(&mut arrivals).is_none() && self.blocked.is_empty() {
                std::thread::sleep(PAUSE);
            }
        }
        self.events.clear();
        self.ended.clear();
    }
}
