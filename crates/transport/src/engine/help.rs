//! How much of its time an endpoint gives to help: to accesses of peers to its regions for which it
//! copies.
//!
//! A peer asks as often as it likes. So help has a share of the time ([`TimeShare`]). Once it has
//! taken more while something else moves, it *rests*: nobody is helped until the rest is over.
//! While nothing else moves, help needs no rest.
//!
//! Work that may be help is a [`Piece`], from [`begin`](Help::begin) to [`end`](Help::end). It was
//! help if [`note`](Help::note) was called in between, and then its time counts.

use core::time::Duration;

use limic_shm::idle::TimeShare;
use limic_shm::system::Instant;

/// Of the time, one part in so many is for help. Both ends of a pair may be asked for it.
const PARTS: u32 = 4;
/// The same where endpoints share a processor: what one of them takes, the others lack.
const PARTS_SHARED: u32 = 16;
/// The most time that it may take at once.
const AT_ONCE: Duration = Duration::from_millis(1);

/// An account of the help that peers have had.
#[derive(Debug)]
pub(crate) struct Help {
    share: TimeShare,
    /// The rest that holds from the next turn on.
    rest: Option<Rest>,
    /// Nobody is helped in this turn.
    rests: bool,
    /// When the last rest began, or ended early.
    rested: Instant,
    /// When something else was last known to have moved.
    moved: Instant,
    /// Something else has moved since; the clock was not asked yet.
    has_moved: bool,
    /// How often peers have asked for help, or had some; it wraps.
    count: u32,
    /// A piece is under way: what peers ask for is timed.
    is_timed: bool,
    /// There are more endpoints than processors.
    shares_processor: bool,
}

/// Nobody is helped.
#[derive(Clone, Copy, Debug)]
struct Rest {
    end: Instant,
    /// How long nothing else moves before it ends early.
    quiet: Duration,
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
            rests: false,
            rested: now,
            moved: now,
            has_moved: false,
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
            self.spend(piece.begun, Instant::now());
        }
        helped
    }

    fn spend(&mut self, begun: Instant, now: Instant) {
        self.share.spend(begun, now);
        if !self.share.is_overdrawn() {
            return;
        }
        self.look(now);
        // Else it is another piece of the same turn.
        if self.rest.is_none() && self.moved <= self.rested {
            return self.share.forgive();
        }
        let quiet = self.rest.map_or(Duration::ZERO, |rest| rest.quiet);
        self.rested = now;
        self.rest = self.share.rest(now).map(|rest| Rest {
            end: now + rest,
            quiet: quiet + now.saturating_duration_since(begun),
        });
    }

    fn look(&mut self, now: Instant) {
        if core::mem::take(&mut self.has_moved) {
            self.moved = now;
        }
    }

    /// A turn begins, and a rest ends whose time is over. It is over early if nothing else has
    /// moved for as long as the help took before: what comes next waits no longer. Where others
    /// need the processor to move, that says nothing.
    pub(crate) fn begin_turn(&mut self) {
        self.rests = self
            .rest
            .is_some_and(|rest| self.goes_on(rest, Instant::now()));
        if !self.rests {
            self.rest = None;
        }
    }

    fn goes_on(&mut self, rest: Rest, now: Instant) -> bool {
        self.look(now);
        let quiet = now.saturating_duration_since(self.moved.max(self.rested));
        if quiet >= rest.quiet && !self.shares_processor {
            // The help that follows needs no rest, before something moves again.
            self.rested = now;
            return false;
        }
        now < rest.end
    }

    /// Whether nobody is to be helped now.
    pub(crate) fn rests(&self) -> bool {
        self.rests
    }

    /// There is nothing else to do.
    pub(crate) fn end_rest(&mut self) {
        self.rest = None;
        self.rests = false;
    }

    /// Something else moves.
    pub(crate) fn others_moved(&mut self) {
        self.has_moved = true;
    }
}

#[cfg(test)]
impl Help {
    /// Nobody is helped before this endpoint has nothing else to do.
    pub(crate) fn rest_for_long(&mut self) {
        const HOUR: Duration = Duration::from_secs(3600);
        self.rested = Instant::now();
        self.rest = Some(Rest {
            end: self.rested + HOUR,
            quiet: HOUR,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: Duration = Duration::from_micros(10);
    const TURN: Duration = Duration::from_micros(1);
    const TURNS: u32 = 100_000;

    /// Turns in which somebody asks for a piece, and something else moves in one of `every`: in how
    /// many of them there was help, and how long all took.
    fn turns(shares_processor: bool, every: u32) -> (u32, Duration) {
        let mut help = Help::default();
        help.set_shares_processor(shares_processor);
        let begun = Instant::now();
        let (mut now, mut helped) = (begun, 0);
        for turn in 0..TURNS {
            if turn % every == 0 {
                help.others_moved();
            }
            help.rest = help.rest.filter(|rest| help.goes_on(*rest, now));
            if help.rest.is_none() {
                help.spend(now, now + PIECE);
                now += PIECE;
                helped += 1;
            }
            now += TURN;
        }
        (helped, now - begun)
    }

    #[test]
    fn while_others_move_help_has_its_part_of_the_time() {
        for (shares_processor, parts) in [(false, PARTS), (true, PARTS_SHARED)] {
            let (helped, all) = turns(shares_processor, 1);
            assert!(
                PIECE * helped <= all / parts + AT_ONCE * 2,
                "{helped} in {all:?}"
            );
            assert!(PIECE * helped >= all / (parts + 1), "{helped} in {all:?}");
        }
    }

    #[test]
    fn while_nothing_else_moves_each_turn_helps() {
        let (helped, _) = turns(false, u32::MAX);
        assert!(helped >= TURNS - 100, "{helped}");
    }

    #[test]
    fn who_moves_seldom_waits_for_one_piece_and_holds_up_the_help_for_as_long() {
        // Longer than a piece, and shorter than a whole rest.
        let (helped, all) = turns(false, 20);
        assert!(PIECE * helped >= all / 2, "{helped} in {all:?}");
        assert!(helped <= TURNS - TURNS / 20, "{helped}");
    }
}
