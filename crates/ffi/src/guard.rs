//! The guard of functions that C calls.

use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that C calls; an error is a panic of the body.
///
/// The guard takes every body for unwind safe. A caller whose body changes what outlives it
/// answers a panic by giving that up.
///
/// ```
/// let halve = |number: i32| -> i32 {
///     let half = limic_ffi::guard(|| {
///         assert!(number % 2 == 0, "{number} is odd");
///         number / 2
///     });
///     half.unwrap_or_else(|panic| {
///         assert_eq!(panic.text(), "3 is odd");
///         -1
///     })
/// };
/// assert_eq!(halve(8), 4);
/// assert_eq!(halve(3), -1);
/// ```
#[inline(always)]
pub fn guard<T>(body: impl FnOnce() -> T) -> Result<T, Panic> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => Ok(value),
        Err(payload) => Err(Panic {
            payload: Some(payload),
        }),
    }
}

/// A panic that a [`guard`] caught.
#[derive(Debug)]
pub struct Panic {
    /// There until the panic is dropped.
    payload: Option<Box<dyn Any + Send>>,
}

impl Panic {
    /// The payload, if it is such a value.
    #[must_use]
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.payload.as_deref()?.downcast_ref()
    }

    /// What the panic said.
    #[cold]
    pub fn text(&self) -> &str {
        let payload = self.payload.as_deref();
        payload
            .and_then(|payload| {
                let fixed = payload.downcast_ref::<&str>().copied();
                fixed.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            })
            .unwrap_or("a panic without a text")
    }
}

impl Drop for Panic {
    /// The payload's destructor is the panicking code's own, and may panic as well.
    #[cold]
    fn drop(&mut self) {
        let payload = self.payload.take();
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            // Dropping this one could go on like that for ever.
            core::mem::forget(second);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{panic_any, resume_unwind};

    fn text_of(body: impl FnOnce()) -> String {
        let panic = guard(body).expect_err("the body panics");
        panic.text().to_owned()
    }

    #[test]
    fn a_result_passes_through() {
        assert_eq!(guard(|| 7).expect("the body ends"), 7);
    }

    #[test]
    fn the_text_of_a_panic_is_handed_on() {
        assert_eq!(text_of(|| panic!("as it stands")), "as it stands");
        let number = 3;
        assert_eq!(text_of(|| panic!("made of {number}")), "made of 3");
        assert_eq!(text_of(|| panic_any(5_u8)), "a panic without a text");
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_stays_inside() {
        struct Spiteful;
        impl Drop for Spiteful {
            fn drop(&mut self) {
                panic_any(Worse);
            }
        }
        struct Worse;
        impl Drop for Worse {
            fn drop(&mut self) {
                panic!("never dropped");
            }
        }
        let text = text_of(|| resume_unwind(Box::new(Spiteful)));
        assert_eq!(text, "a panic without a text");
    }
}
