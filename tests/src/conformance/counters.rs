//! Cheap counts.

use limic::Endpoint;
use limic::counters::{Traffic, size_class};

use crate::party::TAG;
use crate::{Case, content};

/// Messages and bytes, by peer, by path and by length.
pub fn count_messages_and_bytes<E: Endpoint>(case: &Case<E>) {
    case.run(2, |party| {
        let lengths = [0_usize, 1, 8, 48, 49, 4000, 100_000, 1 << 20];
        let bytes: u64 = lengths.iter().map(|len| *len as u64).sum();
        let wanted = Traffic {
            messages: lengths.len() as u64,
            bytes,
        };
        for len in lengths {
            if party.rank == 0 {
                party
                    .endpoint
                    .send(party.other(), TAG, &content(1, len))
                    .expect("send");
            } else {
                party
                    .endpoint
                    .recv((party.other(), TAG), &mut vec![0; len])
                    .expect("recv");
            }
        }
        party.meet();
        let counters = party.endpoint.counters();
        let of = |list: &[(limic::Peer, Traffic)]| {
            let entry = list.iter().find(|(peer, _)| *peer == party.other());
            entry.map_or(Traffic::default(), |(_, traffic)| *traffic)
        };
        let sum = |list: &[(limic::settings::Path, Traffic)]| {
            list.iter()
                .fold(Traffic::default(), |sum, (_, part)| Traffic {
                    messages: sum.messages + part.messages,
                    bytes: sum.bytes + part.bytes,
                })
        };
        let (sent, received) = (sum(&counters.sent_paths), sum(&counters.received_paths));
        if party.rank == 0 {
            assert_eq!((sent, received), (wanted, Traffic::default()));
            assert_eq!(of(&counters.sent), wanted);
            assert_eq!(of(&counters.received), Traffic::default());
            for len in lengths {
                assert!(counters.sizes[size_class(len as u64)] > 0, "{len}");
            }
            assert_eq!(counters.sizes.iter().sum::<u64>(), wanted.messages);
        } else {
            assert_eq!((sent, received), (Traffic::default(), wanted));
            assert_eq!(of(&counters.received), wanted);
            assert_eq!(of(&counters.sent), Traffic::default());
        }
        assert_eq!(counters.unexpected_bytes, 0);
        // Long messages count where their path is chosen: at one side or the other.
        let theirs = party.words(counters.paths.iter().map(|(_, t)| t.messages).sum());
        assert_eq!(theirs.iter().sum::<u64>(), wanted.messages);
    });
}
