//! Endpoints of limic itself are peers of the provider's: what they send is made up, or is lost on
//! its way.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use limic::settings::{FabricUse, Settings};
use limic::{Endpoint as _, HybridEndpoint, Tag};

use super::provider::{LIMIT, command, finish, provider};
use super::{alone, calls};

/// What a program says next, of which it says no more before it is answered.
fn line_of(child: &mut Child) -> String {
    let mut said = child.stdout.take().expect("piped");
    let (tell, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(&mut said).read_line(&mut line);
        tell.send((read.map(|_| line), said))
    });
    let (line, said) = heard.recv_timeout(LIMIT).expect("it says something");
    child.stdout = Some(said);
    line.expect("text")
}

/// A part of the C program, which opens an endpoint and says its name in hexadecimal; and the bytes
/// of that.
fn begun(provider: &Path, part: &str, settings: &[(&str, &str)]) -> Option<(Child, Vec<u8>)> {
    let mut child = command(calls(provider)?, provider)
        .envs(settings.iter().copied())
        .stdin(Stdio::piped())
        .arg(part)
        .spawn()
        .expect("started");
    let line = line_of(&mut child);
    let digits = line.trim_end().as_bytes().chunks(2);
    let byte = |two| u8::from_str_radix(&String::from_utf8_lossy(two), 16).expect("a byte");
    let name = digits.map(byte).collect();
    Some((child, name))
}

/// A peer's provider is of this version, but its messages are whatever a process makes up.
#[test]
fn a_write_that_a_peer_makes_up_is_not_reported_where_there_is_no_memory() {
    let _alone = alone();
    let provider = provider();
    let Some((child, name)) = begun(provider.path(), "forged", &[]) else {
        return;
    };
    let stranger = HybridEndpoint::open().expect("opened");
    let peer = stranger.connect(&name).expect("an address");
    let written = [1_u64 << 48, 8].map(u64::to_ne_bytes);
    let aside = Tag(0b11 << 62);
    let sent = stranger.send(peer, aside, written.as_flattened());
    sent.expect("sent");
    stranger.send(peer, Tag(1), b"12345678").expect("sent");
    drop(stranger);
    let output = finish(child);
    assert!(output.status.success(), "{output:?}");
}

/// Forwards what is said between callers and a port of this machine.
struct Between {
    /// Each caller: one that is shut down learns that its connection is over, and the other end
    /// does not.
    callers: mpsc::Receiver<TcpStream>,
    /// Callers hear nothing.
    mute: Arc<AtomicBool>,
}

impl Between {
    /// Has an address of 127.0.0.1 named by the port of somebody between.
    fn of(name: &mut [u8]) -> Self {
        let at = name.windows(4).position(|four| four == [127, 0, 0, 1]);
        let place = &mut name[at.expect("an address") + 4..][..2];
        let port = u16::from_be_bytes([place[0], place[1]]);
        let here = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let own = here.local_addr().expect("an address").port();
        place.copy_from_slice(&own.to_be_bytes());
        let (tell, callers) = mpsc::channel();
        let mute = Arc::new(AtomicBool::new(false));
        let is_mute = Arc::clone(&mute);
        std::thread::spawn(move || {
            let copy = |one: &TcpStream| one.try_clone().expect("a descriptor");
            for caller in here.incoming().map(|caller| caller.expect("it calls")) {
                let called = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
                let (to, from) = (copy(&called), copy(&caller));
                std::thread::spawn(move || forward(from, to, &AtomicBool::new(false)));
                let (to, is_mute) = (copy(&caller), Arc::clone(&is_mute));
                std::thread::spawn(move || forward(called, to, &is_mute));
                if tell.send(caller).is_err() {
                    return;
                }
            }
        });
        Self { callers, mute }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, is_mute: &AtomicBool) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if !is_mute.load(Ordering::SeqCst) && to.write_all(&bytes[..len]).is_err() {
            return;
        }
    }
}

/// Calls until there is an answer.
fn wait_for<T>(mut call: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = call() {
            return answer;
        }
        assert!(begin.elapsed() < LIMIT, "it takes too long");
    }
}

#[test]
fn a_peer_that_is_back_hears_nothing_of_what_it_asked_for_before() {
    let _alone = alone();
    let provider = provider();
    let settings = [
        ("LIMIC_FABRIC", "tcp-only"),
        ("LIMIC_TCP_INTERFACE", "127.0.0.1"),
    ];
    let Some((mut child, mut name)) = begun(provider.path(), "returned", &settings) else {
        return;
    };
    let between = Between::of(&mut name);
    let settings = Settings::builder()
        .fabric(FabricUse::TcpOnly)
        .tcp_interface("127.0.0.1")
        .build();
    let stranger = HybridEndpoint::with(settings.expect("they make sense")).expect("opened");
    let peer = stranger.connect(&name).expect("an address");
    let own = stranger.address().to_bytes();
    stranger.send(peer, Tag(1), &own).expect("sent");
    // An atomic operation, so long that it does not go before its receiver wants it.
    let aside = Tag(0b11 << 62);
    let mut asked = vec![0; 1 << 20];
    asked[..8].copy_from_slice(&(3_u64 << 48 | 1).to_ne_bytes());
    between.mute.store(true, Ordering::SeqCst);
    let asks = stranger.isend(peer, aside, asked).expect("begun");
    stranger.send(peer, Tag(2), &own[..8]).expect("sent");
    assert_eq!(line_of(&mut child), "asked\n");
    let lost = between.callers.recv_timeout(LIMIT).expect("it has called");
    lost.shutdown(Shutdown::Both).expect("connected");
    wait_for(|| {
        stranger.progress();
        stranger.attach(peer).err()
    });
    asks.wait().expect_err("nobody has asked for its bytes");
    between.mute.store(false, Ordering::SeqCst);
    assert_eq!(stranger.connect(&name), Ok(peer));
    // It calls anew before the other one has missed it.
    let call = || {
        assert_eq!(stranger.attach(peer), Ok(false));
        stranger.progress();
        between.callers.try_recv().ok()
    };
    let _again = wait_for(call);
    let go_on = child.stdin.as_mut().expect("piped").write_all(b"\n");
    go_on.expect("it reads");
    stranger.send(peer, Tag(3), &own[..8]).expect("sent");
    let answer = stranger.recv_timeout((peer, Tag(4)), &mut [0; 8], LIMIT);
    answer.expect("received");
    // It may have closed its endpoint by now.
    let told = stranger.probe((peer, aside));
    assert!(!matches!(told, Ok(Some(_))), "{told:?}");
    drop(stranger);
    let output = finish(child);
    assert!(output.status.success(), "{output:?}");
}
