//! Records in a ring.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((kind, rest)) = bytes.split_first()
        && let Some((tag, payload)) = rest.split_first_chunk()
    {
        limic::fuzzing::any_record(*kind, u64::from_le_bytes(*tag), payload);
    }
});
