//! The border between an endpoint's calls and its engine: no panic leaves a call that keeps
//! pointers to buffers, and no code of the user runs inside it but a log subscriber.
//!
//! While a call waits, the engine holds pointers to buffers that its caller has only lent. A panic
//! that unwound out of the engine would free such a buffer and leave the pointer, so it ends the
//! process instead. Buffers that were left to the engine ([`Requests::abandon`]) have a `Drop`
//! of the user's; they are dropped here, after the engine was given back.
//!
//! [`Requests::abandon`]: crate::raw::Requests::abandon

use core::cell::{BorrowError, Ref, RefCell, RefMut};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Buffers of abandoned operations that are over.
///
/// One whose `Drop` panics takes no other one along, nor the operation of a caller. The panic hook
/// has told of it.
#[derive(Default)]
pub(crate) struct Freed(Vec<Box<dyn Any + Send>>);

impl Freed {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, buffers: Vec<Box<dyn Any + Send>>) {
        self.0.extend(buffers);
    }
}

impl Drop for Freed {
    fn drop(&mut self) {
        for buffer in self.0.drain(..) {
            let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(buffer))) else {
                continue;
            };
            // What it panicked with may panic when it is dropped, and so on: the second is leaked.
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                core::mem::forget(second);
            }
        }
    }
}

/// An engine that completes operations which nobody waits for.
pub(crate) trait Frees {
    /// Whether one of those is over.
    fn has_freed(&self) -> bool;

    /// The buffers of those that are over.
    fn take_freed(&mut self) -> Freed;
}

/// An engine, to which one call comes at a time.
pub(crate) struct EngineCell<T>(RefCell<T>);

/// Runs a call out of which no panic unwinds: a function of C cannot, so it ends the process.
#[inline(always)]
pub(crate) extern "C" fn without_unwinding<A>(call: impl FnOnce() -> A) -> A {
    call()
}

impl<T> EngineCell<T> {
    pub(crate) fn new(engine: T) -> Self {
        Self(RefCell::new(engine))
    }

    /// Runs a call.
    ///
    /// # Panics
    /// If the engine is at work: a log subscriber must not use the endpoint that logs.
    #[inline(always)]
    pub(crate) fn enter<A>(&self, call: impl FnOnce(&mut T) -> A) -> A {
        let mut engine = self.0.borrow_mut();
        without_unwinding(
            #[inline(always)]
            move || call(&mut engine),
        )
    }

    /// The engine, for a call that keeps no pointer to a buffer of its caller: a panic may leave
    /// it.
    ///
    /// # Panics
    /// As [`enter`](Self::enter).
    #[inline(always)]
    pub(crate) fn borrow_unguarded(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }

    /// Reads something of the engine.
    ///
    /// # Panics
    /// As [`enter`](Self::enter).
    #[inline(always)]
    pub(crate) fn read<A>(&self, call: impl FnOnce(&T) -> A) -> A {
        call(&self.0.borrow())
    }

    /// The engine, if it is not at work.
    pub(crate) fn try_read(&self) -> Result<Ref<'_, T>, BorrowError> {
        self.0.try_borrow()
    }

    /// Whether the engine is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.0.try_borrow_mut().is_err()
    }
}

impl<T: Frees> EngineCell<T> {
    /// Runs a call that makes progress, and then drops the buffers of abandoned operations that are
    /// over.
    #[inline(always)]
    pub(crate) fn enter_and_free<A>(&self, call: impl FnOnce(&mut T) -> A) -> A {
        let answer = self.enter(call);
        if self.read(Frees::has_freed) {
            self.drop_freed();
        }
        answer
    }

    /// Makes progress; whether anything moved.
    #[inline(always)]
    pub(crate) fn progress(&self, step: impl FnOnce(&mut T) -> bool) -> bool {
        let (moved, frees) = self.enter(|engine| (step(engine), engine.has_freed()));
        if frees {
            self.drop_freed();
        }
        moved
    }

    #[cold]
    #[inline(never)]
    fn drop_freed(&self) {
        drop(self.enter(Frees::take_freed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Work(Freed);

    impl Frees for Work {
        fn has_freed(&self) -> bool {
            !self.0.is_empty()
        }
        fn take_freed(&mut self) -> Freed {
            core::mem::take(&mut self.0)
        }
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("a buffer of the user");
        }
    }

    #[test]
    fn a_buffer_that_panics_is_dropped_outside_and_stops_nobody() {
        let cell = EngineCell::new(Work(Freed(vec![
            Box::new(PanicsOnDrop),
            Box::new(PanicsOnDrop),
        ])));
        assert_eq!(cell.enter_and_free(|_| 7), 7);
        assert!(!cell.is_busy());
        assert!(cell.read(|work| work.0.is_empty()));
    }
}
