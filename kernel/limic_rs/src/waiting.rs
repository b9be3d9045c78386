// SPDX-License-Identifier: GPL-2.0

//! Waiting for requests and events, for those who do not look at the mapped memory.

use crate::abi;
use crate::counters::{Event, count};
use crate::request::Requests;
use crate::session::Session;
use kernel::prelude::*;
use kernel::time::Jiffies;
use kernel::uaccess::{UserPtr, UserSlice};

/// Nanoseconds as clock ticks, rounded up; a time that is too long to be told from for ever is
/// taken as half of it.
fn ticks(nanoseconds: i64) -> Option<Jiffies> {
    let milliseconds = u64::try_from(nanoseconds).ok()?.div_ceil(1_000_000);
    let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX / 2);
    Some(kernel::time::msecs_to_jiffies(milliseconds))
}

fn over(requests: &Requests, slots: &[u32]) -> u32 {
    let done = slots.iter().filter(|&&slot| {
        let request = requests.get(slot);
        request.is_some_and(|request| !request.is_pending())
    });
    done.count() as u32
}

impl Session {
    /// `LIMIC_IOC_WAIT`
    #[inline(never)]
    pub(crate) fn wait(&self, arg: &mut abi::Wait) -> Result {
        abi::check(
            arg.flags,
            abi::WAIT_ARRIVAL | abi::WAIT_DEPARTURE,
            &arg.reserved,
        )?;
        let requests = self.requests()?;
        if arg.nr > abi::MAX_WAIT || arg.min > arg.nr {
            return Err(EINVAL);
        }
        let count_slots = arg.nr as usize;
        let mut slots = KVec::with_capacity(count_slots, GFP_KERNEL_ACCOUNT)?;
        let list = UserPtr::from_addr(arg.slots as usize);
        let mut reader = UserSlice::new(list, count_slots * size_of::<u32>()).reader();
        for _ in 0..count_slots {
            let slot = reader.read::<u32>()?;
            if requests.get(slot).is_none() {
                return Err(EINVAL);
            }
            slots.push(slot, GFP_KERNEL_ACCOUNT)?;
        }
        let events = &requests.events;
        events.clear_news();
        let (arrivals, departures) = (arg.arrivals, arg.departures);
        let ready = || {
            let done = over(requests, &slots);
            let enough = arg.min > 0 && done >= arg.min;
            let arrived = arg.flags & abi::WAIT_ARRIVAL != 0 && events.arrivals() != arrivals;
            let departed =
                arg.flags & abi::WAIT_DEPARTURE != 0 && events.departures() != departures;
            (enough || arrived || departed || events.ended()).then_some(())
        };
        // The lock of the events is not needed if it is so already.
        if ready().is_none() && arg.timeout_ns != 0 {
            count(Event::Slept, 1);
            events.sleep(ticks(arg.timeout_ns), ready)?;
        }
        arg.done = over(requests, &slots);
        arg.arrivals = events.arrivals();
        arg.departures = events.departures();
        Ok(())
    }
}
