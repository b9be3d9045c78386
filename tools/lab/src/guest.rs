//! A running guest: QEMU, and what comes out of its ports.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use limic_runner::{Failure, interrupt};

use super::folder::Folder;
use super::image::{self, Contents};
use super::kernel::Kernel;
use super::kernel_log::KernelLog;
use super::machine::{self, Machine};
use super::marker::{Cutter, Said};
use super::needs;

/// The ports of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Out,
    Err,
    Console,
}

pub(super) const PORTS: [(Port, &str); 3] = [
    (Port::Out, "out"),
    (Port::Err, "err"),
    (Port::Console, "console"),
];

/// An event in one of the guests.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A step of this guest printed something.
    Output(usize, Port, Vec<u8>),
    /// A step begins.
    Begin,
    /// A step of this guest is over, with its exit status. All of its output came before.
    End(usize, i32),
    /// The kernel of this guest complained, with these words.
    Complaint(usize, String),
    /// This guest ended by itself.
    Died(usize),
    /// Nothing happened until the deadline.
    Late,
}

/// Guests that run the same steps: one, or two with a cable between them.
#[derive(Debug)]
pub(crate) struct Guests {
    all: Vec<Guest>,
    heard: Receiver<(usize, Port, Option<Vec<u8>>)>,
    ready: VecDeque<Heard>,
    /// Holds the sockets and the image for as long as the guests run.
    _folder: Folder,
}

#[derive(Debug)]
struct Guest {
    child: Child,
    log: KernelLog,
    cutters: [Cutter; 2],
    /// The end of a step that one of its two ports has brought.
    half: Option<String>,
    gone: bool,
}

impl Guests {
    /// Starts `count` guests with these contents.
    pub(crate) fn start(
        kernel: &Kernel,
        machine: &Machine,
        contents: &Contents,
        count: usize,
    ) -> Result<Self, Failure> {
        needs::machine(machine.rdma)?;
        let folder = Folder::new()?;
        let image = folder.path().join("initramfs");
        image::pack(contents, &image)?;
        let (send, heard) = mpsc::channel();
        let mut all = Vec::new();
        for number in 0..count {
            let nonce = nonce(number);
            let command = machine::command(kernel, machine, folder.path(), (number, count), &nonce);
            all.push(Guest::start(command, folder.path(), number, &nonce, &send)?);
        }
        Ok(Self {
            all,
            heard,
            ready: VecDeque::new(),
            _folder: folder,
        })
    }

