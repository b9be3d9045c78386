//! How much of its time an endpoint gives to help: to accesses of peers to its regions for which it
//! copies.
//!
//! A peer asks as often as it likes. So help has a share of the time ([`TimeShare`]) in which it
//! holds others up. Once it has taken more, it *rests*: nobody is helped until the rest is over.
//!
//! Work that may be help is a [`Piece`], from [`begin`](Help::begin) to [`end`](Help::end). It was
//! help if [`note`](Help::note) was called in between. Whether the help of a turn has held others
//! up shows at the turn's end: something else moved in it, or has come. What an endpoint gives
//! while it waits costs nobody anything, and does not count.

use core::time::Duration;

use limic_shm::idle::TimeShare;
use limic_shm::system::Instant;

/// Of the time, one part in so many is for help that holds others up. Both ends of a pair may be
/// asked for it, and what one end gives, the other waits for.
const PARTS: u32 = 8;
/// The same where endpoints share a processor: what one of them takes, the others lack.
const PARTS_SHARED: u32 = 16;
/// The most time that it may take at once.
const AT_ONCE: Duration = Duration::from_millis(1);

/// An account of the help that peers have had.
#[derive(Debug)]
pub(crate) struct Help {
    share: TimeShare,
    /// Until when nobody is helped.
    rest: Option<Instant>,
    /// What the help of this turn has taken.
    taken: Duration,
    /// When help ended last.
    ended: Instant,
    /// Something else has moved in this turn, or has come.
    holds_up: bool,
    /// Something else has moved since the last rest began.
    moved: bool,
    /// How often peers have asked for help, or had some; it wraps.
    count: u32,
    /// A piece is under way: what peers ask for is timed.
    is_timed: bool,
    /// There are more endpoints than processors.
    shares_processor: bool,
}

/// A piece of work that may be help.
pub(crate) struct Piece {
    begun: Instant,
    count: u32,
}

impl Piece {
    /// Whether it takes as long as help may at once.
    pub(crate) fn is_long(&self) -> bool {
        Instant::now().saturating_duration_since(self.begun) >= AT_ONCE
    }
}

impl Default for Help {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            share: TimeShare::new(PARTS, AT_ONCE, now),
            rest: None,
            taken: Duration::ZERO,
            ended: now,
            holds_up: false,
            moved: false,
            count: 0,
            is_timed: false,
            shares_processor: false,
        }
    }
}

impl Help {
    /// Whether there are more endpoints than processors.
    pub(crate) fn set_shares_processor(&mut self, shares: bool) {
        self.shares_processor = shares;
        self.share
            .set_parts(if shares { PARTS_SHARED } else { PARTS });
    }

    /// Changes whenever a peer asks for help, or has some.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// A peer asks for some, or has it.
    pub(crate) fn note(&mut self) {
        self.count = self.count.wrapping_add(1);
    }

    /// Whether what peers ask for is timed at the moment.
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed
    }

    /// Something is to be done that may be help.
    pub(crate) fn begin(&mut self) -> Piece {
        self.is_timed = true;
        Piece {
            begun: Instant::now(),
            count: self.count,
        }
    }

    /// It is done. True if it was help.
    pub(crate) fn end(&mut self, piece: &Piece) -> bool {
        self.is_timed = false;
        let helped = piece.count != self.count;
        if helped {
            self.take(piece.begun, Instant::now());
        }
        helped
    }

    fn take(&mut self, begun: Instant, now: Instant) {
        self.taken += now.saturating_duration_since(begun);
        self.ended = now;
    }

    /// Whether a rest is over, since its time is.
    pub(crate) fn is_rested(&self) -> bool {
        self.rest.is_some_and(|end| Instant::now() >= end)
    }

    /// A turn ends. Its help counts if something else moved in the turn. Where others need the
    /// processor to move, it counts unless nothing has moved for long.
    pub(crate) fn end_turn(&mut self) {
        let taken = core::mem::take(&mut self.taken);
        let counts = core::mem::take(&mut self.holds_up) || self.shares_processor && self.moved;
        if taken.is_zero() || !counts {
            return;
        }
        self.share.spend(taken, self.ended);
        if let Some(rest) = self.share.rest(self.ended) {
            self.rest = Some(self.ended + rest);
            self.moved = false;
        }
    }

    /// Whether nobody is to be helped now.
    pub(crate) fn rests(&self) -> bool {
        self.rest.is_some()
    }

    /// Ends the rest; true if there was one.
    pub(crate) fn end_rest(&mut self) -> bool {
        self.rest.take().is_some()
    }

    /// Something else moves, and no help has held it up.
    pub(crate) fn others_moved(&mut self) {
        self.moved = true;
    }

    /// Something else moves in this turn, or has come.
    pub(crate) fn holds_up_others(&mut self) {
        self.moved = true;
        self.holds_up = true;
    }
}

