//! Random traffic of everybody with everybody, for some seconds.

use limic::{Endpoint, HybridEndpoint, Selector, Tag};
use limic_tests::{Cast, Random, Rank, check, content};
use std::time::{Duration, Instant};

const ROUND: Tag = Tag(1 << 60);
const LONGEST: u32 = 19;

/// One message of a round. All ranks draw the same plan from the same seed.
struct Planned {
    from: u32,
    to: u32,
    tag: u64,
    len: usize,
    /// How it is sent and received, and whether by name.
    send_as: u64,
    receive_as: u64,
    named: bool,
}

fn plan(random: &mut Random, ranks: u32) -> Vec<Planned> {
    let count = 1 + random.below(60);
    (0..count)
        .map(|tag| Planned {
            from: random.below(ranks.into()) as u32,
            to: random.below(ranks.into()) as u32,
            tag,
            len: random.length(LONGEST),
            send_as: random.below(3),
            receive_as: random.below(3),
            named: random.below(2) == 0,
        })
        .collect()
}

fn round(rank: &Rank, endpoint: &HybridEndpoint, peers: &[limic::Peer], number: u64) -> u64 {
    let seed = rank.seed ^ number.wrapping_mul(0x9e37_79b9);
    let planned = plan(&mut Random::new(seed), rank.ranks);
    let mut own = Random::new(seed ^ u64::from(rank.rank) << 32);
    let content_of = |message: &Planned| seed.wrapping_add(message.tag);
    let mut mine: Vec<&Planned> = planned.iter().filter(|m| m.from == rank.rank).collect();
    let mut theirs: Vec<&Planned> = planned.iter().filter(|m| m.to == rank.rank).collect();
    own.shuffle(&mut mine);
    own.shuffle(&mut theirs);
    let selector = |message: &Planned| {
        if message.named {
            Selector::exact(peers[message.from as usize], Tag(message.tag))
        } else {
            Selector::any_source(Tag(message.tag))
        }
    };
    let late = own.below(theirs.len() as u64 + 1) as usize;
    let mut receives = Vec::new();
    for message in &theirs[late..] {
        let request = endpoint
            .irecv(selector(message), vec![0; message.len])
            .expect("irecv");
        receives.push((*message, request));
    }
    let mut sends = Vec::new();
    for message in mine {
        let data = content(content_of(message), message.len);
        let to = peers[message.to as usize];
        if message.send_as == 0
            && let Ok(mut loan) = endpoint.loan(message.len)
        {
            // A loan may go as an ordinary message, and then waits for its receiver: only short
            // ones here.
            if message.len < 1000 {
                loan.copy_from_slice(&data);
                loan.send(to, message.tag).expect("send a loan");
                continue;
            }
        }
        let request = endpoint.isend(to, message.tag, data).expect("isend");
        // Dropped early is as good as waited for.
        if message.send_as == 1 {
            sends.push(request);
        }
    }
    for message in &theirs[..late] {
        let found = match message.receive_as {
            0 => endpoint
                .recv_loaned(selector(message))
                .expect("receive in place")
                .to_vec(),
            1 => {
                let claim = endpoint.wait_matched_probe(selector(message));
                claim.expect("claim").recv_vec().expect("receive")
            }
            _ => {
                let mut buffer = vec![0; message.len];
                endpoint.recv(selector(message), &mut buffer).expect("recv");
                buffer
            }
        };
        assert_eq!(found.len(), message.len);
        check(content_of(message), &found);
    }
    for (message, request) in receives {
        let (status, buffer) = request.wait().expect("receive");
        assert_eq!(status.len, message.len as u64);
        assert_eq!(status.peer, peers[message.from as usize]);
        check(content_of(message), &buffer);
    }
    for request in sends {
        request.wait().expect("send");
    }
    theirs.len() as u64
}

/// Rank 0 says when it is over.
fn traffic(rank: &Rank, endpoint: &HybridEndpoint) {
    let peers = rank.connect(endpoint);
    let end = Instant::now() + Duration::from_secs(5);
    let mut messages = 0;
    for number in 0.. {
        if rank.rank == 0 {
            let go_on = [u8::from(Instant::now() < end)];
            for peer in &peers[1..] {
                endpoint.send(*peer, ROUND, &go_on).expect("send");
            }
            if go_on == [0] {
                break;
            }
        } else {
            let mut go_on = [0];
            endpoint.recv((peers[0], ROUND), &mut go_on).expect("recv");
            if go_on == [0] {
                break;
            }
        }
        messages += round(rank, endpoint, &peers, number);
        // Tags are used again in the next round, and wildcards would see it too early.
        rank.link.meet(endpoint);
    }
    println!("{messages} messages received");
    rank.link.meet(endpoint);
}

/// Four ranks with the default settings.
#[test]
fn random_traffic_of_four_ranks() {
    let report = Cast::new("random_traffic_of_four_ranks")
        .ranks(4)
        .alone()
        .run(|rank| {
            let endpoint = HybridEndpoint::open().expect("open");
            traffic(rank, &endpoint);
        });
    if let Some(report) = report {
        println!("seed {}", report.seed);
    }
}
