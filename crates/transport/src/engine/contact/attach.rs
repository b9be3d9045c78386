//! The segment of a peer is mapped, and what the pair can do is found out.

use std::os::fd::AsFd;

use limic_copy::RemoteProcess;
use limic_policy::select::LONGEST_EAGER;
use limic_policy::{Capabilities, Path};
use limic_shm::control::PeerDoorbell;
use limic_shm::ring::shared::SharedProducer;
use limic_shm::ring::wakeup::Waker;
use limic_shm::ring::{PackedFlags, ReleaseFlags};
use limic_shm::segment::{LOAN_FLAGS, PeerSegment};
use limic_topology::CpuSet;

use crate::counters::Event;
use crate::engine::control::{counting, locality, spins};
use crate::engine::cx::Cx;
use crate::engine::peer::copies::SingleCopy;
use crate::engine::peer::greeting::{Greeting, Pending};
use crate::engine::peer::pair::{MappedPeer, ShmPair};
use crate::engine::peer::table::{Channel, PeerState};

/// Why the segment of a peer is not mapped.
pub(crate) struct Unmapped {
    pub(crate) why: String,
    /// This process is short of something, and may not be for long.
    pub(crate) is_temporary: bool,
}

impl Unmapped {
    /// The peer has handed over what is not as it has to be.
    fn wrong(why: impl ToString) -> Self {
        Self {
            why: why.to_string(),
            is_temporary: false,
        }
    }
}

/// Maps and checks what came with a greeting, and changes nothing here. Nothing is mapped if the
/// two have met over another connection, since both made the first contact at once: this one only
/// watches.
///
/// # Errors
/// [`Unmapped`].
pub(crate) fn map(cx: &mut Cx, peer: u32, pending: &mut Pending) -> Result<(), Unmapped> {
    match cx.peers.get(peer).map(|entry| &entry.state) {
        Some(PeerState::Unmet { .. }) if pending.mapped.is_some() => return Ok(()),
        Some(PeerState::Unmet { .. }) => {}
        Some(PeerState::Failed(why)) => {
            let why = format!("this endpoint has given the peer up: {why}");
            return Err(Unmapped::wrong(why));
        }
        Some(PeerState::Up(_)) | None => {
            pending.mapped = None;
            return Ok(());
        }
    }
    let [shared, owner, _doorbell] = &pending.fds[..] else {
        return Err(Unmapped::wrong(
            "the greeting came with other descriptors than it should",
        ));
    };
    let greeting = &pending.greeting;
    let segment = PeerSegment::attach([shared.as_fd(), owner.as_fd()], Some(greeting.epoch));
    let segment = segment.map_err(|error| Unmapped {
        why: error.to_string(),
        is_temporary: error.is_temporary(),
    })?;
    let shape = segment.shape();
    let producer = SharedProducer::new(segment.shared_ring(), shape.shared_slots, greeting.number)
        .map_err(Unmapped::wrong)?;
    let waker = Waker::new(segment.sleep(), cx.wakeup.fence()).map_err(Unmapped::wrong)?;
    let released = ReleaseFlags::new(segment.staging_flags(), shape.staging_pages())
        .map_err(Unmapped::wrong)?;
    let loans_released =
        PackedFlags::new(segment.loan_flags(), LOAN_FLAGS).map_err(Unmapped::wrong)?;
    // Nothing after this fails, so that the descriptor is not missed.
    let doorbell = PeerDoorbell::from_fd(pending.fds.swap_remove(2)).map_err(Unmapped::wrong)?;
    pending.fds.clear();
    pending.mapped = Some(Box::new(MappedPeer {
        segment,
        doorbell,
        producer,
        waker,
        released,
        loans_released,
    }));
    Ok(())
}

/// Makes the pair out of what was mapped: from here on the two talk to each other.
pub(crate) fn attach(cx: &mut Cx, peer: u32, index: u32, greeting: &Greeting, mapped: MappedPeer) {
    let copies = single_copy(cx, peer, index, greeting);
    let counts = counting::assign_row(cx, peer);
    cx.counters.event(Event::Attached);
    let same_process = greeting.process == limic_copy::same_process::identity();
    let place = (!same_process).then_some(greeting.place);
    let buffer_bytes = cx.staging.buffer_bytes;
    let pair = ShmPair::new(mapped, greeting.number, place, copies, counts, buffer_bytes);
    // A connection before this one may have been put off.
    cx.quarantine.leave(peer);
    cx.peers.up(peer, Channel::Shm(Box::new(pair)));
    locality::update_routes(cx, peer);
    let process = cx.sockets.pid_of(index);
    cx.peers
        .neighbours
        .runs_on(process, CpuSet::allowed_to(process).as_ref());
    spins::update_spins(cx);
    if cx.identity.place.has_moved() {
        // Perhaps since the greeting was written.
        locality::announce_place(cx, peer);
    }
}

/// The backends of single copy between this endpoint and a peer, and what the pair can do with
/// them.
fn single_copy(
    cx: &mut Cx,
    peer: u32,
    index: u32,
    greeting: &Greeting,
) -> (SingleCopy, Capabilities) {
    let allowed = cx.settings.allowed();
    let mut capabilities = Capabilities {
        paths: allowed,
        max_eager: LONGEST_EAGER,
    };
    let cma = if !allowed.contains(Path::Cma) && !allowed.contains(Path::SplitCopy) {
        RemoteProcess::none("switched off by the settings")
    } else {
        let mut probe = greeting.probe;
        probe.pid = cx.sockets.pid_of(index);
        RemoteProcess::probe(probe)
    };
    if let Some(why) = cma.refusal() {
        if allowed.contains(Path::Cma) {
            tracing::info!("cma to peer {peer}: {why}; using pipeline");
            cx.counters.reason(Some(Path::Cma), peer, why);
        }
        capabilities.demote(Path::Cma);
        capabilities.demote(Path::SplitCopy);
    }
    let kmod = cx.transfers.kmod.pair(greeting.kmod);
    if let Some(why) = kmod.refusal() {
        // A machine without the module is nothing to speak of.
        tracing::debug!("kmod to peer {peer}: {why}");
        capabilities.demote(Path::Kmod);
    }
    let same_process = greeting.process == limic_copy::same_process::identity();
    if !same_process {
        capabilities.demote(Path::SameProcess);
    }
    let same_process = same_process && allowed.contains(Path::SameProcess);
    (SingleCopy::new(cma, kmod, same_process), capabilities)
}
