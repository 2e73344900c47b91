//! What operators are shown of what peers say: whatever a peer calls itself, it reaches no terminal raw.

use std::{collections::BTreeSet, fs, net::Ipv4Addr, time::Instant};

use serde_json::Value;

use super::{REPLICAS, table::Counts, witness};
use crate::{
    check::Checks,
    failure::{Context, Failure},
    lab::Lab,
};

/// No octet in what `weft` prints of the peers, or in the replicas' logs, would move a cursor. `named`: peers
/// that said something of themselves, each with the replica that heard it.
pub(super) fn plainly(
    lab: &Lab,
    named: &[(Ipv4Addr, Ipv4Addr)],
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    let mut wrong = Vec::new();
    let mut octets = 0;
    for ((name, replica), (_, client)) in REPLICAS.into_iter().zip(witness::clients(lab)?) {
        let heard = named.iter().filter(|(_, by)| *by == replica);
        let peers: Vec<String> = heard.map(|(peer, _)| peer.to_string()).collect();
        let shown = peers.iter().map(|peer| vec!["peer", "show", peer.as_str()]);
        for question in shown.chain([vec!["peer", "list"]]) {
            let text = client.text(&question)?;
            octets += text.len();
            let asked = question.join(" ");
            wrong.extend(raw(text.as_bytes()).map(|line| format!("{asked} at {name}: {line}")));
        }
    }
    for (name, _) in REPLICAS {
        let folder = lab.folder().join(name);
        let files = fs::read_dir(&folder).context(|| folder.display().to_string())?;
        let logs = files.flatten().map(|file| file.path());
        for log in logs.filter(|path| path.extension().is_some_and(|kind| kind == "log")) {
            let text = fs::read(&log).context(|| log.display().to_string())?;
            octets += text.len();
            wrong.extend(raw(&text).map(|line| format!("{}: {line}", log.display())));
        }
    }
    let verdict = match wrong.is_empty() {
        true => Ok(format!("{octets} octets")),
        false => Err(wrong.join("\n")),
    };
    checks.record("nothing that peers said is printed raw", start, verdict);
    Ok(())
}

/// What is suspect of a peer, and which limits came near, `weft peer show` says as it is counted. `counted`: peers, each
/// with the replica that it dialed and what that is to count.
pub(super) fn of_counts(
    lab: &Lab,
    counted: &[(Ipv4Addr, Ipv4Addr, &Counts)],
    checks: &mut Checks,
) -> Result<(), Failure> {
    let start = Instant::now();
    let mut wrong = Vec::new();
    let mut asked = 0;
    for ((_, replica), (_, client)) in REPLICAS.into_iter().zip(witness::clients(lab)?) {
        for (peer, to, counts) in counted {
            let expected = told(counts);
            if *to != replica || expected.is_empty() {
                continue;
            }
            asked += 1;
            let shown = match client.answer(&["peer", "show", &peer.to_string()]) {
                Ok(shown) => shown,
                Err(Failure::Interrupted) => return Err(Failure::Interrupted),
                // It is not known any more: then nothing is told of it.
                Err(Failure::Said(_)) => Value::Null,
            };
            let detail = &shown["detail"];
            let suspect = detail["suspect"].as_object().into_iter().flatten();
            let suspect = suspect.map(|(rule, count)| format!("suspect {rule}: {count}"));
            let near = detail["near_limits"].as_array().into_iter().flatten();
            let near = near.filter_map(|line| Some(format!("near {}: 1", line.as_str()?)));
            let actual: BTreeSet<String> = suspect.chain(near).collect();
            if actual != expected {
                wrong.push(format!(
                    "expected: {peer} with {expected:?}\nactual:   {actual:?}"
                ));
            }
        }
    }
    let verdict = match wrong.is_empty() {
        true => Ok(format!("of {asked} peers")),
        false => Err(wrong.join("\n")),
    };
    checks.record(
        "weft peer show tells what is suspect and near",
        start,
        verdict,
    );
    Ok(())
}

/// Of what is counted, what a person is to be told.
fn told(counts: &Counts) -> BTreeSet<String> {
    let told = counts
        .iter()
        .filter(|(name, _)| name.starts_with("suspect ") || name.starts_with("near "));
    told.map(|(name, count)| format!("{name}: {count}"))
        .collect()
}

/// Lines with an octet that is no text, escaped.
fn raw(text: &[u8]) -> impl Iterator<Item = String> {
    let lines = text.split(|octet| *octet == b'\n');
    lines
        .filter(|line| match std::str::from_utf8(line) {
            Ok(line) => line.chars().any(|c| c.is_control() && c != '\t'),
            Err(_) => true,
        })
        .map(|line| line.escape_ascii().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_cursor_is_raw() {
        let lines: Vec<_> = raw(b"plain\ttext \xc3\xa9\n\x1b[2J\nbad \xff\nend").collect();
        assert_eq!(lines, ["\\x1b[2J", "bad \\xff"]);
    }
}
