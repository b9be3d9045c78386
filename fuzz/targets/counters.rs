//! The page of counters of another process.
#![no_main]

use limic::counters::Page;

/// As a page of this version begins.
const START: &[u8; 9] = b"limiccnt\x03";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // A page is longer than what the fuzzer writes: the bytes come again and again.
    let mut page: Vec<u8> = bytes.iter().copied().cycle().take(1 << 17).collect();
    if let Some(words) = page.first_chunk_mut::<16>() {
        *words = [0; 16];
        words[..START.len()].copy_from_slice(START);
    }
    if let Ok(page) = Page::parse(&page) {
        let _text = format!("{:?}", page.counters);
    }
});
