//! Hash bins with intrusive links: no bin has memory of its own.
//!
//! A bin is the list of all entries with one key, oldest first. Its first entry stands for the bin:
//! it is chained with the other bins of the bucket, and its `prev` is the last entry. So a bin
//! costs no cache line beside those of its entries, appears with its first entry and is gone with
//! its last.

use super::key::{Key, Place};

/// No entry.
pub(super) const NIL: u32 = u32::MAX;
/// `chain` of an entry that is not the first of its bin.
const INNER: u32 = u32::MAX - 1;

/// A hash bucket: the first bin of a chain, and a filter of the bins in it. 8 bytes.
///
/// The filter has one bit of 32 per bin (bits of bins that are gone stay until the bucket is
/// empty). A look-up of a key that is not there so ends at the bucket, and does not touch the line
/// of another key's entry.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    first: u32,
    filter: u32,
}

impl Bucket {
    /// A bucket without bins.
    pub const EMPTY: Self = Self {
        first: NIL,
        filter: 0,
    };
}

/// The place of one entry in one bin. 12 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    next: u32,
    /// In the first entry of a bin: the last.
    prev: u32,
    /// In the first entry of a bin: the next bin of the bucket.
    chain: u32,
}

impl Link {
    /// A link that is in no bin.
    pub const EMPTY: Self = Self {
        next: NIL,
        prev: NIL,
        chain: INNER,
    };

    pub(super) const fn next(&self) -> u32 {
        self.next
    }
}

/// Where the links of a table are. Ids are those of links (an unexpected message has several).
///
/// `None` from any of these, and so from the functions below, means an id out of range: a bug,
/// never what a peer or a user did.
pub(super) trait Links {
    fn link(&self, id: u32) -> Option<&Link>;
    fn link_mut(&mut self, id: u32) -> Option<&mut Link>;
    fn has_key(&self, id: u32, key: &Key) -> bool;
}

/// The first entry of the bin with this key. Touches the bucket, and one line per bin of the chain
/// if the filter lets it pass.
#[inline]
pub(super) fn find(
    links: &(impl Links + ?Sized),
    buckets: &[Bucket],
    place: Place,
    key: &Key,
) -> Option<u32> {
    let bucket = buckets.get(place.bucket)?;
    if bucket.filter & place.filter == 0 {
        return None;
    }
    let mut id = bucket.first;
    while id != NIL {
        if links.has_key(id, key) {
            return Some(id);
        }
        id = links.link(id)?.chain;
    }
    None
}

/// Adds an entry at the end of the bin with this key; the bin is made if there is none.
#[inline]
pub(super) fn append(
    links: &mut (impl Links + ?Sized),
    buckets: &mut [Bucket],
    place: Place,
    key: &Key,
    id: u32,
) -> Option<()> {
    if let Some(first) = find(links, buckets, place, key) {
        let last = core::mem::replace(&mut links.link_mut(first)?.prev, id);
        links.link_mut(last)?.next = id;
        *links.link_mut(id)? = Link {
            next: NIL,
            prev: last,
            chain: INNER,
        };
    } else {
        let bucket = buckets.get_mut(place.bucket)?;
        *links.link_mut(id)? = Link {
            next: NIL,
            prev: id,
            chain: bucket.first,
        };
        bucket.first = id;
        bucket.filter |= place.filter;
    }
    Some(())
}

/// Takes an entry out of its bin; the bucket is asked for only if the bin's first or last entry
/// changes.
#[inline]
pub(super) fn remove(
    links: &mut (impl Links + ?Sized),
    buckets: &mut [Bucket],
    place: impl FnOnce() -> Place,
    id: u32,
) -> Option<()> {
    let Link { next, prev, chain } = *links.link(id)?;
    if chain != INNER {
        let heir = if next == NIL {
            chain
        } else {
            let link = links.link_mut(next)?;
            link.chain = chain;
            link.prev = prev;
            next
        };
        return rechain(links, buckets.get_mut(place().bucket)?, id, heir);
    }
    links.link_mut(prev)?.next = next;
    if next == NIL {
        // The last one goes: the first one, which knows it, is in the chain of the bucket.
        let mut first = buckets.get(place().bucket)?.first;
        while links.link(first)?.prev != id {
            first = links.link(first)?.chain;
        }
        links.link_mut(first)?.prev = prev;
    } else {
        links.link_mut(next)?.prev = prev;
    }
    Some(())
}

