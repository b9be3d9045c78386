//! What can go wrong, and what a program does about it.
//!
//! `limic run -n 2 target/debug/examples/errors`

use std::time::Duration;

use limic::{Endpoint, Error, HybridEndpoint, Peer, Selector, Settings, World};

fn main() -> Result<(), Error> {
    // Errors of settings and start-up become `limic::Error` by `?`. One that `main` returns is
    // printed in words.
    let typo = Settings::builder().with_environment([("LIMIC_EAGER_MAX", "1Q")]);
    let error = typo.build().map(drop).expect_err("1Q is no length");
    println!("a setting: {error}");

    let world = World::init()?;
    let myself = world.myself();

    // A message that is too long: its beginning is delivered, and the error has both lengths.
    world.send(myself, 1, b"longer than four bytes")?;
    let mut four = [0; 4];
    match world.recv((myself, 1), &mut four) {
        Err(Error::Truncated { sent, buffer, .. }) => assert_eq!((sent, buffer), (22, 4)),
        other => panic!("{other:?}"),
    }
    assert_eq!(&four, b"long");

    // A message that does not come: nothing is lost, and the buffer is free again.
    let late = world.recv_timeout((myself, 1), &mut four, Duration::from_millis(1))?;
    assert_eq!(late, None);

    // A peer that this endpoint never met.
    let stranger = Peer::from_index(1000);
    let sent = world.send(stranger, 1, b"hello");
    let error = sent.expect_err("nobody has this number");
    println!("a stranger: {error}");
    assert_eq!(error.peer(), Some(stranger));

    // A peer that is gone. The call fails, and all other peers are as before.
    let other = HybridEndpoint::open()?;
    let gone = world.connect(&other.address().to_bytes())?;
    drop(other);
    let received = world.recv((gone, 1), &mut four);
    let error = received.expect_err("nobody is there");
    println!("a peer that is gone: {error}");
    assert!(matches!(error, Error::PeerFailed { peer, .. } if peer == gone));
    assert_eq!(world.probe(Selector::exact(myself, 1.into()))?, None);
    world.finalize()
}
