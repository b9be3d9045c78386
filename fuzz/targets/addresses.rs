//! Addresses that a bootstrap has carried: one that is taken is written as it was read.
#![no_main]

use limic::Address;
use limic_ibverbs::fabric::FabricAddress;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(address) = Address::from_bytes(bytes) {
        assert_eq!(address.to_bytes(), bytes);
    }
    if let Some(address) = FabricAddress::from_bytes(bytes) {
        assert_eq!(
            FabricAddress::from_bytes(&address.to_bytes()),
            Some(address)
        );
    }
});
