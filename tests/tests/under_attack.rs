//! Two honest processes exchange messages while a third one of the same job attacks them.
//!
//! What the third can do without the help of its user's rights over other processes: it writes into
//! all memory that the library maps for writing, and floods the sockets; it holds connections,
//! stops in the middle of something, and dies while a child of its lives on.
//!
//! Memory that the honest two share with each other is mapped by the third as well. An attack on
//! that can change bytes of their messages and withhold them, which is counted and printed; they
//! must not crash or grow, and who waits for what was withheld says so. An attack on anything else
//! costs them no message.
//!
//! `LIMIC_TEST_ATTACK_ROUNDS` says how often each attack is made, with another seed each time.

mod attacks;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use attacks::Act;
use limic::settings::Settings;
use limic::{Endpoint, Error, HybridEndpoint, OwnedRecv, Peer, RegionKey, Selector, Tag};
use limic_tests::attacker::{Scribble, writable_segments};
use limic_tests::process::{endpoint_id, mappings, open_descriptors, resident_memory, vanish};
use limic_tests::{Cast, Rank, content};

const HOSTILE: u32 = 2;
/// Exchanges before the attack, and as many during it.
const EXCHANGES: u64 = 40;
/// Eager, in fragments, single copy.
const SIZES: [usize; 6] = [8, 100, 5000, 60_000, 300_000, 1 << 20];
const LOAN: usize = 40_000;
const REGION: usize = 100_000;
/// Room behind each message, which stays as it was.
const MARGIN: usize = 4096;
const UNTOUCHED: u8 = 0xA5;
/// How a line names a message of which some is there.
const BEGUN: &str = "recv of a message that has begun to come from";
/// Longer than an exchange takes on any machine. After it, messages count as withheld.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same where some are expected to be.
const SHORT_PATIENCE: Duration = Duration::from_secs(2);
/// After how long a wait says what it waits for.
const SAYS_AFTER: Duration = Duration::from_secs(1);
/// Longer than it takes until that is said.
const SAYS_WITHIN: Duration = Duration::from_secs(10);

/// What a process may have more during the attack: twice what it keeps of unexpected messages.
const MORE_MEMORY: u64 = 128 << 20;
const MORE_DESCRIPTORS: usize = 150;
const MORE_MAPPINGS: usize = 150;

/// Why an exchange did not do what it should.
#[derive(Debug)]
enum Trouble<'a> {
    Failed(#[expect(dead_code, reason = "it is printed")] Error),
    Withheld(Missing<'a>),
    Changed,
}

/// What did not come in time.
struct Missing<'a> {
    /// Its call, tag and peer, as a line may name them.
    named: Vec<String>,
    /// Waits for it without a limit.
    wait: Box<dyn FnOnce() + 'a>,
}

impl std::fmt::Debug for Missing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.named[0])
    }
}

impl Missing<'_> {
    /// Waits on until it comes, its peer fails, or a line names it. Then the process ends.
    fn wait_on(self, rank: &Rank, endpoint: &HybridEndpoint) {
        let id = endpoint_id(&endpoint.address());
        let line = |named| format!("endpoint {id} has waited for {SAYS_AFTER:?} in {named}");
        let lines: Vec<String> = self.named.iter().map(line).collect();
        let done = attacks::done(rank, rank.rank);
        let (ended, has_ended) = channel::<()>();
        let watch = std::thread::spawn(move || {
            let begin = Instant::now();
            let waits = || has_ended.recv_timeout(Duration::from_millis(50));
            while waits() == Err(RecvTimeoutError::Timeout) {
                let said = std::fs::read("/proc/self/fd/1").expect("a file");
                let said = String::from_utf8_lossy(&said);
                if let Some(line) = lines.iter().find(|line| said.contains(*line)) {
                    println!("REPORT: it said: {line}");
                    std::fs::write(&done, "").expect("the shared directory");
                    vanish();
                }
                if begin.elapsed() > SAYS_WITHIN {
                    println!("it waits, and nothing says for whom: none of {lines:?}");
                    std::process::abort();
                }
            }
        });
        (self.wait)();
        drop(ended);
        watch.join().expect("it has only looked");
    }
}

