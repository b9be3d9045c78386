//! Operations on borrowed buffers.

use std::panic::{AssertUnwindSafe, catch_unwind};

use limic::{Endpoint, Error, HybridEndpoint, ScopedRecv};

use crate::party::TAG;
use crate::{Case, check, content};

const LENGTHS: [usize; 5] = [0, 40, 4000, 100_000, 2 << 20];

/// Handles that are dropped at once; the scope waits.
pub fn detached_operations_finish_with_the_scope<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            let messages: Vec<_> = (0..).zip(LENGTHS).map(|(n, len)| content(n, len)).collect();
            let sent = party.endpoint.scope(|scope| {
                for message in &messages {
                    scope.isend(party.other(), TAG, message)?;
                }
                Ok(5)
            });
            assert_eq!(sent, Ok(5));
        } else {
            let mut buffers: Vec<_> = LENGTHS.iter().map(|len| vec![0; *len]).collect();
            party
                .endpoint
                .scope(|scope| {
                    for buffer in &mut buffers {
                        scope.irecv((party.other(), TAG), buffer)?;
                    }
                    Ok(())
                })
                .expect("receives");
            for (number, buffer) in (0..).zip(&buffers) {
                check(number, buffer);
            }
        }
    });
}

/// The inner one ends first, and the outer one's operations go on meanwhile.
pub fn nested_scopes<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let (mut outer_in, mut inner_in) = (vec![0; 300_000], vec![0; 5000]);
        let outer_out = content(u64::from(party.rank), 300_000);
        let inner_out = content(u64::from(party.rank) + 10, 5000);
        party
            .endpoint
            .scope(|outer| {
                let receive = outer.irecv((party.other(), 1), &mut outer_in)?;
                outer.isend(party.other(), 1, &outer_out)?;
                outer.endpoint().scope(|inner| {
                    inner.isend(party.other(), 2, &inner_out)?;
                    inner.irecv((party.other(), 2), &mut inner_in)?;
                    Ok(())
                })?;
                check(u64::from(1 - party.rank) + 10, &inner_in);
                let (status, buffer) = receive.wait()?;
                assert_eq!(status.len, 300_000);
                check(u64::from(1 - party.rank), buffer);
                buffer[0] = 0;
                Ok(())
            })
            .expect("both scopes");
        assert_eq!(outer_in[0], 0);
    });
}

/// A receive that nobody will ever meet does not keep a failed scope from ending.
pub fn an_error_in_the_body_cancels<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 1 {
            let (mut one, mut two) = (vec![0; 100_000], [0; 8]);
            let failed: limic::Result<()> = party.endpoint.scope(|scope| {
                scope.irecv((party.other(), 1), &mut one)?;
                scope.irecv((party.other(), 2), &mut two)?;
                Err(Error::NoMemory("the body's own error".into()))
            });
            assert_eq!(failed, Err(Error::NoMemory("the body's own error".into())));
        }
        party.meet();
        // The cancelled receives take nothing.
        if party.rank == 0 {
            party
                .endpoint
                .send(party.other(), 1, &content(1, 100_000))
                .expect("send");
        } else {
            let mut buffer = vec![0; 100_000];
            party
                .endpoint
                .recv((party.other(), 1), &mut buffer)
                .expect("recv");
            check(1, &buffer);
        }
    });
}

/// It ends, and the panic goes on.
pub fn a_panic_in_the_body_does_not_hang<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 1 {
            let (mut buffer, message) = (vec![0; 100_000], content(3, 2 << 20));
            let ended = catch_unwind(AssertUnwindSafe(|| {
                party.endpoint.scope(|scope| -> limic::Result<()> {
                    scope.irecv((party.other(), 1), &mut buffer)?;
                    scope.isend(party.other(), 3, &message)?;
                    std::panic::panic_any("the body's own panic");
                })
            }));
            let panic = ended.expect_err("the panic goes on");
            assert_eq!(panic.downcast_ref(), Some(&"the body's own panic"));
        }
        party.meet();
        let mut buffer = [0; 10];
        if party.rank == 0 {
            party
                .endpoint
                .send(party.other(), 1, &content(1, 10))
                .expect("send");
        } else {
            party
                .endpoint
                .recv((party.other(), 1), &mut buffer)
                .expect("recv");
            check(1, &buffer);
        }
    });
}

/// Nobody waited for it, and yet nobody misses it.
pub fn the_error_of_a_detached_operation_is_returned<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        if party.rank == 0 {
            party.meet();
            party
                .endpoint
                .send(party.other(), TAG, &content(1, 50_000))
                .expect("send");
        } else {
            let mut buffer = vec![0; 1000];
            let ended = party.endpoint.scope(|scope| {
                scope.irecv((party.other(), TAG), &mut buffer)?;
                party.meet();
                Ok(())
            });
            let (peer, tag) = (party.other(), TAG);
            let (sent, room) = (50_000, 1000);
            assert_eq!(
                ended,
                Err(Error::Truncated {
                    peer,
                    tag,
                    sent,
                    buffer: room,
                    immediate: None,
                })
            );
            check(1, &buffer);
        }
    });
}

/// A handle that is forgotten does not end the borrow early.
pub fn leaked_handles_are_waited_for<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let mut buffer = vec![0; 1 << 20];
        if party.rank == 0 {
            party.meet();
            party
                .endpoint
                .send(party.other(), TAG, &content(1, 1 << 20))
                .expect("send");
        } else {
            party
                .endpoint
                .scope(|scope| {
                    // Handles hold nothing that their end would give up: to drop one is to forget
                    // it.
                    const { assert!(!std::mem::needs_drop::<ScopedRecv<'_, HybridEndpoint>>()) };
                    let _ = scope.irecv((party.other(), TAG), &mut buffer)?;
                    party.meet();
                    Ok(())
                })
                .expect("receive");
            check(1, &buffer);
        }
    });
}
