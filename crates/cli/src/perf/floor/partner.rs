//! The second process of the floor: a fork that does its half of each order.

use std::io::{PipeReader, PipeWriter, Read, Write};

use limic_measure::{MeasureError, ranks};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};

use super::loops::{Failure, Order, follow};
use super::memory::Memory;

/// The other process, seen from the measuring one. It ends when this is dropped, or when the
/// measuring process dies: its pipe then ends.
#[derive(Debug)]
pub(super) struct Partner {
    pid: Pid,
    /// `None` once it was told to end.
    orders: Option<PipeWriter>,
    answers: PipeReader,
}

fn system(step: &'static str) -> impl Fn(std::io::Error) -> MeasureError {
    move |source| MeasureError::System { step, source }
}

impl Partner {
    /// Forks. The process must have one thread.
    pub(super) fn start(
        memory: &mut Memory,
        cpus: Option<(usize, usize)>,
    ) -> Result<Self, MeasureError> {
        let pipe = || std::io::pipe().map_err(system("making a pipe"));
        let (their_orders, orders) = pipe()?;
        let (answers, their_answers) = pipe()?;
        // SAFETY: the process has a single thread, so that no lock is held by one that the child
        // lacks; the child never returns from this arm.
        let forked = unsafe { fork() };
        match forked.map_err(|errno| system("forking")(errno.into()))? {
            ForkResult::Child => {
                drop((orders, answers));
                let failed = match serve(
                    memory,
                    cpus.map(|(_, cpu)| cpu),
                    their_orders,
                    their_answers,
                ) {
                    Ok(()) => 0,
                    Err(_) => 1,
                };
                // SAFETY: ends this process without running what the parent registered for its own
                // end.
                unsafe { libc::_exit(failed) }
            }
            ForkResult::Parent { child } => {
                drop((their_orders, their_answers));
                let mut partner = Self {
                    pid: child,
                    orders: Some(orders),
                    answers,
                };
                partner.finished().map_err(|_| MeasureError::System {
                    step: "starting the second process",
                    source: std::io::ErrorKind::BrokenPipe.into(),
                })?;
                Ok(partner)
            }
        }
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Lets it begin with an order.
    pub(super) fn send(&mut self, order: &Order) -> Result<(), Failure> {
        match &mut self.orders {
            Some(orders) => Ok(orders.write_all(&order.encode())?),
            None => Err(Failure::Silent),
        }
    }

    /// Waits until it is ready for the next order.
    pub(super) fn finished(&mut self) -> Result<(), Failure> {
        self.answers.read_exact(&mut [0])?;
        Ok(())
    }

    /// Ends it and waits for that.
    pub(super) fn stop(mut self) -> Result<(), MeasureError> {
        self.end()
            .map_err(|errno| system("waiting for the second process")(errno.into()))
    }

    fn end(&mut self) -> nix::Result<()> {
        match self.orders.take() {
            // Without its pipe it ends, at the latest when a spin has been in vain for long.
            Some(orders) => drop(orders),
            None => return Ok(()),
        }
        waitpid(self.pid, None).map(|_| ())
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        // After an error that is reported already.
        let _reported = self.end();
    }
}

/// The second process's life.
fn serve(
    memory: &mut Memory,
    cpu: Option<usize>,
    mut orders: PipeReader,
    mut answers: PipeWriter,
) -> Result<(), Failure> {
    if let Some(cpu) = cpu {
        ranks::pin(cpu).map_err(|error| Failure::System(std::io::Error::other(error)))?;
    }
    memory.touch();
    answers.write_all(&[1])?;
    let mut order = [0; Order::BYTES];
    while orders.read_exact(&mut order).is_ok() {
        let Some(order) = Order::decode(&order) else {
            return Err(Failure::Silent);
        };
        memory.flags().ready.set(1);
        follow(&order, memory)?;
        answers.write_all(&[1])?;
    }
    Ok(())
}
