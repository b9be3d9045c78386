//! Calls of `limic::raw` beside those of `raw`: safe ones, about regions and messages by number,
//! also by numbers that mean none.

use limic::raw::{Loans, Messages, OneSided, RegionId, Reserved, Runtime};
use limic::{Error, Tag};
use limic_tests::content;

use super::Asked;
use super::era::Era;
use super::model::{Ask, RESERVED};
use super::waits::Waits;

/// A call about a region or a message by number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MadeUp {
    Expose,
    ReadRegion,
    WriteRegion,
    Revoke,
    Peek,
    Claim,
    BorrowLoan,
    TakeLoan,
    ReserveTags,
    TakeReserved,
    KeepAnySourceReceives,
}

/// What one endpoint exposes by number.
#[derive(Default)]
pub(super) struct Regions {
    there: Vec<(RegionId, Vec<u8>)>,
    /// Numbers that mean nothing any more.
    gone: Vec<RegionId>,
}

impl Regions {
    /// A number, and its place if it means a region.
    fn pick(&self, which: usize) -> (RegionId, Option<usize>) {
        let guessed = RegionId(which as u64 | 0xFFFF_FFF0 << 32);
        let place = which % (self.there.len() + 1 + self.gone.len());
        match self.there.get(place) {
            Some((id, _)) => (*id, Some(place)),
            None => {
                let gone = self.gone.get(place - self.there.len());
                (gone.copied().unwrap_or(guessed), None)
            }
        }
    }
}

impl Era<'_> {
    pub(super) fn made_up(
        &mut self,
        at: usize,
        call: MadeUp,
        asked: Asked,
        (which, offset, len): (usize, usize, usize),
    ) {
        let endpoint = self.endpoint(at);
        match call {
            MadeUp::Expose => {
                let bytes = content(which as u64, len);
                let exposed = self.excused(endpoint.expose(bytes.clone()));
                if let Some((id, _)) = exposed {
                    let regions = &mut self.regions[at];
                    assert!(!regions.gone.contains(&id), "a number comes again");
                    regions.there.push((id, bytes));
                }
            }
            MadeUp::ReadRegion | MadeUp::WriteRegion | MadeUp::Revoke => {
                self.region_call(at, call, which, (offset, len));
            }
            MadeUp::BorrowLoan => {
                // It is the endpoint's until that is dropped: who returns it is not safe.
                let _lent = endpoint.borrow_loan(len);
            }
            MadeUp::ReserveTags => {
                endpoint.reserve_tags(Tag(RESERVED), u64::MAX);
                self.send_to_itself(at, Waits::Send, RESERVED, len);
            }
            MadeUp::TakeReserved => self.take_reserved(at),
            MadeUp::KeepAnySourceReceives => endpoint.keep_any_source_receives(),
            MadeUp::Peek | MadeUp::Claim | MadeUp::TakeLoan => self.message_call(at, call, asked),
        }
    }

    fn region_call(
        &mut self,
        at: usize,
        call: MadeUp,
        which: usize,
        (offset, len): (usize, usize),
    ) {
        let endpoint = self.endpoint(at);
        let is_gone = self.model.is_gone(self.name(at));
        let regions = &mut self.regions[at];
        let (id, place) = regions.pick(which);
        let known = place.filter(|_| !is_gone);
        let unknown = Err(Error::UnknownRequest);
        let mut room = content(which as u64, len);
        if let MadeUp::Revoke = call {
            let memory = endpoint.revoke(id);
            let bytes = place.map(|place| regions.there.swap_remove(place).1);
            let bytes = bytes.filter(|_| !is_gone);
            assert!(memory == bytes.ok_or(Error::UnknownRequest));
            return regions.gone.push(id);
        }
        // Also where the end of the range has no number.
        let huge = u64::MAX - offset as u64;
        let done = match call {
            MadeUp::WriteRegion => [
                endpoint.region_write(id, offset as u64, &room),
                endpoint.region_write(id, huge, &room),
            ],
            _ => [
                endpoint.region_read(id, offset as u64, &mut room),
                endpoint.region_read(id, huge, &mut room.clone()),
            ],
        };
        let Some(place) = known else {
            return assert_eq!(done, [unknown.clone(), unknown]);
        };
        assert!(matches!(done[1], Err(Error::OutOfRegion { .. })));
        match regions.there[place].1.get_mut(offset..offset + len) {
            Some(part) if matches!(call, MadeUp::WriteRegion) => part.copy_from_slice(&room),
            Some(part) => assert!(*part == *room),
            None => return assert!(matches!(done[0], Err(Error::OutOfRegion { .. }))),
        }
        assert_eq!(done[0], Ok(()));
    }

    fn message_call(&mut self, at: usize, call: MadeUp, asked: Asked) {
        let Some((ask, selector)) = self.ask(at, asked) else {
            return;
        };
        if !self.at_hand(at, selector) {
            return;
        }
        let endpoint = self.endpoint(at);
        let status = match call {
            MadeUp::Claim => endpoint
                .claim(&selector)
                .map(|found| found.map(|(status, _)| status)),
            MadeUp::TakeLoan => endpoint
                .take_loan(&selector)
                .map(|found| found.map(|one| one.status)),
            _ => {
                let seen = self.excused(endpoint.peek(&selector));
                return assert!(seen.is_none_or(|seen| seen.is_some()), "it is at hand");
            }
        };
        // Who reads its bytes is not safe.
        if let Some(Some(status)) = self.excused(status) {
            let number = self.model.receive();
            let from = self.name_of(at, status.peer);
            self.model.dropped((number, ask), from, status);
        }
    }

    /// Takes all messages that reserved tags have kept.
    pub(super) fn take_reserved(&mut self, at: usize) {
        while let Some(reserved) = self.endpoint(at).take_reserved() {
            let Reserved::Claimed(status, _) = reserved else {
                continue;
            };
            assert_eq!(status.tag, Tag(RESERVED));
            let (at, from) = (self.name(at), self.name_of(at, status.peer));
            let number = self.model.receive();
            let ask = Ask {
                at,
                from: None,
                tag: None,
            };
            self.model.dropped((number, ask), from, status);
        }
    }

    /// Takes back what was exposed by number.
    pub(super) fn end_made_up(&mut self) {
        for at in self.places() {
            while !self.regions[at].there.is_empty() {
                self.region_call(at, MadeUp::Revoke, 0, (0, 0));
            }
        }
    }
}
