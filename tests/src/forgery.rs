//! Records that lie in the rings of peers, changed behind the library's back.

/// Header, tag, and the first words of the payload.
pub type Words<'a> = [&'a mut u64; 5];

/// The kind that a header names.
#[must_use]
pub const fn kind(header: u64) -> u64 {
    header >> 32 & 0xFF
}

/// The length of the payload that a header names.
#[must_use]
pub const fn length(header: u64) -> u64 {
    header & 0xFFFF
}

/// Changes every record that looks like one of those that are meant, in every ring which this process may write, and counts
/// them. The change learns how many came before.
///
/// # Safety
/// Nobody accesses the rings meanwhile: the peers wait. That this process may end badly is accepted.
pub unsafe fn forge(
    is_meant: impl Fn(&Words<'_>) -> bool,
    change: impl Fn(&mut Words<'_>, u64),
) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mut seen = 0;
    for line in maps
        .lines()
        .filter(|line| line.contains("memfd:limic") && line.contains(" rw-s "))
    {
        let range = line
            .split_whitespace()
            .next()
            .and_then(|r| r.split_once('-'));
        let (start, end) = range.expect("a range");
        let number = |text| usize::from_str_radix(text, 16).expect("an address");
        let mut at = number(start);
        while at + 40 <= number(end) {
            let word = std::ptr::with_exposed_provenance_mut::<u64>(at);
            // SAFETY: within a shared mapping that this process may write, and whose other process waits meanwhile (the
            // caller's promise), so that nobody accesses the words in these references' time.
            let mut words: Words<'_> = unsafe {
                [
                    &mut *word,
                    &mut *word.add(1),
                    &mut *word.add(2),
                    &mut *word.add(3),
                    &mut *word.add(4),
                ]
            };
            let len = length(*words[0]);
            if is_meant(&words) {
                change(&mut words, seen);
                seen += 1;
                at += (len as usize & !7).max(8);
            } else {
                at += 8;
            }
        }
    }
    seen
}
