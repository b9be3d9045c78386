//! Where the kernel puts an endpoint's segment: tried out with one of the same shape.

use std::fmt;

use limic::settings::{ByteSize, Settings};
use limic::topology::Place;
use limic_shm::segment::{Geometry, Grant, OwnSegment, Placement as Wanted, Shape};

/// What was asked of the kernel for a segment, and what came of it.
#[derive(Debug, serde::Serialize)]
pub(super) struct Placement {
    /// Bytes of an endpoint's segment.
    pub(super) segment_bytes: Option<u64>,
    /// The NUMA node that was asked for.
    pub(super) wanted_numa_node: Option<u32>,
    pub(super) numa_node: String,
    pub(super) huge_pages: String,
    /// Bytes that lie in huge pages.
    pub(super) huge_bytes: Option<u64>,
    pub(super) populated: String,
    /// Why no segment can be made at all.
    pub(super) error: Option<String>,
}

impl Placement {
    /// Makes a segment as an endpoint does, and looks at it.
    pub(super) fn try_out(settings: &Settings) -> Self {
        let wanted = Wanted {
            numa_node: settings
                .numa_node()
                .or_else(|| Place::current().numa_node()),
            huge_pages: settings.huge_pages(),
        };
        let segment = settings.segment();
        let shape = Shape {
            shared_slots: segment.shared_slots,
            private_rings: segment.private_rings,
            ring_bytes: segment.ring_bytes,
            staging_buffers: segment.staging_buffers,
            staging_buffer_bytes: segment.staging_buffer_bytes,
            ..Shape::DEFAULT
        };
        let made = Geometry::new(shape)
            .map_err(|error| error.to_string())
            .and_then(|geometry| {
                let segment = OwnSegment::create(geometry, wanted);
                segment.map_err(|error| error.to_string())
            });
        match made {
            Ok(segment) => {
                let granted = segment.granted();
                Self {
                    segment_bytes: Some(segment.geometry().bytes() as u64),
                    wanted_numa_node: wanted.numa_node,
                    numa_node: granted.numa_node.to_string(),
                    huge_pages: granted.huge_pages.to_string(),
                    huge_bytes: segment.huge_bytes().ok(),
                    populated: granted.populated.to_string(),
                    error: None,
                }
            }
            Err(error) => Self {
                segment_bytes: None,
                wanted_numa_node: wanted.numa_node,
                numa_node: Grant::NotAsked.to_string(),
                huge_pages: Grant::NotAsked.to_string(),
                huge_bytes: None,
                populated: Grant::NotAsked.to_string(),
                error: Some(error),
            },
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = &self.error {
            return writeln!(f, "no segment can be made: {error}");
        }
        let bytes = self.segment_bytes.unwrap_or(0);
        writeln!(f, "segment of an endpoint: {} KiB", bytes.div_ceil(1024))?;
        match self.wanted_numa_node {
            Some(node) => writeln!(f, "NUMA node {node}: {}", self.numa_node)?,
            None => writeln!(f, "NUMA node: {}", self.numa_node)?,
        }
        write!(f, "huge pages: {}", self.huge_pages)?;
        if let Some(bytes) = self.huge_bytes {
            write!(f, "; {} in huge pages now", ByteSize(bytes))?;
        }
        writeln!(f)?;
        writeln!(f, "page table filled beforehand: {}", self.populated)
    }
}
