//! What a record says of bytes in a pool, and how they are read: checked, shown to whoever wants them, and then given back or taken
//! in hand (`hand`), as the record says.

use limic_shm::ring::Mapped;

use super::Core;
use super::hand::Lease;
use super::in_hand::{InHand, Whose};
use super::inbound::Inbound;
use super::peers::Link;
use super::pool::{Pool, bytes_of, piece_of};
use super::wire;
use crate::buffer::{ReceiveBuffer, Source, Window, word_at, words};

/// The numbers of a piece that does not lie in the pool.
const OUTSIDE: Wrong = "a piece outside of the pool";

/// What a record says of bytes in a pool, in two words: so the records of a message of two pieces fit one cache line, if its tag is that
/// of the record before them.
///
/// | word | bits | |
/// |---|---|---|
/// | place | 0 to 31 | the first page |
/// | | 32 to 63 | its generation |
/// | extent | 0 to 31 | length in bytes |
/// | | 32 to 38 | the lease |
/// | | 39 | an immediate word follows; only for a whole message |
/// | | 40 to 63 | pages that the reader may keep; only with that lease |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    place: u64,
    extent: u64,
}

impl From<[u64; 2]> for Told {
    fn from([place, extent]: [u64; 2]) -> Self {
        Self { place, extent }
    }
}

impl Told {
    const LEASE_AT: u32 = 32;
    const LEASE_MASK: u64 = 0x7F;
    const WORD_FOLLOWS: u64 = 1 << 39;
    const PAGES_AT: u32 = 40;

    #[inline(always)]
    pub(super) fn new(page: u32, generation: u32, pages: u32, len: u64, lease: Lease) -> Self {
        const { assert!(Lease::Back as u64 <= Self::LEASE_MASK) };
        // A chunk, which is the longest piece, has a `u32` of bytes.
        debug_assert!(
            len <= u32::MAX.into() && pages < 1 << 24,
            "a piece of a pool"
        );
        Self {
            place: wire::halves(page, generation),
            extent: u64::from(pages) << Self::PAGES_AT | (lease as u64) << Self::LEASE_AT | len,
        }
    }

    /// What is read of a record: where a whole message lies, and its immediate word.
    #[inline(always)]
    pub(crate) fn whole(record: &(impl Source + ?Sized)) -> (Self, Option<u64>) {
        let told = Self::from(words::<2>(record));
        let word_follows = told.extent & Self::WORD_FOLLOWS != 0;
        (told, word_follows.then(|| word_at(record, 2)))
    }

    /// What is written to it.
    #[inline(always)]
    pub(crate) fn words(self) -> [u64; 2] {
        [self.place, self.extent]
    }

    #[inline(always)]
    pub(crate) fn words_with(self, immediate: u64) -> [u64; 3] {
        [self.place, self.extent | Self::WORD_FOLLOWS, immediate]
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.extent & u64::from(u32::MAX)
    }

    #[inline(always)]
    fn page(&self) -> u32 {
        self.place as u32
    }

    #[inline(always)]
    fn generation(&self) -> u32 {
        (self.place >> 32) as u32
    }

    #[inline(always)]
    fn lease(&self) -> u64 {
        self.extent >> Self::LEASE_AT & Self::LEASE_MASK
    }

    #[inline(always)]
    fn pages(&self) -> u32 {
        (self.extent >> Self::PAGES_AT) as u32
    }

    /// The piece, whose numbers were checked.
    #[inline(always)]
    fn in_hand(&self, whose: Whose, pages: u32) -> InHand {
        InHand::new(whose, self.page(), pages, self.generation())
    }
}

/// What is to be done with a piece when it is read.
#[derive(Clone, Copy)]
enum Then {
    /// Its flag is set.
    Return,
    /// It is in hand.
    Hold(InHand),
}

/// What a peer told cannot be: it breaks the protocol.
pub(crate) type Wrong = &'static str;

impl Link {
    /// Whose memory the peer speaks of: this endpoint's, if the piece comes back.
    #[inline(always)]
    fn memory_of<'a>(&'a self, pool: &'a Pool, told: &Told) -> &'a Mapped {
        if told.lease() == Lease::Back as u64 {
            pool.memory()
        } else {
            &self.pool
        }
    }

    /// Checks what the peer told, and says what becomes of the piece.
    #[inline(always)]
    fn begin_reading(&self, pool: &mut Pool, from: u32, told: &Told) -> Result<Then, Wrong> {
        const LENT: u64 = Lease::Lent as u64;
        const KEEP: u64 = Lease::Keep as u64;
        const BACK: u64 = Lease::Back as u64;
        let (then, room) = match told.lease() {
            LENT => {
                // The copy takes as long as that line, and its stores would stand behind the one that gives the piece back.
                self.released.expect_release(told.page());
                (Then::Return, told.len())
            }
            KEEP => {
                let pages = told.pages();
                if pages == 0 {
                    return Err("a piece of no pages");
                }
                let piece = told.in_hand(Whose::Theirs, pages);
                (Then::Hold(piece), bytes_of(pages))
            }
            BACK => {
                let Some(pages) = pool.kept.came_back(from, told.page(), told.generation()) else {
                    return Err("a piece that it does not keep");
                };
                let piece = told.in_hand(Whose::Mine, pages);
                (Then::Hold(piece), bytes_of(pages))
            }
            _ => return Err("a piece handed over in no known way"),
        };
        if told.len() > room || piece_of(self.memory_of(pool, told), told.page(), room).is_none() {
            return Err(OUTSIDE);
        }
        Ok(then)
    }

