//! Times of the hot paths beside that of a loop of the core's own: a store that a load has to wait
//! for shows there, and in no count of instructions.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use limic_runner::{Failure, Job, Summary};

use crate::committed::{Figures, Kind};

/// Times in steps of the loop. The tolerance is less than what a stall adds to a short message, and
/// more than the least times of a round differ by.
const STALLS: Kind = Kind {
    unit: "steps",
    command: "stalls",
    tolerance: 0.35,
};

/// The loop that is slower if somebody else has a part of the core.
const WORK: &str = "work";

/// Processes that are timed at most. What makes a time longer by chance, such as a neighbour or
/// where stack and heap lie, is another thing in each.
const ROUNDS: usize = 100;
const BETWEEN: Duration = Duration::from_millis(100);

/// The committed file: the times of one operation, by the processor to which they belong.
type Committed = BTreeMap<String, Figures>;

/// Times, shows the comparison, and fails if a hot path has become slower. With `update` it writes
/// the times down as the committed ones of this processor instead.
pub(crate) fn run(update: bool, summary: &mut Summary) -> Result<(), Failure> {
    let here = processor();
    if update {
        let steps = least(|_| false)?;
        print!("{}", STALLS.table(None, &steps));
        let mut committed = match STALLS.is_committed() {
            true => STALLS.read()?,
            false => Committed::new(),
        };
        committed.insert(here, steps);
        return STALLS.write(&committed);
    }
    let committed: Committed = STALLS.read()?;
    let Some(steps) = committed.get(&here) else {
        let known: Vec<&str> = committed.keys().map(String::as_str).collect();
        summary.skip_check(&format!(
            "stalls: the committed times are those of {}; this is {here}, for its own: {}",
            known.join("; "),
            STALLS.update()
        ));
        return Ok(());
    };
    let above = |now: &Figures, case: &str| {
        let both = steps.get(case).zip(now.get(case));
        both.is_some_and(|(was, is)| STALLS.above(*was, *is))
    };
    let now = least(|now| !steps.keys().any(|case| above(now, case)))?;
    print!("{}", STALLS.table(Some(steps), &now));
    if above(&now, WORK) {
        summary.skip_check("stalls: somebody else had a part of the core all the time");
        return Ok(());
    }
    STALLS.judge(steps, &now)?;
    summary.pass();
    Ok(())
}

/// The least times, until they are `enough` or the rounds are over.
fn least(enough: impl Fn(&Figures) -> bool) -> Result<Figures, Failure> {
    let program = STALLS.build()?;
    let mut least = Figures::new();
    for _ in 0..ROUNDS {
        time(&program, &mut least)?;
        if enough(&least) {
            break;
        }
        sleep(BETWEEN);
    }
    Ok(least)
}

/// Times all cases in a process of their own, and keeps what is less than before.
fn time(program: &Path, least: &mut Figures) -> Result<(), Failure> {
    let program = Job::new(program, 1);
    let command = program.shown().to_owned();
    let printed = program
        .capture_quietly()
        .ok_or_else(|| Failure::Missing(format!("`{command}` failed; alone it says why")))?;
    for line in printed.lines() {
        let time = line.split_once(": ");
        let time = time.and_then(|(case, steps)| Some((case, steps.parse::<f64>().ok()?)));
        let Some((case, steps)) = time else {
            let why = format!("no case with its steps: {line}");
            return Err(Failure::Unreadable { command, why });
        };
        let was = least.entry(case.to_owned()).or_insert(steps);
        *was = was.min(steps);
    }
    Ok(())
}

/// Vendor, family and model: names in virtual machines say less.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        let line = lines.find(|(field, _)| field.trim() == name);
        line.map_or("?", |(_, value)| value.trim())
    };
    let [vendor, family, model] = ["vendor_id", "cpu family", "model"].map(field);
    format!("{vendor}, family {family}, model {model}")
}
