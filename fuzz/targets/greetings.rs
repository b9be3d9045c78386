//! Greetings over a Unix socket, and in a datagram of a fabric.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    limic::fuzzing::any_greeting(bytes);
    limic_ibverbs::fabric::any_greeting(bytes);
});