impl From<Error> for Trouble<'_> {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

struct Honest<'a> {
    endpoint: &'a HybridEndpoint,
    other: Peer,
    hostile: Peer,
    key: RegionKey,
    patience: Duration,
}

impl<'a> Honest<'a> {
    /// Something has not come in time: what a line may call it, but for the peer, and how it is
    /// waited for.
    fn withheld(&self, named: &[&str], wait: impl FnOnce() + 'a) -> Trouble<'a> {
        let peer = self.other.index();
        Trouble::Withheld(Missing {
            named: named
                .iter()
                .map(|call| format!("{call} peer {peer}"))
                .collect(),
            wait: Box::new(wait),
        })
    }

    /// One message each way.
    fn exchange(&self, number: u64, len: usize) -> Result<(), Trouble<'a>> {
        let tag = Tag(number << 8);
        let room = vec![UNTOUCHED; len + MARGIN];
        let mut receive = self.endpoint.irecv((self.other, tag), room)?;
        let mut send = self.endpoint.isend(self.other, tag, content(number, len))?;
        if !receive.wait_timeout(self.patience) {
            let named = [&*format!("recv of tag {} from", tag.0), BEGUN];
            return Err(self.withheld(&named, || drop((receive.wait(), send))));
        }
        if !send.wait_timeout(self.patience) {
            let named = format!("send of tag {} to", tag.0);
            return Err(self.withheld(&[&named], || drop(send.wait())));
        }
        let (outcome, room) = receive.wait_buffer();
        let status = outcome?;
        send.wait()?;
        if room[len..].iter().any(|byte| *byte != UNTOUCHED) {
            return Err(Trouble::Changed);
        }
        is_whole(number, status.len, &room[..len])
    }

    fn loan(&self, number: u64) -> Result<(), Trouble<'a>> {
        let tag = Tag(number << 8 | 1);
        let mut loan = self.endpoint.loan(LOAN)?;
        loan.copy_from_slice(&content(number, LOAN));
        let mut send = loan.isend(self.other, tag)?;
        let (endpoint, from) = (self.endpoint, (self.other, tag));
        let Some(got) = endpoint.recv_loaned_timeout(from, self.patience)? else {
            let named = format!("recv_loaned of tag {} from", tag.0);
            let wait = move || drop((endpoint.recv_loaned(from), send));
            return Err(self.withheld(&[&named], wait));
        };
        if !send.wait_timeout(self.patience) {
            let named = format!("send of tag {} to", tag.0);
            return Err(self.withheld(&[&named], || drop(send.wait())));
        }
        send.wait()?;
        is_whole(number, got.len() as u64, &got.to_vec())
    }

    /// Writes into the other's region, and reads it back.
    fn one_sided(&self, number: u64) -> Result<(), Trouble<'a>> {
        let bytes = content(number, REGION);
        let mut write = self.endpoint.iwrite(self.other, self.key, 0, bytes)?;
        if !write.wait_timeout(self.patience) {
            let named = format!("write of {REGION} bytes to a region of");
            return Err(self.withheld(&[&named], || drop(write.wait())));
        }
        write.wait()?;
        let room = vec![0; REGION];
        let mut read = self.endpoint.iread(self.other, self.key, 0, room)?;
        if !read.wait_timeout(self.patience) {
            let named = ["read of a region of", BEGUN];
            return Err(self.withheld(&named, || drop(read.wait())));
        }
        let (_, bytes) = read.wait()?;
        is_whole(number, bytes.len() as u64, &bytes)
    }

    /// One of each kind. After bytes that were changed it goes on, as the other one does.
    fn everything(&self, number: u64) -> Result<(), Trouble<'a>> {
        let mut result = Ok(());
        let mut keep = |found| match found {
            Err(Trouble::Changed) => {
                result = Err(Trouble::Changed);
                Ok(())
            }
            other => other,
        };
        for len in SIZES {
            keep(self.exchange(number, len))?;
        }
        keep(self.loan(number))?;
        keep(self.one_sided(number))?;
        // The other one needs the region no more.
        keep(self.exchange(number, 1))?;
        result
    }

    /// Exchanges until something goes wrong, and has to do with the hostile process meanwhile.
    /// Bytes that were changed are no reason to stop.
    fn go_on(&self, from: u64, grown: &mut Grown) -> (u64, u64, Option<Trouble<'a>>) {
        let (mut good, mut changed, mut sends) = (0, 0, Vec::new());
        let mut receive: Option<OwnedRecv<'_, HybridEndpoint>> = None;
        for number in from..from + EXCHANGES {
            match self.everything(number) {
                Ok(()) => good += 1,
                Err(Trouble::Changed) => changed += 1,
                Err(trouble) => return (good, changed, Some(trouble)),
            }
            // What comes of these does not matter.
            if sends.len() < 8 {
                let long = vec![3; 1 << (number % 18)];
                sends.extend(self.endpoint.isend(self.hostile, 1_u64, long));
            }
            sends.retain_mut(|send| !send.test());
            if receive.as_mut().is_none_or(OwnedRecv::test) {
                let any = Selector::any_tag(self.hostile);
                receive = self.endpoint.irecv(any, vec![0; 10_000]).ok();
            }
            grown.look();
        }
        (good, changed, None)
    }
}

