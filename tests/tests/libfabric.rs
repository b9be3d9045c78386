//! The conformance suite over a provider of libfabric alone: its TCP, which needs no adapter. Long
//! messages go in packets, or are read out of the memory of their senders.

use limic::HybridEndpoint;
use limic::settings::{FabricUse, OfiReads};
use limic_tests::conformance;
use limic_tests::conformance::settings;

fn in_packets() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| {
        s.fabric(FabricUse::OfiOnly).ofi_provider("tcp")
    })?)
}

fn by_reads() -> limic::Result<HybridEndpoint> {
    HybridEndpoint::with(settings(|s| {
        s.fabric(FabricUse::OfiOnly)
            .ofi_provider("tcp")
            .ofi_reads(OfiReads::On)
    })?)
}

fn has_provider() -> bool {
    let found = in_packets();
    if let Err(why) = &found {
        limic_tests::skip(&why.to_string());
    }
    found.is_ok()
}

conformance!(ofi, in_packets, only crate::has_provider);
conformance!(ofi_reads, by_reads, only crate::has_provider);
