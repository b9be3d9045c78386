//! Endpoints on two machines: which path goes where.

use limic::policy::Path;
use limic::{Endpoint, HybridEndpoint, RawEndpoint, Selector, Settings, Tag};
use limic_lab::in_guest;
use limic_tests::Cast;

const TAG: Tag = Tag(7);

fn endpoint() -> HybridEndpoint {
    let settings = Settings::builder().without_environment().build();
    HybridEndpoint::with(settings.expect("settings")).expect("an endpoint")
}

#[test]
fn shared_memory_inside_and_verbs_between() {
    if !in_guest() {
        return;
    }
    Cast::new("shared_memory_inside_and_verbs_between")
        .ranks(4)
        .run(|rank| {
            let endpoint = endpoint();
            let peers = rank.connect(&endpoint);
            let me = rank.rank;
            // To the neighbour on this machine, then to the rank on the other one.
            for (partner, verbs) in [(me ^ 1, false), (me ^ 2, true)] {
                let (out, mut back) = ([me as u8; 8], [0; 8]);
                let before = over_verbs(&endpoint);
                let peer = peers[partner as usize];
                let status = endpoint
                    .send_recv(peer, TAG, &out, (peer, TAG), &mut back)
                    .expect("exchange");
                assert_eq!((status.peer, back), (peer, [partner as u8; 8]));
                assert_eq!(over_verbs(&endpoint) - before, u64::from(verbs));
            }
            // Receives from anybody take from both.
            if me == 0 {
                let mut from = Vec::new();
                for _ in 1..rank.ranks {
                    let mut who = [0; 1];
                    let any = Selector::any_source(Tag(8));
                    let status = endpoint.recv(any, &mut who).expect("recv");
                    assert_eq!(status.peer, peers[who[0] as usize]);
                    from.push(who[0]);
                }
                from.sort_unstable();
                assert_eq!(from, [1, 2, 3]);
            } else {
                endpoint.send(peers[0], Tag(8), &[me as u8]).expect("send");
            }
            rank.link.meet(&endpoint);
        });
}

fn over_verbs(endpoint: &HybridEndpoint) -> u64 {
    let counters = endpoint.counters();
    let sent = counters.sent_paths.iter();
    let verbs = sent.filter(|(path, _)| matches!(path, Path::RcEager | Path::RcRendezvous));
    verbs.map(|(_, traffic)| traffic.messages).sum()
}