fn is_whole<'a>(number: u64, len: u64, bytes: &[u8]) -> Result<(), Trouble<'a>> {
    let whole = len == bytes.len() as u64 && bytes == content(number, bytes.len());
    if whole { Ok(()) } else { Err(Trouble::Changed) }
}

/// What this process has more than before.
#[derive(Debug)]
struct Grown {
    before: (u64, usize, usize),
    most: (u64, usize, usize),
}

impl Grown {
    fn start() -> Self {
        let before = (resident_memory(), open_descriptors(), mappings());
        Self {
            before,
            most: before,
        }
    }

    fn look(&mut self) {
        self.most.0 = self.most.0.max(resident_memory());
        self.most.1 = self.most.1.max(open_descriptors());
        self.most.2 = self.most.2.max(mappings());
    }

    fn check(&self) {
        assert!(self.most.0 < self.before.0 + MORE_MEMORY, "{self:?}");
        assert!(self.most.1 < self.before.1 + MORE_DESCRIPTORS, "{self:?}");
        assert!(self.most.2 < self.before.2 + MORE_MAPPINGS, "{self:?}");
    }
}

fn honest(rank: &Rank, attack: Act, endpoint: &HybridEndpoint, peers: &[Peer]) {
    let region = endpoint.region(vec![0; REGION]).expect("a region");
    let keys = rank.link.exchange(&region.key().0.to_le_bytes());
    let other = 1 - rank.rank as usize;
    let key = keys[other].as_deref().expect("every rank is alive");
    let mut pair = Honest {
        endpoint,
        other: peers[other],
        hostile: peers[HOSTILE as usize],
        key: RegionKey(u64::from_le_bytes(key.try_into().expect("a word"))),
        patience: PATIENCE,
    };
    let mut grown = Grown::start();
    let begin = Instant::now();
    let (good, _, trouble) = pair.go_on(0, &mut grown);
    assert!(good == EXCHANGES, "before the attack: {trouble:?}");
    let alone = begin.elapsed();
    rank.link.meet(endpoint);

    if attack.reaches_the_pair() {
        pair.patience = SHORT_PATIENCE;
    }
    let begin = Instant::now();
    let (good, changed, trouble) = pair.go_on(1000, &mut grown);
    let attacked = begin.elapsed();
    let fate = endpoint.attach(pair.hostile).err();
    println!(
        "REPORT: {attack:?}, seed {}, rank {}: {EXCHANGES} in {alone:.1?} alone; {good} and {changed} \
         changed in {attacked:.1?} under attack; {trouble:?}; {grown:?}; the third: {fate:?}",
        rank.seed, rank.rank
    );
    if !attack.reaches_the_pair() {
        assert!(changed == 0 && trouble.is_none(), "{changed}, {trouble:?}");
        assert_eq!(good, EXCHANGES);
    }
    grown.check();
    // It is in order with itself.
    let (me, mut inbox) = (endpoint.myself(), [0; 5]);
    endpoint
        .send_recv(me, 1_u64, b"still", (me, 1), &mut inbox)
        .expect("to itself");
    assert_eq!(&inbox, b"still");
    if let Some(Trouble::Withheld(missing)) = trouble {
        missing.wait_on(rank, endpoint);
    }
    std::fs::write(attacks::done(rank, rank.rank), "").expect("the shared directory");
    drop(region);
}