    /// Waits for the next thing to happen, at most until `deadline`.
    pub(crate) fn next(&mut self, deadline: Instant) -> Heard {
        loop {
            if let Some(heard) = self.ready.pop_front() {
                return heard;
            }
            for (number, guest) in self.all.iter().enumerate() {
                if let Some(words) = guest.log.complaint() {
                    return Heard::Complaint(number, words.to_owned());
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Heard::Late;
            }
            // A complaint is reported a little later, when the rest of its text is there.
            let unwell = self.all.iter().any(|guest| guest.log.is_unwell());
            let left = if unwell {
                left.min(Duration::from_millis(100))
            } else {
                left
            };
            match self.heard.recv_timeout(left) {
                Ok((number, port, bytes)) => self.take(number, port, bytes),
                Err(RecvTimeoutError::Timeout) => {}
                // Every port of every guest has ended, which was reported.
                Err(RecvTimeoutError::Disconnected) => return Heard::Died(0),
            }
        }
    }

    /// Takes in what a port brought. `None` is the end of the port.
    fn take(&mut self, number: usize, port: Port, bytes: Option<Vec<u8>>) {
        let Some(guest) = self.all.get_mut(number) else {
            return;
        };
        let Some(bytes) = bytes else {
            // The console is closed last, when QEMU ends.
            if port == Port::Console && !guest.gone {
                guest.gone = true;
                let died = match guest.log.last_word() {
                    Some(words) => Heard::Complaint(number, words.to_owned()),
                    None => Heard::Died(number),
                };
                self.ready.push_back(died);
            }
            let cutter = match port {
                Port::Out => &mut guest.cutters[0],
                Port::Err => &mut guest.cutters[1],
                Port::Console => return,
            };
            let rest = cutter.rest();
            if !rest.is_empty() {
                self.ready.push_back(Heard::Output(number, port, rest));
            }
            return;
        };
        let cutter = match port {
            Port::Console => return guest.log.feed(&bytes),
            Port::Out => &mut guest.cutters[0],
            Port::Err => &mut guest.cutters[1],
        };
        for said in cutter.feed(&bytes) {
            let heard = match said {
                Said::Output(bytes) => Heard::Output(number, port, bytes),
                Said::Begin(_) => Heard::Begin,
                Said::End(name, status) if guest.half.as_ref() == Some(&name) => {
                    guest.half = None;
                    Heard::End(number, status)
                }
                Said::End(name, _) => {
                    guest.half = Some(name);
                    continue;
                }
            };
            self.ready.push_back(heard);
        }
    }

    /// The first complaint of a kernel while the step of this name ran, however fresh.
    pub(crate) fn complaint_in(&mut self, step: &str) -> Option<(usize, String)> {
        while let Ok((number, port, bytes)) = self.heard.try_recv() {
            self.take(number, port, bytes);
        }
        let words = |guest: &Guest| guest.log.complaint_in(step).map(str::to_owned);
        let mut all = self.all.iter().enumerate();
        all.find_map(|(number, guest)| Some((number, words(guest)?)))
    }

    /// Forgets the complaint of this guest's kernel, which was expected. The next one counts anew.
    pub(crate) fn pardon(&mut self, number: usize) {
        if let Some(guest) = self.all.get_mut(number) {
            guest.log.pardon();
        }
    }

    /// Everything that the kernel of this guest has printed.
    pub(crate) fn console(&self, number: usize) -> &[String] {
        self.all.get(number).map_or(&[], |guest| guest.log.lines())
    }
}

impl Guest {
    fn start(
        mut command: Command,
        folder: &Path,
        number: usize,
        nonce: &str,
        send: &Sender<(usize, Port, Option<Vec<u8>>)>,
    ) -> Result<Self, Failure> {
        let mut listeners = Vec::new();
        for (port, name) in PORTS {
            let path = folder.join(format!("{name}{number}"));
            let listener =
                UnixListener::bind(&path).map_err(|why| Failure::file("make", &path, why))?;
            listeners.push((port, listener));
        }
        let starting = interrupt::may_start();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| Failure::Start {
                command: "qemu-system-x86_64".to_owned(),
                source,
            })?;
        drop(starting);
        for (port, listener) in listeners {
            let send = send.clone();
            if let Err(failure) = accept(&listener, &mut child).map(|stream| {
                thread::spawn(move || forward(stream, number, port, &send));
            }) {
                // It may have ended already, so that there was no connection.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failure);
            }
        }
        Ok(Self {
            child,
            log: KernelLog::default(),
            cutters: [Cutter::new(nonce), Cutter::new(nonce)],
            half: None,
            gone: false,
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended by itself. Either way nothing of it is left afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// QEMU connects its ports as soon as it starts. If it ends instead, its own words say why.
fn accept(listener: &UnixListener, child: &mut Child) -> Result<UnixStream, Failure> {
    let broken = |why: std::io::Error| Failure::Start {
        command: "qemu-system-x86_64".to_owned(),
        source: why,
    };
    listener.set_nonblocking(true).map_err(broken)?;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(broken)?;
                return Ok(stream);
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            Err(why) => return Err(broken(why)),
        }
        let ended = child.try_wait().map_err(broken)?;
        if ended.is_some() || Instant::now() > deadline {
            let mut words = String::new();
            if ended.is_some()
                && let Some(mut stream) = child.stderr.take()
            {
                // Without its words the text is shorter.
                let _ = stream.read_to_string(&mut words);
            }
            return Err(Failure::Missing(format!(
                "QEMU does not start a guest here: {}",
                words.trim()
            )));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn forward(
    mut stream: impl Read,
    number: usize,
    port: Port,
    send: &Sender<(usize, Port, Option<Vec<u8>>)>,
) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let bytes = match stream.read(&mut buffer) {
            Ok(0) => None,
            Ok(count) => Some(buffer[..count].to_vec()),
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            Err(_) => None,
        };
        let end = bytes.is_none();
        if send.send((number, port, bytes)).is_err() || end {
            return;
        }
    }
}

/// A word that no program in the guest prints by chance.
fn nonce(number: usize) -> String {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    format!("{:x}-{:x}-{number}", now.as_nanos(), std::process::id())
}
