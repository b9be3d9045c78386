//! Long messages are measured by their receiver, and take the path that is faster (H3): `policy::adapt` decides.
//!
//! Two looks at a clock for a spell of messages; for shorter ones, one in eight spells only. Paths that a file, the environment or the application asks
//! for are neither measured nor changed.

use super::Core;
use super::ahead::now_ns;
use super::requests::Incoming;
use crate::Peer;
use crate::counters::Correction;
use crate::policy::adapt::{Adapter, LEAST_BYTES, Switch, Way};
use crate::policy::{ByteSize, Path, PathSet};

impl Core {
    /// The way of a message for which the table says `table`, and the spell in which it is measured.
    pub(crate) fn corrected(
        &mut self,
        from: u32,
        len: u64,
        table: Path,
        available: PathSet,
    ) -> (Way, Option<u32>) {
        if len < LEAST_BYTES || !self.settings.adapt() {
            return (Way::by(table), None);
        }
        let Some(link) = self.peers.link(from) else {
            return (Way::by(table), None);
        };
        let adapter = link.adapter.get_or_insert_with(|| Box::new(Adapter::new()));
        let (way, spell, switch) = adapter.begins(len, table, available, now_ns);
        note(from, switch);
        (way, Some(spell))
    }

    /// A peer takes part in a long message to it, or has it.
    #[inline]
    pub(crate) fn long_send_answered(&mut self, from: u32) {
        if let Some(link) = self.peers.link(from)
            && let Some(adapter) = &mut link.adapter
        {
            adapter.answered(now_ns);
        }
    }

    /// A long message has arrived.
    #[inline]
    pub(crate) fn long_message_ended(&mut self, incoming: &Incoming) {
        self.was_at_work(incoming.from);
        if let Some(spell) = incoming.spell
            && let Some(link) = self.peers.link(incoming.from)
            && let Some(adapter) = &mut link.adapter
        {
            note(incoming.from, adapter.ended(spell, incoming.wanted, now_ns));
        }
    }

    /// What is corrected now, for the counters.
    pub(crate) fn corrections(&self) -> Vec<Correction> {
        let adapters = self
            .peers
            .iter()
            .filter_map(|(number, peer)| Some((number, peer.link.as_ref()?.adapter.as_ref()?)));
        adapters
            .flat_map(|(number, adapter)| {
                adapter
                    .corrections()
                    .map(move |(from_bytes, way)| Correction {
                        peer: Peer(number),
                        from_bytes,
                        path: way.path,
                        past_caches: way.past_caches,
                    })
            })
            .collect()
    }
}

fn note(from: u32, switch: Option<Switch>) {
    if let Some(Switch {
        from_bytes,
        before,
        now,
    }) = switch
    {
        tracing::info!(
            "messages of {} and more from {}: {now} is faster than {before} here, and is taken; limic tune measures all",
            ByteSize(from_bytes),
            Peer(from)
        );
    }
}
