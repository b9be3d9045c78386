//! What a pair may do follows from where its two endpoints run (H3), and they may move.
//!
//! An endpoint looks at its CPU when it has waited in vain, and every few thousand calls while it has not: never on the
//! way of a message. If it has moved to another cache or package, it takes the rows for there, and tells its peers.

use super::Core;
use super::hand;
use super::in_hand;
use super::in_pieces;
use super::peers::Link;
use super::wire::{self, Control};
use crate::Peer;
use crate::buffer::{Source, words};
use crate::counters::Event;
use crate::policy::{Path, Skew, Thresholds};
use crate::settings::Settings;
use crate::topology::{Locality, Look, Place};

impl Core {
    /// Looks on which CPU this endpoint runs.
    #[cold]
    pub(crate) fn look_where_it_runs(&mut self) {
        match self.whereabouts.look() {
            Look::Same => {}
            Look::Migrated => self.tally.event(Event::Migrations),
            Look::Moved => {
                self.tally.event(Event::Migrations);
                self.tally.event(Event::Relocations);
                self.moved();
            }
        }
    }

    fn moved(&mut self) {
        for peer in 0..self.peers.len() {
            if let Some(link) = self.peers.link(peer) {
                link.passing.forget();
            }
            self.fit(peer);
            self.tell_place(peer);
        }
    }

    /// Tells a peer in another process where this endpoint runs.
    pub(crate) fn tell_place(&mut self, peer: u32) {
        let word = u64::from_le_bytes(self.whereabouts.place().to_bytes());
        if self
            .peers
            .link(peer)
            .is_some_and(|link| link.place.is_some())
        {
            self.control(peer, Control::new(wire::MOVED, [word]));
        }
    }

    /// A peer runs somewhere else.
    pub(crate) fn on_moved(&mut self, from: u32, source: &impl Source) {
        let [word] = words::<1>(source);
        if let Some(link) = self.peers.link(from)
            && link.place.is_some()
        {
            link.place = Some(Place::from_bytes(word.to_le_bytes()));
            link.passing.forget();
            self.fit(from);
        }
    }

    /// Takes the rows for the place where a pair is now.
    pub(crate) fn fit(&mut self, peer: u32) {
        let Some(link) = self.peers.link(peer) else {
            return;
        };
        let before = link.locality;
        link.fit(
            &self.settings,
            self.whereabouts.place(),
            self.pool.chunk_bytes,
        );
        if link.locality != before {
            tracing::info!(
                "{} was at {before} and is at {} now: thresholds follow",
                Peer(peer),
                link.locality
            );
        }
    }
}

impl Link {
    /// Below how many bytes messages go without asking while there are pieces in hand for them: 0 if shorter ones are to be asked
    /// for already.
    fn answers_below(&self, settings: &Settings) -> u64 {
        let Thresholds {
            eager_below,
            pipeline_below,
            ..
        } = self.thresholds;
        if eager_below <= in_pieces::LONGEST {
            return 0;
        }
        let below = if self.locality == Locality::SamePackage {
            // What is in hand beats the single copy there too.
            settings
                .policy()
                .asked_for_from(self.locality, in_pieces::LONGEST)
        } else {
            pipeline_below
        };
        below
            .min(in_hand::LONGEST + 1)
            .min(settings.unexpected_budget_bytes().saturating_add(1))
    }

    /// Takes the rows for this endpoint at `here` and the peer where it said that it is, or for as far as they are by
    /// measurement.
    pub(crate) fn fit(&mut self, settings: &Settings, here: Place, most_chunk_bytes: u64) {
        self.locality = match &self.place {
            None => Locality::SameProcess,
            Some(there) => {
                let nearness = self.passing.nearness();
                settings
                    .hand_over()
                    .locality(here.locality(there), nearness)
            }
        };
        let policy = settings.policy();
        self.thresholds = policy.thresholds(self.locality, Skew::None, &self.capabilities);
        self.record_below = self.thresholds.eager_below.min(self.longest_record + 1);
        self.longest_whole = hand::longest_whole(self.locality);
        self.answers_below = self.answers_below(settings);
        // What goes ahead lies in an arena, and no ring limits it.
        let mut ahead = self.capabilities;
        ahead.max_eager = settings.unexpected_budget_bytes();
        self.ahead_below = policy
            .thresholds(self.locality, Skew::Skewed, &ahead)
            .eager_below;
        let chunk = u64::from(policy.chunk_bytes(Path::Pipeline, self.locality));
        self.chunk_bytes = chunk.clamp(64, most_chunk_bytes);
    }
}
