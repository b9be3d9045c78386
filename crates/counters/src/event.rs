//! What is counted beside messages: names and meanings.

use limic_policy::named;

named! {
    /// Something that happened to an endpoint, or how much of something there is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    #[repr(usize)]
    pub enum Event {
        /// Messages that arrived before their receive was posted.
        Unexpected = "unexpected",
        /// Bytes of such messages held now.
        UnexpectedBytes = "unexpected_bytes",
        /// Most bytes of them held at a time.
        UnexpectedBytesMost = "unexpected_bytes_most",
        /// Messages in the unexpected queue at most.
        UnexpectedDepthMost = "unexpected_depth_most",
        /// Times that so much was unexpected that senders were asked to offer instead of sending.
        OverBudget = "over_budget",
        /// Sends that could not go at once: no room in a ring, no link yet, or too long to go
        /// without asking.
        Waited = "waited",
        /// Times that this endpoint slept.
        Sleeps = "sleeps",
        /// Sleeps that ended because something happened, not because their time was over.
        WakeUps = "wake_ups",
        /// Messages that went ahead of a receiver that lags behind.
        SendAhead = "send_ahead",
        /// Their bytes.
        SendAheadBytes = "send_ahead_bytes",
        /// Times that a peer said that it lags behind, or that it keeps pace again.
        SkewChanges = "skew_changes",
        /// Times that this endpoint was found on another CPU than before.
        Migrations = "migrations",
        /// Times that it was found near another cache or package.
        Relocations = "relocations",
        /// Times that a path was given up for a peer while it was in use.
        Demotions = "demotions",
        /// Peers that were attached.
        Attached = "attached",
        /// Private rings that peers were given.
        PrivateRings = "private_rings",
        /// Peers that failed: died, sent what makes no sense, or could not be reached or met. Not
        /// those that closed in good order.
        PeersFailed = "peers_failed",
        /// Connections that were refused.
        Refused = "refused",
        /// Reasons that did not fit beside the others.
        ReasonsLeftOut = "reasons_left_out",
        /// Messages sent over a network in packets.
        NetworkMessages = "network_messages",
        /// The packets; over TCP, what was written at once.
        NetworkPackets = "network_packets",
        /// Those of the messages that went by RDMA writes into a ring of the peer.
        RingMessages = "ring_messages",
        /// Times that a peer was asked to leave its ring alone, since this endpoint was about to
        /// sleep.
        RingPauses = "ring_pauses",
        /// Long messages over verbs whose memory was registered from before.
        RegistrationHits = "registration_hits",
        /// Those whose memory had to be registered, and stays so.
        RegistrationMisses = "registration_misses",
        /// Records that made no sense, whoever wrote them.
        Violations = "violations",
    }
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn names_differ() {
        let names: std::collections::HashSet<_> = Event::ALL.map(Event::name).into();
        assert_eq!(names.len(), Event::ALL.len());
    }
}