    /// Shows the bytes that the peer told to `read`, with the message from it that is coming, and hands the piece on.
    ///
    /// # Errors
    /// What is wrong with what the peer told, or what `read` says.
    #[inline]
    pub(crate) fn read_in_place<T>(
        &mut self,
        pool: &mut Pool,
        from: u32,
        told: &Told,
        read: impl FnOnce(&mut Option<Inbound>, &Window<'_>) -> Result<T, Wrong>,
    ) -> Result<T, Wrong> {
        let then = self.begin_reading(pool, from, told)?;
        // Not by `memory_of`: what is coming is lent out beside it.
        let memory = match then {
            Then::Hold(piece) if piece.is_mine() => pool.memory(),
            _ => &self.pool,
        };
        let window = piece_of(memory, told.page(), told.len()).ok_or(OUTSIDE)?;
        let value = read(&mut self.inbound, &window);
        self.end_reading(pool, told, then);
        value
    }

    /// The piece was read.
    #[inline(always)]
    fn end_reading(&mut self, pool: &mut Pool, told: &Told, then: Then) {
        match then {
            Then::Hold(piece) => self.take_in_hand(pool, piece),
            Then::Return => self.release(told.page(), told.generation()),
        }
    }
}

impl Core {
    /// Shows the bytes that a peer's record names to `read`, and hands the piece on. `None` if there is no such piece: the peer
    /// breaks the protocol, and has failed.
    #[inline]
    pub(crate) fn read_told<T>(
        &mut self,
        from: u32,
        told: Told,
        read: impl FnOnce(&mut Self, &Window<'_>) -> T,
    ) -> Option<T> {
        let link = self.peers.link(from)?;
        let then = match link.begin_reading(&mut self.pool, from, &told) {
            Ok(then) => then,
            Err(wrong) => {
                self.corrupt(from, wrong);
                return None;
            }
        };
        // A clone of the view, since reading needs the whole core: one reference count, on a path that copies a hundred bytes and more.
        let memory = link.memory_of(&self.pool, &told).clone();
        let value = piece_of(&memory, told.page(), told.len()).map(|window| read(self, &window));
        if let Some(link) = self.peers.link(from) {
            link.end_reading(&mut self.pool, &told, then);
        }
        value
    }

    /// Copies what a peer's record names into a buffer, from byte `at` of a message of `whole` bytes on. False if there is no such piece:
    /// the peer has failed.
    #[inline]
    pub(crate) fn copy_told(
        &mut self,
        from: u32,
        told: Told,
        at: u64,
        whole: u64,
        into: &ReceiveBuffer,
    ) -> bool {
        let Some(link) = self.peers.link(from) else {
            return false;
        };
        let copied = link.read_in_place(&mut self.pool, from, &told, |_, window| {
            into.copy_part(at, told.len(), window, whole);
            Ok(())
        });
        match copied {
            Ok(()) => true,
            Err(wrong) => {
                self.corrupt(from, wrong);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn what_is_told_comes_back_whole() {
        let (most, pages) = (u32::MAX, (1 << 24) - 1);
        for (page, generation, pages, len, lease) in [
            (most, most, pages, most.into(), Lease::Back),
            (most, 0, 0, 0, Lease::Lent),
            (0, most, pages, 0, Lease::Keep),
            (0, 0, 0, most.into(), Lease::Lent),
        ] {
            let told = Told::new(page, generation, pages, len, lease);
            assert_eq!((told.page(), told.generation()), (page, generation));
            assert_eq!((told.pages(), told.len()), (pages, len));
            assert_eq!(told.lease(), lease as u64);
            assert_eq!(Told::whole(&record(&told.words())[..]), (told, None));
            let with = record(&told.words_with(u64::MAX));
            let (again, word) = Told::whole(&with[..]);
            assert_eq!(word, Some(u64::MAX));
            assert_eq!((again.page(), again.generation()), (page, generation));
            assert_eq!((again.pages(), again.len()), (pages, len));
            assert_eq!(again.lease(), lease as u64);
        }
    }

    #[test]
    fn a_word_that_does_not_follow_is_none_of_the_others() {
        let told = Told::new(1, 2, 3, 4, Lease::Keep);
        let [place, extent, _] = told.words_with(5);
        let (_, word) = Told::whole(&record(&[place, extent])[..]);
        assert_eq!(word, Some(0));
    }
}
