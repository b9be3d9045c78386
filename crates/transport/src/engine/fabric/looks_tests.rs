//! Each network has its own turn.

use core::time::Duration;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use limic_fabric::{
    ConnectionFailure, ConnectionId, Counts, Event, Fabric, Form, Inbox, Limits, Part, Provider,
    SendRefused,
};

use super::FabricChannel;
use crate::engine::fabric::Link;
use crate::{Address, Settings};

/// A network over which nothing comes. It counts how often it was looked at.
#[derive(Debug)]
struct Quiet {
    every: u32,
    polls: Arc<AtomicU32>,
}

impl Fabric for Quiet {
    fn part(&self) -> Part {
        Part::new(Provider::Tcp, &[1]).expect("a place")
    }
    fn set_hello(&mut self, _: Vec<u8>) {}
    fn connect(&mut self, _: &Part, _: u64, _: u64) -> Result<ConnectionId, ConnectionFailure> {
        Ok(ConnectionId(0))
    }
    fn disconnect(&mut self, _: ConnectionId) {}
    fn is_connected(&self, _: ConnectionId) -> bool {
        true
    }
    fn limits(&self, _: ConnectionId) -> Limits {
        Limits::NOTHING
    }
    fn send(
        &mut self,
        _: ConnectionId,
        _: Form,
        _: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), SendRefused> {
        Err(SendRefused::Later)
    }
    fn cork(&mut self, _: ConnectionId) {}
    fn uncork(&mut self, _: ConnectionId) {}
    fn holding(&self) -> u32 {
        0
    }
    fn gave_time(&mut self) {}
    fn poll(&mut self, _: &mut Inbox) -> Option<Event> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        None
    }
    fn poll_every(&self) -> u32 {
        self.every
    }
    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
    fn arm(&mut self) -> Result<(), String> {
        Ok(())
    }
    fn patience(&self) -> Option<Duration> {
        None
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
    fn close(&mut self, _: Duration) {}
    fn leave_to_parent(self: Box<Self>) {}
}

fn progress(channel: &mut FabricChannel) {
    if channel.is_due(true) {
        assert!(channel.poll(&mut Inbox::new()).is_none());
    }
}

/// A network that is looked at each time does not make one be looked at more often that costs a
/// call of the kernel.
#[test]
fn a_cheap_network_does_not_bring_forward_the_turn_of_a_dear_one() {
    let polls = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
    let fabrics = [1, 8].into_iter().zip(&polls).map(|(every, polls)| {
        let polls = polls.clone();
        Box::new(Quiet { every, polls }) as Box<dyn Fabric>
    });
    let settings = Settings::builder().without_environment().build();
    let address = Address::generate().expect("random");
    let settings = settings.expect("settings");
    let mut channel = FabricChannel::with(fabrics.collect(), &settings, &address);
    for fabric in 0..2 {
        let connection = ConnectionId(0);
        channel.reached(Link { fabric, connection }, fabric.into());
    }
    // The first look is at all.
    progress(&mut channel);
    let counted = || [0, 1].map(|n: usize| polls[n].swap(0, Ordering::Relaxed));
    assert_eq!(counted(), [1, 1]);
    for _ in 0..80 {
        progress(&mut channel);
    }
    assert_eq!(counted(), [80, 10]);
    channel.look_now();
    progress(&mut channel);
    assert_eq!(counted(), [1, 1]);
}