fn take_part(rank: &Rank, attack: Act) {
    let settings = Settings::builder().patience(SAYS_AFTER).build();
    let endpoint = HybridEndpoint::with(settings.expect("settings")).expect("open");
    let own = writable_segments();
    let peers = rank.connect(&endpoint);
    // All have met all, over rings of their own, and the hostile process has sent what will be
    // read during the attack.
    for round in 0..40_u64 {
        for other in (0..3).filter(|other| *other != rank.rank) {
            let (to, mut room) = (peers[other as usize], vec![0; 20_000]);
            let data = content(round, 1 << (round % 14));
            endpoint
                .send_recv(to, 5_u64, &data, (to, 5), &mut room)
                .expect("exchange");
        }
    }
    if rank.rank != HOSTILE {
        return honest(rank, attack, &endpoint, &peers);
    }
    for to in &peers[..2] {
        for tag in 0..20_u64 {
            // It goes on when it is dropped.
            let long = vec![tag as u8; 64 << (tag % 14)];
            drop(endpoint.isend(*to, tag, long).expect("isend"));
            let loan = endpoint.loan(3000).expect("a loan");
            drop(loan.isend(*to, tag).expect("isend"));
        }
    }
    let _ = rank.link.exchange(&[]);
    rank.link.meet(&endpoint);
    attacks::run(rank, attack, &endpoint, &peers, &own);
    vanish();
}

fn run(name: &str, attack: Act) {
    let rounds = std::env::var("LIMIC_TEST_ATTACK_ROUNDS");
    let rounds = rounds.map_or(4, |rounds| rounds.parse().expect("a number"));
    for _ in 0..rounds {
        let cast = Cast::new(name).ranks(3).alone();
        let cast = match attack {
            Act::DieWithChild => cast.dies(HOSTILE),
            _ => cast,
        };
        if cast.run(|rank| take_part(rank, attack)).is_none() {
            return;
        }
    }
}

macro_rules! attacks {
    ($($name:ident: $attack:expr;)+) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name), $attack);
            }
        )+
    };
}

attacks! {
    words_into_its_own_segment_cost_nothing: Act::Own(Scribble::Words);
    flips_in_its_own_segment_cost_nothing: Act::Own(Scribble::Flips);
    bursts_into_its_own_segment_cost_nothing: Act::Own(Scribble::Bursts);
    floods_of_the_sockets_cost_nothing: Act::FloodSockets;
    a_peer_that_stops_and_goes_on_costs_nothing: Act::StopAndGoOn;
    a_peer_that_dies_with_a_child_costs_nothing: Act::DieWithChild;
    words_into_the_others_segments_crash_nobody: Act::Theirs(Scribble::Words);
    flips_in_the_others_segments_crash_nobody: Act::Theirs(Scribble::Flips);
    bursts_into_the_others_segments_crash_nobody: Act::Theirs(Scribble::Bursts);
}
