//! The file that callgrind writes, with one part for each call that was counted.

/// Name and instructions of each part that the program asked for, in order.
pub(super) fn cases(dumps: &str) -> impl Iterator<Item = (String, u64)> {
    let mut case = None;
    dumps.lines().filter_map(move |line| {
        if let Some(trigger) = line.strip_prefix("desc: Trigger: ") {
            // The last part has no request: it is the rest of the program.
            case = trigger.strip_prefix("Client Request: ").map(str::to_owned);
            return None;
        }
        let instructions = line.strip_prefix("summary: ")?;
        Some((case.take()?, instructions.trim().parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn parts_with_a_name_are_cases() {
        let dumps = "\
# callgrind format
part: 1
desc: Timerange: Basic block 0 - 12
desc: Trigger: Client Request: send 8
events: Ir
summary: 2639

fn=(1) main
12 2639
totals: 2639
desc: Trigger: Client Request: send 8
summary: 2640
desc: Trigger: Program termination
summary: 999
";
        let cases: Vec<_> = super::cases(dumps).collect();
        let wanted = [("send 8".to_owned(), 2639), ("send 8".to_owned(), 2640)];
        assert_eq!(cases, wanted);
    }
}
