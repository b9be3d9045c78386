//! Where long messages are read out of the memory of their senders though nobody has asked for it.
//!
//! A receiver has the address and the key of what it may read, so it may keep them. That does no
//! harm where two things are so. The adapter reads by itself: elsewhere the provider of the sender
//! may go on to send memory that is the program's again. And memory that limic withdraws is
//! registered no more: a cache of registrations keeps it readable, and over verbs writable.

/// Whether both are so, of a provider with such an environment.
pub(crate) fn reads_end(provider: &str, variable: impl Fn(&str) -> Option<String>) -> bool {
    let is = |name: &str, words: &[&str]| {
        let value = variable(name).unwrap_or_default();
        words.iter().any(|word| value.eq_ignore_ascii_case(word))
    };
    match provider {
        // libfabric's cache is on unless it has no room.
        "verbs;ofi_rxm" => {
            is("FI_MR_CACHE_MAX_COUNT", &["0"]) || is("FI_MR_CACHE_MAX_SIZE", &["0"])
        }
        // Else the adapter may still take a key whose memory was withdrawn.
        "cxi" => is("FI_CXI_MR_MATCH_EVENTS", &["1", "yes", "true", "on"]),
        // Some adapters of efa read by themselves; for the others the provider does it.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(provider: &str, name: &str, value: &str) -> bool {
        reads_end(provider, |asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn nobody_reads_unasked_what_stays_registered() {
        let (count, size) = ("FI_MR_CACHE_MAX_COUNT", "FI_MR_CACHE_MAX_SIZE");
        let events = "FI_CXI_MR_MATCH_EVENTS";
        for provider in ["verbs;ofi_rxm", "cxi", "efa", "tcp", "tcp;ofi_rxm"] {
            assert!(!reads_end(provider, |_| None), "{provider}");
        }
        for name in [count, size] {
            assert!(with("verbs;ofi_rxm", name, "0"));
            for value in ["", "1024", "off", "00"] {
                assert!(!with("verbs;ofi_rxm", name, value), "{name}={value}");
            }
            assert!(!with("cxi", name, "0") && !with("efa", name, "0"));
        }
        for value in ["1", "true", "YES", "on"] {
            assert!(with("cxi", events, value), "{value}");
        }
        assert!(!with("cxi", events, "0") && !with("cxi", events, ""));
        assert!(!with("verbs;ofi_rxm", events, "1"));
    }
}
