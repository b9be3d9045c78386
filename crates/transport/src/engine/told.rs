//! What a record says of bytes in a pool, and how they are read: checked, shown to whoever wants them, and then given back or taken
//! in hand (`hand`), as the record says.

use limic_shm::ring::Mapped;

use super::Core;
use super::hand::{InHand, Lease, Whose};
use super::inbound::Inbound;
use super::peers::Link;
use super::pool::{Pool, bytes_of, piece_of};
use super::wire;
use crate::buffer::{ReceiveBuffer, Source, Window, words};

/// The numbers of a piece that does not lie in the pool.
const OUTSIDE: Wrong = "a piece outside of the pool";

/// What a record says of bytes in a pool, in two words, so that the records of a message of two pieces fit one cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The first page, and above its generation.
    place: u64,
    /// 32 bits of length, 7 of lease, one that says that an immediate word follows, and 24 of pages, from the lowest on.
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
    const WITH_IMMEDIATE: u64 = 1 << 39;
    const PAGES_AT: u32 = 40;

    #[inline(always)]
    pub(super) fn new(page: u32, generation: u32, pages: u32, len: u64, lease: Lease) -> Self {
        // A chunk, which is the longest piece, has fewer than 2^32 bytes.
        Self {
            place: wire::halves(page, generation),
            extent: u64::from(pages) << Self::PAGES_AT | (lease as u64) << Self::LEASE_AT | len,
        }
    }

    /// What is read of a record: where a whole message lies, and its immediate word.
    #[inline(always)]
    pub(crate) fn whole(record: &impl Source) -> (Self, Option<u64>) {
        let told = Self::from(words::<2>(record));
        if told.extent & Self::WITH_IMMEDIATE == 0 {
            return (told, None);
        }
        let [_, _, word] = words::<3>(record);
        (told, Some(word))
    }

    /// What is written to it.
    #[inline(always)]
    pub(crate) fn words(self) -> [u64; 2] {
        [self.place, self.extent]
    }

    #[inline(always)]
    pub(crate) fn words_with(self, immediate: u64) -> [u64; 3] {
        [self.place, self.extent | Self::WITH_IMMEDIATE, immediate]
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
        let page = told.page().into();
        if told.len() > room || piece_of(self.memory_of(pool, told), page, room).is_none() {
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
        let window = piece_of(memory, told.page().into(), told.len()).ok_or(OUTSIDE)?;
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
        let value =
            piece_of(&memory, told.page().into(), told.len()).map(|window| read(self, &window));
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
