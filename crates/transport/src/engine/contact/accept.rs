//! New connections are accepted while this process has room for their descriptors.

use super::{connections, handshake};
use crate::engine::cx::Cx;

/// Messages that are read at once: a greeting, and an arena behind it.
const GREETING: usize = 2;

/// Most connections over which no greeting has come yet.
const MAX_UNGREETED: usize = 32;

/// Connections that are accepted before others have their turn: any process of the network
/// namespace can make some.
pub(super) const VISIT: usize = 16;
/// More connections than wait in any queue.
const ALL: usize = 1 << 16;
/// How often a closing endpoint looks for connections that wait.
const LAST_VISITS: usize = 4;

/// Accepts connections that wait. False if there are none.
pub(crate) fn accept_connections(cx: &mut Cx) -> bool {
    accept(cx, VISIT)
}

fn accept(cx: &mut Cx, most: usize) -> bool {
    for at in 0..most {
        let Some(socket) = cx.sockets.accept() else {
            return at > 0;
        };
        let foreign_user = cx.sockets.foreign_user(&socket);
        let index = cx.sockets.add(socket, None);
        match foreign_user {
            Ok(Some(why)) => handshake::refuse(cx, index, &why),
            Err(error) => {
                let why = format!("it could not find out who this process is: {error}");
                handshake::refuse(cx, index, &why);
            }
            // A peer greets before it waits for anything, so mostly the greeting is there.
            Ok(None) => {
                connections::read(cx, index, GREETING);
                if cx.sockets.has_died(index) {
                    connections::end(cx, index);
                }
                drop_ungreeted(cx, index);
            }
        }
    }
    true
}

/// Reads what has come over connections that have not greeted. False if there is none.
pub(crate) fn read_greetings(cx: &mut Cx) -> bool {
    let ungreeted = cx.sockets.ungreeted();
    for index in &ungreeted {
        connections::read(cx, *index, GREETING);
    }
    !ungreeted.is_empty()
}

/// Any process of the network namespace can connect, and say nothing: that must not use up the
/// descriptors.
fn drop_ungreeted(cx: &mut Cx, newest: u32) {
    if let Some(other) = cx.sockets.surplus_ungreeted(MAX_UNGREETED, newest) {
        tracing::debug!("a connection that nobody greets over is dropped");
        connections::drop_connection(cx, other);
    }
}

/// No endpoint can connect any more, and those that wait to be accepted are told why: nobody would
/// answer.
pub(crate) fn stop_listening(cx: &mut Cx) {
    cx.sockets.stop_listening();
    // Who is not accepted sees what it would see if this process had ended. So all descriptors are
    // for those who wait, and a failure is not the last word.
    cx.sockets.give_up_reserve();
    for _ in 0..LAST_VISITS {
        accept(cx, ALL);
    }
    cx.sockets.forget_listener();
}
