//! Endpoints of one thread, for the tests of single steps: nothing moves but by the turn that a test gives them.

use super::Engine;
use crate::raw::{Posted, RawSlice, SendOptions};
use crate::settings::SettingsBuilder;
use crate::{Peer, Selector, Settings};

/// An endpoint with so many private rings.
pub(super) fn open(private_rings: u32) -> Engine {
    open_with(|settings| settings.private_rings(private_rings))
}

pub(super) fn open_with(with: impl FnOnce(SettingsBuilder) -> SettingsBuilder) -> Engine {
    let settings = with(Settings::builder().without_environment()).build();
    Engine::open(settings.expect("settings")).expect("an endpoint")
}

/// One turn of everybody: messages, and first contacts.
pub(super) fn turn(engines: &mut [&mut Engine]) {
    for engine in engines {
        engine.progress();
        engine.look_at_sockets();
    }
}

/// The number of an endpoint at another one, which has not met it yet.
pub(super) fn known(engine: &mut Engine, other: &Engine) -> u32 {
    let peer = engine.connect(&other.core.address.to_bytes());
    peer.expect("an address").0
}

/// Sends eight bytes at once.
pub(super) fn send(from: &mut Engine, to: u32, tag: u64) {
    let data = [7_u8; 8];
    // SAFETY: it is done when the call returns, or the test fails.
    let posted = unsafe {
        from.core.post_send(
            to,
            tag,
            SendOptions::default(),
            &[RawSlice::from(&data[..])],
        )
    };
    assert!(matches!(posted, Ok(Posted::Done(Ok(_)))), "{posted:?}");
}

/// Attaches two endpoints to each other; gives the number of each at the other.
pub(super) fn meet(a: &mut Engine, b: &mut Engine) -> (u32, u32) {
    let (of_b, of_a) = (known(a, b), known(b, a));
    while !a.attach(of_b).expect("alive") || !b.attach(of_a).expect("alive") {
        turn(&mut [a, b]);
    }
    (of_b, of_a)
}

/// Tags of the messages of a peer that wait, oldest first.
pub(super) fn tags(engine: &mut Engine, peer: u32) -> Vec<u64> {
    let selector = Selector::any_tag(Peer(peer));
    let mut found = Vec::new();
    while let Ok(Some((status, _))) = engine.core.claim(&selector) {
        found.push(status.tag.0);
    }
    found
}
