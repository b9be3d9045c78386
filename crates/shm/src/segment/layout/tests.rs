//! Properties of the layout.

use proptest::prelude::*;

use super::*;

/// Every area of the shared part, in order.
fn shared_areas(geometry: &Geometry) -> Vec<Area> {
    let shape = geometry.shape();
    let mut all = vec![Area {
        offset: SLEEP_OFFSET,
        len: LINE,
    }];
    all.extend((0..shape.probe_words).filter_map(|i| geometry.probe_word(i)));
    all.extend([geometry.staging_flags(), geometry.loan_flags()]);
    all.push(geometry.shared_ring());
    all.extend((0..shape.private_rings).filter_map(|i| geometry.private_ring(i)));
    all.push(geometry.staging());
    all
}

/// Every area of the owner's part, in order.
fn owner_areas(geometry: &Geometry) -> Vec<Area> {
    let line = |offset| Area { offset, len: LINE };
    vec![
        Area {
            offset: 0,
            len: crate::segment::header::HEADER_BYTES,
        },
        line(STATUS_OFFSET),
        line(ACCESS_OFFSET),
        geometry.split_in(),
        geometry.split_out(),
        geometry.regions(),
    ]
}

fn power(range: std::ops::RangeInclusive<u32>) -> impl Strategy<Value = u32> {
    range.prop_map(|exponent| 1 << exponent)
}

prop_compose! {
    fn shapes()(
        shared_slots in power(3..=16),
        private_rings in 0_u32..=1024,
        ring_bytes in power(12..=24),
        staging_buffers in 0_u32..=4096,
        staging_buffer_bytes in power(12..=24),
        regions in 0_u32..=65536,
        split_copies in 0_u32..=4096,
        probe_words in 0_u32..=4096,
    ) -> Shape {
        Shape {
            shared_slots, private_rings, ring_bytes, staging_buffers,
            staging_buffer_bytes, regions, split_copies, probe_words,
        }
    }
}

/// Every area lies in its part, on even lines, and none in another.
fn check(geometry: &Geometry) {
    let shape = geometry.shape();
    let parts = [
        (shared_areas(geometry), geometry.shared_bytes()),
        (owner_areas(geometry), geometry.owner_bytes()),
    ];
    for (areas, bytes) in parts {
        let mut end = 0;
        for area in areas {
            assert!(area.offset % LINE == 0 && area.len % LINE == 0, "{shape:?}");
            assert!(area.offset >= end, "{shape:?}");
            end = area.offset + area.len;
        }
        assert!(end <= bytes, "{shape:?}");
    }
    assert!((geometry.bytes() as u64) < MAX_SEGMENT_BYTES, "{shape:?}");
    assert_eq!(geometry.private_ring(shape.private_rings), None);
    let staging = u64::from(shape.staging_buffers) * u64::from(shape.staging_buffer_bytes);
    assert_eq!(geometry.staging().len as u64, staging);
    assert_eq!(
        u64::from(shape.staging_pages()) * u64::from(STAGING_PAGE),
        staging
    );
    assert_eq!(geometry.probe_word(u32::MAX), None);
}

/// All shapes whose numbers lie at the ends of what is allowed, or just beyond.
#[test]
fn the_ends_of_all_ranges_are_laid_out_or_refused() {
    let least_and_most = [
        (8, 1 << 16),
        (0, 1024),
        (4096, 1 << 24),
        (0, 4096),
        (4096, 1 << 24),
        (0, 65536),
        (0, 4096),
        (0, 4096),
    ];
    // Each in turn: the least, twice that or one, the most, and one beyond either.
    let choices = least_and_most.map(|(least, most): (u32, u32)| {
        [
            least,
            (2 * least).max(1),
            most,
            most + 1,
            least.wrapping_sub(1),
        ]
    });
    let mut laid_out = 0;
    for number in 0..5_usize.pow(8) {
        let picked: [usize; 8] = std::array::from_fn(|at| number / 5_usize.pow(at as u32) % 5);
        let shape: [u32; 8] = std::array::from_fn(|at| choices[at][picked[at]]);
        let is_allowed = picked.iter().all(|choice| *choice < 3);
        match Geometry::new(Shape::from_array(shape)) {
            Ok(geometry) => {
                assert!(is_allowed, "{shape:?}");
                laid_out += 1;
                check(&geometry);
            }
            Err(error) => assert_eq!(is_allowed, error.field == "the sum of all areas"),
        }
    }
    assert!(laid_out > 1000, "{laid_out}");
}

proptest! {
    #[test]
    fn areas_are_aligned_apart_and_inside(shape in shapes()) {
        match Geometry::new(shape) {
            Err(error) => prop_assert_eq!(error.field, "the sum of all areas"),
            Ok(geometry) => check(&geometry),
        }
    }

    #[test]
    fn any_numbers_are_checked_without_panic(fields: [u32; 8]) {
        let _ = Geometry::new(Shape::from_array(fields));
        prop_assert_eq!(Shape::from_array(fields).to_array(), fields);
    }
}

#[test]
fn control_lines_of_private_rings_fall_into_different_sets() {
    // 64 sets of 64 bytes: what a first-level cache of 4 KiB ways has.
    let sets: std::collections::HashSet<usize> = (0..16)
        .filter_map(|i| Geometry::DEFAULT.private_ring(i))
        .map(|area| area.offset / LINE % 64)
        .collect();
    assert_eq!(sets.len(), 16);
}
