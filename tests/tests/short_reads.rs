//! One-sided access without single copy, in records so short that there is nothing to cut.

use limic::{Endpoint, RegionKey, Settings, ShmEndpoint};
use limic_tests::{Cast, check, content};

/// The bytes that are read come between short messages, so that their records begin at every place
/// of the ring.
#[test]
fn short_reads_between_short_messages() {
    const ROUNDS: usize = 5000;
    Cast::new("short_reads_between_short_messages").run(|rank| {
        let settings = Settings::builder().without_environment();
        let settings = settings
            .pipeline_fragment(2 << 10)
            .build()
            .expect("settings");
        let endpoint = ShmEndpoint::with(settings).expect("open");
        let peers = rank.connect(&endpoint);
        let other = peers[1 - rank.rank as usize];
        let region = endpoint.region(content(1, 64)).expect("a region");
        let keys = rank.link.exchange(&region.key().0.to_le_bytes());
        let key = keys[1].as_ref().expect("alive");
        let key = RegionKey(u64::from_le_bytes(key[..].try_into().expect("8 bytes")));
        for round in 0..ROUNDS {
            let messages = round % 8;
            if rank.rank == 1 {
                for _ in 0..messages {
                    endpoint.send(other, 1_u64, &[]).expect("send");
                }
                // Meanwhile its region is read.
                endpoint.recv((other, 2), &mut []).expect("recv");
                continue;
            }
            for _ in 0..messages {
                endpoint.recv((other, 1), &mut []).expect("recv");
            }
            let len = 1 + round % 9;
            let mut found = vec![0; len];
            endpoint.read(other, key, 0, &mut found).expect("read");
            assert_eq!(found, content(1, 64)[..len], "round {round}");
            endpoint.send(other, 2_u64, &[]).expect("send");
        }
        check(1, &region.revoke().expect("revoke"));
    });
}
