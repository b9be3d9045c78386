//! What is counted beside messages: names and meanings.

/// Something that happened to an endpoint, or how much of something there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(usize)]
pub enum Event {
    /// Messages that arrived before their receive was posted.
    Unexpected,
    /// Bytes of such messages held now.
    UnexpectedBytes,
    /// Most bytes of them held at a time.
    UnexpectedBytesMost,
    /// Messages in the unexpected queue at most.
    UnexpectedDepthMost,
    /// Times that so much was unexpected that senders were asked to offer instead of sending.
    OverBudget,
    /// Sends that could not go at once: no room in a ring, no link yet, or too long to go without
    /// asking.
    Waited,
    /// Times that this endpoint slept.
    Sleeps,
    /// Sleeps that ended because something happened, not because their time was over.
    WakeUps,
    /// Messages that went ahead of a receiver that lags behind.
    SendAhead,
    /// Their bytes.
    SendAheadBytes,
    /// Times that a peer said that it lags behind, or that it keeps pace again.
    SkewChanges,
    /// Times that this endpoint was found on another CPU than before.
    Migrations,
    /// Times that it was found near another cache or package.
    Relocations,
    /// Times that a path was given up for a peer while it was in use.
    Demotions,
    /// Peers that were attached.
    Attached,
    /// Private rings that peers were given.
    PrivateRings,
    /// Peers that failed: died, closed before this endpoint, or sent what makes no sense.
    PeersFailed,
    /// Connections that were refused.
    Refused,
    /// Reasons that did not fit beside the others.
    ReasonsLeftOut,
    /// Messages sent over verbs or TCP in packets.
    NetworkMessages,
    /// The packets; over TCP, what was written at once.
    NetworkPackets,
    /// Those of the messages that went by RDMA writes into a ring of the peer.
    RingMessages,
    /// Times that a peer was asked to leave its ring alone, since this endpoint was about to sleep.
    RingPauses,
    /// Long messages over verbs whose memory was registered from before.
    RegistrationHits,
    /// Those whose memory had to be registered, and stays so.
    RegistrationMisses,
    /// Records that made no sense, whoever wrote them.
    Violations,
}

impl Event {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 26] = [
        Self::Unexpected,
        Self::UnexpectedBytes,
        Self::UnexpectedBytesMost,
        Self::UnexpectedDepthMost,
        Self::OverBudget,
        Self::Waited,
        Self::Sleeps,
        Self::WakeUps,
        Self::SendAhead,
        Self::SendAheadBytes,
        Self::SkewChanges,
        Self::Migrations,
        Self::Relocations,
        Self::Demotions,
        Self::Attached,
        Self::PrivateRings,
        Self::PeersFailed,
        Self::Refused,
        Self::ReasonsLeftOut,
        Self::NetworkMessages,
        Self::NetworkPackets,
        Self::RingMessages,
        Self::RingPauses,
        Self::RegistrationHits,
        Self::RegistrationMisses,
        Self::Violations,
    ];

    /// The name in text and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unexpected => "unexpected",
            Self::UnexpectedBytes => "unexpected_bytes",
            Self::UnexpectedBytesMost => "unexpected_bytes_most",
            Self::UnexpectedDepthMost => "unexpected_depth_most",
            Self::OverBudget => "over_budget",
            Self::Waited => "waited",
            Self::Sleeps => "sleeps",
            Self::WakeUps => "wake_ups",
            Self::SendAhead => "send_ahead",
            Self::SendAheadBytes => "send_ahead_bytes",
            Self::SkewChanges => "skew_changes",
            Self::Migrations => "migrations",
            Self::Relocations => "relocations",
            Self::Demotions => "demotions",
            Self::Attached => "attached",
            Self::PrivateRings => "private_rings",
            Self::PeersFailed => "peers_failed",
            Self::Refused => "refused",
            Self::ReasonsLeftOut => "reasons_left_out",
            Self::NetworkMessages => "network_messages",
            Self::NetworkPackets => "network_packets",
            Self::RingMessages => "ring_messages",
            Self::RingPauses => "ring_pauses",
            Self::RegistrationHits => "registration_hits",
            Self::RegistrationMisses => "registration_misses",
            Self::Violations => "violations",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn numbers_are_places_in_the_list_and_names_differ() {
        let mut names = std::collections::HashSet::new();
        for (place, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, place);
            assert!(names.insert(event.name()));
        }
    }
}
