//! What of the victim's messages reaches its partner.

use limic::{Endpoint, Error, HybridEndpoint, OwnedRecv, Peer, Selector};
use limic_tests::check;

use crate::roles::LONG;
use crate::stage::Stage;

/// The messages that the victim sends, in order.
pub(crate) struct Inbox<'a> {
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) victim: Peer,
    pub(crate) what: &'a str,
    /// The number of the first one.
    pub(crate) first: u64,
    pub(crate) lengths: Vec<usize>,
    pub(crate) delivered: u64,
    pub(crate) is_gone: bool,
}

impl<'a> Inbox<'a> {
    pub(crate) fn post(&self) -> Vec<OwnedRecv<'a, HybridEndpoint>> {
        let receive = |_| {
            let selector = Selector::any_tag(self.victim);
            let posted = self.stage.endpoint.irecv(selector, vec![0; LONG]);
            posted.expect("the victim lives")
        };
        self.lengths.iter().map(receive).collect()
    }

    /// Takes all that came, until the end of the victim. So many messages at least are there, or
    /// all.
    pub(crate) fn finish(mut self, posted: Vec<OwnedRecv<'_, HybridEndpoint>>, least: u64) {
        for receive in posted {
            self.take(receive.wait().map(|(status, data)| (status.len, data)));
        }
        while !self.is_gone {
            let mut data = vec![0; LONG];
            let selector = Selector::any_tag(self.victim);
            let outcome = self.stage.endpoint.recv(selector, &mut data);
            self.take(outcome.map(|status| (status.len, data)));
        }
        let least = least.min(self.lengths.len() as u64);
        assert!(
            self.delivered >= least,
            "{}: {} messages of {least} came",
            self.what,
            self.delivered
        );
    }

    fn take(&mut self, outcome: Result<(u64, Vec<u8>), Error>) {
        let what = self.what;
        match outcome {
            Ok((len, data)) => {
                assert!(!self.is_gone, "{what}: a message came after the end");
                let wanted = self.lengths.get(self.delivered as usize);
                assert_eq!(wanted, Some(&(len as usize)), "{what}");
                self.delivered += 1;
                check(self.first + self.delivered - 1, &data[..len as usize]);
            }
            Err(Error::PeerFailed { peer, .. }) if self.delivered == self.lengths.len() as u64 => {
                assert_eq!(peer, self.victim, "{what}");
                self.is_gone = true;
            }
            Err(error) => {
                self.stage.dead(self.victim, &error, what);
                self.is_gone = true;
            }
        }
    }
}
