//! Rank 2 changes what it can of what ranks 0 and 1 say to each other: neither writes where it was
//! not asked to.

use limic::settings::{Path, Settings};
use limic::{Endpoint, HybridEndpoint, Peer, RegionKey};
use limic_tests::{Cast, Rank, check, content};

const BYTES: usize = 4 << 20;
const UNTOUCHED: u8 = 0xA5;

fn open(rank: &Rank) -> (HybridEndpoint, Vec<Peer>) {
    let settings = Settings::builder().long_path(Path::SplitCopy).build();
    let endpoint = HybridEndpoint::with(settings.expect("settings")).expect("open");
    let peers = rank.connect(&endpoint);
    for other in (0..rank.ranks).filter(|other| *other != rank.rank) {
        let (peer, mut word) = (peers[other as usize], [0; 8]);
        endpoint
            .send_recv(peer, 1_u64, &[1; 8], (peer, 1), &mut word)
            .expect("exchange");
    }
    (endpoint, peers)
}

/// In place of one address, another one, wherever it stands in memory that this process may write.
fn replace_everywhere(address: u64, other: u64) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let segments = maps
        .lines()
        .filter(|line| line.contains("memfd:limic") && line.contains(" rw-s "));
    let mut replaced = 0;
    for line in segments {
        let (start, rest) = line.split_once('-').expect("a range");
        let (end, _) = rest.split_once(' ').expect("a range");
        let number = |text| usize::from_str_radix(text, 16).expect("an address");
        for at in (number(start)..number(end)).step_by(8) {
            let word = std::ptr::with_exposed_provenance_mut::<u64>(at);
            // SAFETY: within a shared mapping that this process may write; the other ranks wait
            // meanwhile.
            unsafe {
                if word.read_volatile() == address {
                    word.write_volatile(other);
                    replaced += 1;
                }
            }
        }
    }
    replaced
}

/// An address of rank 0 for one of its own, as rank 2 learns them.
fn addresses(rank: &Rank, of: [&[u8]; 2]) -> [u64; 2] {
    let own: Vec<u8> = of
        .iter()
        .flat_map(|bytes| (bytes.as_ptr().expose_provenance() as u64).to_le_bytes())
        .collect();
    let all = rank.link.exchange(&own);
    let words = all[0].as_ref().expect("rank 0 lives").chunks_exact(8);
    let mut words = words.map(|word| u64::from_le_bytes(word.try_into().expect("a word")));
    std::array::from_fn(|_| words.next().expect("two addresses"))
}

fn meddle(rank: &Rank, [from, to]: [u64; 2]) {
    if rank.rank == 2 {
        println!("{} places", replace_everywhere(from, to));
    }
    let _ = rank.link.exchange(&[]);
}

#[test]
fn a_copy_by_both_sides_goes_where_its_receiver_said() {
    Cast::new("a_copy_by_both_sides_goes_where_its_receiver_said")
        .ranks(3)
        .run(|rank| {
            let (endpoint, peers) = open(rank);
            let victim = vec![UNTOUCHED; BYTES];
            let inbox = vec![0; BYTES];
            let places = addresses(rank, [&inbox, &victim]);
            match rank.rank {
                0 => {
                    let receive = endpoint.irecv((peers[1], 7), inbox).expect("irecv");
                    let _ = rank.link.exchange(&[]);
                    // The offer is answered, and a part of the bytes read.
                    for _ in 0..4 {
                        endpoint.progress();
                    }
                    let _ = rank.link.exchange(&[]);
                    meddle(rank, places);
                    check(7, &receive.wait().expect("receive").1);
                }
                1 => {
                    let send = endpoint.isend(peers[0], 7_u64, content(7, BYTES));
                    let send = send.expect("isend");
                    endpoint.progress();
                    let _ = rank.link.exchange(&[]);
                    let _ = rank.link.exchange(&[]);
                    meddle(rank, places);
                    send.wait().expect("send");
                }
                _ => {
                    let _ = rank.link.exchange(&[]);
                    let _ = rank.link.exchange(&[]);
                    meddle(rank, places);
                }
            }
            assert!(victim.iter().all(|byte| *byte == UNTOUCHED), "written to");
            rank.link.meet(&endpoint);
        });
}

#[test]
fn a_one_sided_write_goes_where_the_region_is() {
    Cast::new("a_one_sided_write_goes_where_the_region_is")
        .ranks(3)
        .run(|rank| {
            let (endpoint, peers) = open(rank);
            let victim = vec![UNTOUCHED; BYTES];
            let memory = vec![0; BYTES];
            let places = addresses(rank, [&memory, &victim]);
            if rank.rank == 0 {
                let region = endpoint.region(memory).expect("region");
                let _ = rank.link.exchange(&region.key().0.to_le_bytes());
                meddle(rank, places);
                rank.link.meet(&endpoint);
                check(7, &region.revoke().expect("revoke"));
            } else {
                let keys = rank.link.exchange(&[]);
                meddle(rank, places);
                if rank.rank == 1 {
                    let key = keys[0].as_ref().expect("rank 0 lives").as_slice();
                    let key = RegionKey(u64::from_le_bytes(key.try_into().expect("a key")));
                    let data = content(7, BYTES);
                    endpoint.write(peers[0], key, 0, &data).expect("write");
                }
                rank.link.meet(&endpoint);
            }
            assert!(victim.iter().all(|byte| *byte == UNTOUCHED), "written to");
            rank.link.meet(&endpoint);
        });
}
