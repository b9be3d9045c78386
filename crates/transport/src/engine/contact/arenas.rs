//! A message names an arena whose descriptor comes over a socket.

use limic_shm::system;

use super::accept;
use super::connections::{self, ALL};
use crate::engine::cx::Cx;

/// So many turns take in all connections that wait to be accepted.
const ACCEPTING: usize = limic_shm::control::BACKLOG as usize / accept::VISIT;
/// Turns in which another thread has used the descriptors of a message that it maps.
const TURNS: usize = 1024;

/// Takes in an arena's descriptor that a message names. It was sent before the message, so it is
/// there: perhaps in a connection that this side has not accepted yet, if both sides made the first
/// contact at once.
#[cold]
pub(crate) fn fetch(cx: &mut Cx, from: u32, arena: u32) {
    look_for_arena(cx, from, arena);
    // Its sender has done nothing wrong if this process has no room for its descriptor.
    if cx.sockets.has_unread(from) || cx.sockets.is_paused() {
        if let Some(pair) = cx.peers.pair(from) {
            pair.arenas.miss(arena);
        }
    }
}

/// What is looked at is no more than was there when the message was sent, whatever the peer or
/// others send meanwhile.
fn look_for_arena(cx: &mut Cx, from: u32, arena: u32) {
    let mut left = ALL;
    for turn in 0..TURNS {
        for index in cx.sockets.of_peer(from) {
            connections::read_within(cx, index, &mut left);
        }
        let pair = cx.peers.pair(from);
        if left == 0 || pair.is_none_or(|pair| pair.arenas.is_here(arena)) {
            return;
        }
        let waits = cx.sockets.has_unread(from);
        if waits {
            // Another thread has the spare descriptors at the moment.
            connections::resume(cx);
            connections::contact_peers(cx);
            system::yield_now();
        }
        // That connection is accepted even where no descriptor is free but those in reserve.
        if turn == 0 {
            cx.sockets.give_up_reserve();
        }
        let accepted = turn < ACCEPTING && accept::accept_connections(cx);
        // Or it was accepted before its greeting came.
        let greets = turn == 0 && accept::read_greetings(cx);
        if turn == 0 {
            cx.sockets.refill_reserve();
        }
        if !accepted && !greets && !waits {
            return;
        }
    }
}
