//! A region that is taken back while a peer accesses it, and another one in its place.

use loom::thread;

use super::{read, write};
use crate::owner::region::{Accessing, PeerAccess, PeerRegionTable, RegionTable, RegionTerms};
use crate::ring::LINE;
use crate::ring::memory::modelled::Modelled;

/// What an end does wrong, to show that loom finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The owner does not look whether a peer accesses the region.
    Unawaited,
    /// The peer says that it accesses the region after it has found it.
    SaidLate,
}

/// Terms of the region under this key, which they tell.
fn terms(key: u64) -> RegionTerms {
    RegionTerms {
        address: key + 10,
        len: key + 20,
        access: key + 30,
        origin: key + 40,
        serial: key + 50,
    }
}

fn take_back(fault: Fault) {
    loom::model(move || {
        let [entries, word, memory] = [(); 3].map(|()| Modelled::new(LINE));
        let table = RegionTable::new(entries.clone(), 1);
        let peer = PeerAccess::new(word.clone());
        let accessed = memory.clone();
        write(&memory, 1);
        table.publish(0, 1, &terms(1));
        let accessor = thread::spawn(move || {
            let table = PeerRegionTable::new(entries, 1);
            let accessing = Accessing::new(word);
            for key in [1, 2] {
                let early = (fault == Fault::SaidLate).then(|| table.look(0, key));
                accessing.begin(key);
                if let Some(found) = early.unwrap_or_else(|| table.look(0, key)) {
                    assert_eq!(found, terms(key));
                    assert_eq!(read(&accessed), [key as u8; 8]);
                }
                accessing.end();
            }
        });
        table.remove(0);
        while fault != Fault::Unawaited && peer.key() == 1 {
            thread::yield_now();
        }
        write(&memory, 2);
        table.publish(0, 2, &terms(2));
        accessor.join().expect("the accessor");
    });
}

#[test]
fn a_region_is_free_when_no_peer_accesses_it() {
    take_back(Fault::None);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn an_owner_that_does_not_look_is_found() {
    take_back(Fault::Unawaited);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_peer_that_says_too_late_what_it_accesses_is_found() {
    take_back(Fault::SaidLate);
}