#[cfg(test)]
impl Help {
    /// Nobody is helped before this endpoint has nothing else to do.
    pub(crate) fn rest_for_long(&mut self) {
        self.rest = Some(Instant::now() + Duration::from_secs(3600));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Duration = Duration::from_nanos(100);
    const LONG: Duration = Duration::from_millis(50);

    /// An endpoint that is asked for help all the time.
    struct Side {
        help: Help,
        now: Instant,
        helped: Duration,
        /// When a message comes.
        comes: Option<Instant>,
    }

    impl Side {
        fn new(now: Instant, shares_processor: bool) -> Self {
            let mut help = Help::default();
            help.set_shares_processor(shares_processor);
            Self {
                help,
                now,
                helped: Duration::ZERO,
                comes: None,
            }
        }

        /// Ends the last turn, and makes another one up to its end: a piece of help is in it,
        /// unless that rests. True if it has brought a message.
        fn turn(&mut self, piece: Duration) -> bool {
            let came = self.comes.is_some_and(|comes| comes <= self.now);
            if came {
                self.help.holds_up_others();
            }
            self.help.end_turn();
            if came {
                self.comes = None;
                self.help.holds_up_others();
            }
            self.now += TURN;
            if self.help.rest.is_some_and(|end| self.now >= end) {
                self.help.end_rest();
            }
            if !self.help.rests() {
                let begun = self.now;
                self.now += piece;
                self.helped += piece;
                self.help.take(begun, self.now);
            }
            came
        }
    }

    /// How often two exchange a message that takes so long, while both are asked for help. What one
    /// of them gives, the other sees as time in which nothing comes.
    fn exchanges(latency: Duration, piece: Duration) -> u32 {
        let begun = Instant::now();
        let [mut one, mut other] = [(); 2].map(|()| Side::new(begun, false));
        one.comes = Some(begun);
        let mut number = 0;
        while one.now < begun + LONG {
            if one.now > other.now {
                core::mem::swap(&mut one, &mut other);
            }
            if one.turn(piece) {
                other.comes = Some(one.now + latency);
                number += 1;
            }
        }
        number
    }

    #[test]
    fn a_pair_that_a_third_asks_for_help_keeps_most_of_its_rate() {
        for latency in [100, 300, 1000, 10_000].map(Duration::from_nanos) {
            let alone = exchanges(latency, Duration::ZERO);
            for piece in [100, 300, 600, 2000, 10_000, 100_000].map(Duration::from_nanos) {
                let kept = f64::from(exchanges(latency, piece)) / f64::from(alone);
                assert!(kept > 0.65, "{latency:?}, pieces of {piece:?}: {kept:.2}");
            }
        }
    }

    #[test]
    fn help_that_holds_others_up_has_its_part_of_the_time() {
        for (shares_processor, parts) in [(false, PARTS), (true, PARTS_SHARED)] {
            let begun = Instant::now();
            let mut side = Side::new(begun, shares_processor);
            while side.now < begun + LONG {
                side.comes = Some(side.now);
                side.turn(Duration::from_micros(10));
            }
            let (helped, all) = (side.helped, side.now - begun);
            assert!(helped <= all / parts + AT_ONCE * 2, "{helped:?} in {all:?}");
            assert!(helped >= all / (parts + 1), "{helped:?} in {all:?}");
        }
    }

    #[test]
    fn while_nothing_else_moves_each_turn_helps() {
        let begun = Instant::now();
        let mut side = Side::new(begun, false);
        while side.now < begun + LONG {
            side.turn(TURN);
        }
        assert!(side.helped * 2 >= LONG, "{:?}", side.helped);
    }
}
