//! The header of a peer's segment: one that is taken names a geometry that is sound.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: [u8; 64]| limic_shm::segment::any_header(&bytes));