/// Puts the bin `heir` at the place that the bin `id` has in the chain.
fn rechain(
    links: &mut (impl Links + ?Sized),
    bucket: &mut Bucket,
    id: u32,
    heir: u32,
) -> Option<()> {
    if bucket.first == id {
        bucket.first = heir;
        if heir == NIL {
            bucket.filter = 0;
        }
        return Some(());
    }
    let mut before = bucket.first;
    loop {
        let link = links.link_mut(before)?;
        if link.chain == id {
            link.chain = heir;
            return Some(());
        }
        before = link.chain;
    }
}

/// Entries in all bins of all buckets, for tests; more than `most` if links go round in circles.
#[cfg(test)]
pub(super) fn count(links: &impl Links, buckets: &[Bucket], most: usize) -> usize {
    let mut entries = 0;
    for bucket in buckets {
        let mut first = bucket.first;
        while let Some(bin) = links.link(first) {
            let mut id = first;
            while let Some(link) = links.link(id).filter(|_| entries <= most) {
                entries += 1;
                id = link.next;
            }
            first = if entries <= most { bin.chain } else { NIL };
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Entries whose key is their number modulo 3.
    struct Table([Link; 12]);

    impl Links for Table {
        fn link(&self, id: u32) -> Option<&Link> {
            self.0.get(id as usize)
        }
        fn link_mut(&mut self, id: u32) -> Option<&mut Link> {
            self.0.get_mut(id as usize)
        }
        fn has_key(&self, id: u32, key: &Key) -> bool {
            u64::from(id % 3) == key.tag
        }
    }

    const PLACE: Place = Place {
        bucket: 0,
        filter: 1,
    };

    fn key(tag: u64) -> Key {
        Key {
            tag,
            mask: !0,
            source: 0,
            class: 0,
            any: false,
        }
    }

    fn bin(table: &Table, buckets: &[Bucket], tag: u64) -> Vec<u32> {
        let first = find(table, buckets, PLACE, &key(tag));
        let next = |id: &u32| Some(table.link(*id)?.next).filter(|next| *next != NIL);
        core::iter::successors(first, next).collect()
    }

    #[test]
    fn three_bins_in_one_bucket_stay_apart_whatever_leaves() {
        for first in (0..12).step_by(if cfg!(miri) { 4 } else { 1 }) {
            for second in 0..12 {
                let mut table = Table([Link::EMPTY; 12]);
                let mut buckets = [Bucket::EMPTY];
                for id in 0..12 {
                    append(&mut table, &mut buckets, PLACE, &key(u64::from(id % 3)), id);
                }
                let mut gone = Vec::new();
                for id in [first, second] {
                    if !gone.contains(&id) {
                        remove(&mut table, &mut buckets, || PLACE, id);
                        gone.push(id);
                    }
                }
                for &id in gone.iter().rev() {
                    append(&mut table, &mut buckets, PLACE, &key(u64::from(id % 3)), id);
                }
                for tag in 0..3 {
                    let of_tag = |id: &u32| u64::from(id % 3) == tag;
                    let stayed = (0..12).filter(of_tag).filter(|id| !gone.contains(id));
                    let back = gone.iter().rev().copied().filter(of_tag);
                    let expected: Vec<u32> = stayed.chain(back).collect();
                    assert_eq!(bin(&table, &buckets, tag), expected);
                }
                for id in 0..12 {
                    remove(&mut table, &mut buckets, || PLACE, id);
                }
                assert_eq!(buckets[0].first, NIL, "empty bins are gone");
            }
        }
    }
}
