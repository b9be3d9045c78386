//! What the patterns of the adapter stand on: a domain, and links between ranks.

use std::sync::Arc;
use std::time::Duration;

use limic_ibverbs::VerbsError;
use limic_ibverbs::objects::{Context, Port, PortSettings, ProtectionDomain, devices};
use limic_measure::MeasureError;
use limic_measure::control::Control;

use crate::staging::{CARD_LEN, Link, LinkCard, LinkError};

/// How long a request may take before the measurement ends with an error.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open device with a port.
#[derive(Debug)]
pub(super) struct Rail {
    pub(super) domain: Arc<ProtectionDomain>,
    pub(super) port: Port,
}

impl Rail {
    /// Bytes of memory on the adapter.
    pub(super) fn device_memory(&self) -> u64 {
        self.domain.context().limits().device_memory
    }

    /// What to say about its memory.
    pub(super) fn says(&self) -> String {
        let name = self.domain.context().name();
        match self.device_memory() {
            0 => format!(
                "{name} has no device memory (max_dm_size is 0): everything here lies in host memory, moved by the code that \
                 device memory would take; limic model device-memory calculates what such memory would be worth"
            ),
            bytes => format!("{name} has {bytes} bytes of device memory"),
        }
    }

    /// An end of a link.
    pub(super) fn link(&self) -> Result<Link, MeasureError> {
        Link::new(&self.domain, self.port, PATIENCE).map_err(verbs)
    }

    /// A link of this process with itself: both ends.
    pub(super) fn loopback(&self) -> Result<[Link; 2], MeasureError> {
        let mut ends = [self.link()?, self.link()?];
        let cards = [ends[0].card(), ends[1].card()];
        for (end, card) in ends.iter_mut().zip(cards.iter().rev()) {
            end.connect(card).map_err(verbs)?;
        }
        Ok(ends)
    }
}

/// Every device with an active port, at most two; at least one.
pub(super) fn rails() -> Result<Vec<Rail>, MeasureError> {
    let mut rails = Vec::new();
    let mut why = Vec::new();
    for device in devices().map_err(verbs)? {
        let opened = Context::open(&device).and_then(|context| {
            let port = context.first_port(&PortSettings::default())?;
            let domain = ProtectionDomain::new(&context)?;
            Ok(Rail { domain, port })
        });
        match opened {
            Ok(rail) => rails.push(rail),
            Err(error) => why.push(format!("{}: {error}", device.name)),
        }
        if rails.len() == 2 {
            break;
        }
    }
    if rails.is_empty() {
        return Err(MeasureError::Nothing(why.join("; ")));
    }
    Ok(rails)
}

/// An error of the adapter.
pub(super) fn verbs(error: VerbsError) -> MeasureError {
    MeasureError::Nothing(error.to_string())
}

/// An error of a link.
pub(super) fn link(error: LinkError) -> MeasureError {
    MeasureError::Nothing(error.to_string())
}

/// Collective: links to every other rank over a rail, by rank; none to oneself.
pub(super) fn mesh(rail: &Rail, control: &Control) -> Result<Vec<Option<Link>>, MeasureError> {
    let (rank, size) = (control.rank(), control.size());
    let mut links = Vec::new();
    for other in 0..size {
        links.push((other != rank).then(|| rail.link()).transpose()?);
    }
    let mut theirs = Vec::new();
    for to in 0..size {
        let mine = links[to as usize]
            .as_ref()
            .map_or([0; CARD_LEN], |link| link.card().to_bytes());
        let cards = gather(control, &mine)?;
        if to == rank {
            theirs = cards;
        }
    }
    for (link, card) in links.iter_mut().zip(&theirs) {
        if let Some(link) = link {
            link.connect(&LinkCard::from_bytes(card)).map_err(verbs)?;
        }
    }
    // Nobody writes before the other end is ready.
    barrier(control)?;
    Ok(links)
}

/// Collective: everybody's bytes.
pub(super) fn gather<const N: usize>(
    control: &Control,
    mine: &[u8; N],
) -> Result<Vec<[u8; N]>, MeasureError> {
    control.gather(mine).map_err(|source| MeasureError::Rank {
        rank: control.rank(),
        source,
    })
}

/// Collective.
pub(super) fn barrier(control: &Control) -> Result<(), MeasureError> {
    control.barrier().map_err(|source| MeasureError::Rank {
        rank: control.rank(),
        source,
    })
}
