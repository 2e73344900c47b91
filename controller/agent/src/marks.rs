//! Packet marks: what leaves through a VXLAN device gets the mark that the agent's rule asks for, by
//! an nftables table of the bridge family. Knows nothing of routes.
//!
//! ```text
//! table bridge weft {
//!   set vxlan { type ifname; flags timeout; }        # each device for one second, renewed while the agent lives
//!   # Pinned packets: by device, source and destination; by device and the port of the bridge that they came by.
//!   map sources4 { type ifname . ipv4_addr . ipv4_addr : verdict; }
//!   map interfaces { type ifname . ifname : verdict; }
//!   chain forward {
//!     type filter hook forward priority 100; policy accept;
//!     oifname @vxlan oifname . iifname vmap @interfaces
//!   }
//!   chain postrouting {
//!     type filter hook postrouting priority 100; policy accept;
//!     oifname @vxlan meta mark and MASK != MARK counter meta mark set mark and ~MASK or MARK
//!     oifname @vxlan oifname . ip saddr . ip daddr vmap @sources4
//!   }
//!   chain pin1 { meta mark set mark and ~MASK or MARK1 }
//! }
//! ```
//!
//! There are more maps: of both families, with and without source, destination, and protocol and source port. What says most of a
//! packet is looked up first: a pin's chain is gone to, so that what is found first decides. Only what the bridge forwards is known
//! to have come by a port; what other maps find decides over that.
//!
//! VXLAN caches its route to each VTEP for packets without a mark, so that weights would move
//! nothing. And whatever becomes of the agent and of its guardian, the kernel itself ends the marking
//! a second after the last renewal: without the mark the rule matches nothing.
//!
//! `nft` may be slow or hang, so that a task of its own talks to it. The task renews the marks when the
//! agent asks for it and never by itself: an agent that hangs does not go on marking.
//!
//! Now and then the task has `nft` list the table, which counts packets of pins, and is compared with what was written: if another
//! hand changed it, all of it is written anew in one transaction.
//!
//! A table that is put anew has its pins from the first packet on: weights and pins are one transaction, so that no packet of a pin
//! goes by the weights in between. A table is put
//!
//! - when packets are to be marked that were not: at the start, after a pause, and after a failure;
//! - when a renewal is refused, because another hand deleted the table or its set, or flushed the ruleset;
//! - when `nft -i` ends, or does not answer in time, though the table may be as it was;
//! - when the table was to be written anew, since another hand ended the marking, and that failed.
//!
//! Only where `nft` does not take weights and pins together, the weights come alone, and the pins as soon as it takes them. An agent
//! that is started knows no pins before a client programs them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

pub use self::listed::Count;
use self::listed::{Changed, Listed, Reading};
use self::pinned::Pinned;
use crate::forwarding::kernel::Numbers;
use crate::forwarding::{Link, Pin, Pins, Slot};

mod listed;
mod pinned;

/// The marks of one switch. One task.
#[derive(Debug)]
pub struct Marks {
    wanted: watch::Sender<Wanted>,
    reports: watch::Receiver<Report>,
    pinned: watch::Receiver<Pinning>,
    counted: watch::Receiver<Counted>,
    task: JoinHandle<()>,
}

/// What was counted of each pin.
pub type Counted = BTreeMap<Pin, Count>;

/// What is to be marked.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// Devices, for one second from now on; None: nothing is to be marked.
    devices: Option<BTreeSet<String>>,
    /// Packets that get the mark of a pin, and the number under which they are asked for.
    pins: Arc<Pins>,
    number: u64,
}

/// What became of the pins that were asked for under a number. Each attempt is told of.
#[derive(Clone, Debug)]
struct Pinning {
    number: u64,
    outcome: Result<(), String>,
}

/// What became of the marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Nothing is to be marked.
    Off,
    /// Packets are marked.
    On,
    /// Packets are marked again after this went wrong.
    Restored(String),
    /// Packets are not marked, for this reason.
    Failed(String),
}

impl Marks {
    /// Starts the task. Nothing is marked yet.
    #[must_use]
    pub fn start(numbers: Numbers) -> Self {
        let (wanted, asked) = watch::channel(Wanted::default());
        let (outcomes, reports) = watch::channel(Report::Off);
        let (number, outcome) = (0, Ok(()));
        let (marked, pinned) = watch::channel(Pinning { number, outcome });
        let (counts, counted) = watch::channel(Counted::default());
        let table = Table {
            numbers,
            nft: None,
            pinned: Pinned::default(),
            reading: Reading::default(),
            changed: None,
            restored: None,
        };
        let told = Told {
            reports: outcomes,
            pinned: marked,
            counted: counts,
        };
        let task = tokio::spawn(keep(table, asked, told));
        Self {
            wanted,
            reports,
            pinned,
            counted,
            task,
        }
    }

    /// Asks for the VXLAN devices among these links to be marked for one second from now on.
    pub fn renew(&self, links: &[Link]) {
        self.wanted
            .send_modify(|wanted| wanted.devices = Some(devices(links)));
    }

    /// Asks for these packets to be marked for pins, and no others, while their devices are.
    pub fn pin(&self, number: u64, pins: Pins) {
        self.wanted.send_modify(|wanted| {
            wanted.pins = Arc::new(pins);
            wanted.number = number;
        });
    }

    /// Asks for the table to be removed.
    pub fn stop(&self) {
        self.wanted
            .send_if_modified(|wanted| wanted.devices.take().is_some());
    }

    /// Returns, after each attempt, the number of the pins that were asked for, and whether their packets are marked. May be
    /// dropped and called again.
    pub async fn pinned(&mut self) -> (u64, Result<(), String>) {
        match self.pinned.changed().await {
            Ok(()) => {
                let Pinning { number, outcome } = self.pinned.borrow_and_update().clone();
                (number, outcome)
            }
            Err(_) => std::future::pending().await,
        }
    }

    /// Packets of each pin, if they were counted since this was asked last.
    pub fn counted(&mut self) -> Option<Counted> {
        let counted = self.counted.has_changed().unwrap_or(false);
        counted.then(|| self.counted.borrow_and_update().clone())
    }

    /// What became of the marks since this was asked last; None: nothing new.
    pub fn report(&mut self) -> Option<Report> {
        match self.reports.has_changed() {
            Ok(true) => Some(self.reports.borrow_and_update().clone()),
            Ok(false) => None,
            Err(_) => Some(Report::Failed(
                "the task that renews the marks ended".to_owned(),
            )),
        }
    }

    /// Removes the table and ends the task.
    pub async fn end(self) {
        let Self { wanted, task, .. } = self;
        drop(wanted);
        if timeout(END_MAX, task).await.is_err() {
            tracing::warn!("nft does not answer; the kernel ends the marking");
        }
    }
}

/// Does what is wanted until nobody is left who wants something. Pins are written, and the table is read, beside the renewals,
/// which wait for nothing.
async fn keep(mut table: Table, mut wanted: watch::Receiver<Wanted>, told: Told) {
    let mut pause = 0;
    let mut read = interval(READ_EVERY);
    loop {
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { break },
            (number, outcome) = table.pinned.written() => {
                let outcome = table.written(outcome);
                told.pinned.send_replace(Pinning { number, outcome });
            }
            listed = table.reading.listed() => {
                if let Some(listed) = listed {
                    told.counted.send_replace(table.compare(&listed));
                }
                continue;
            }
            _ = read.tick() => {
                table.reading.is_due();
                continue;
            }
        }
        let Wanted {
            devices,
            pins,
            number,
        } = wanted.borrow_and_update().clone();
        let report = match &devices {
            None => {
                table.remove().await;
                pause = 0;
                Report::Off
            }
            Some(_) if pause > 0 => {
                pause -= 1;
                continue;
            }
            Some(devices) => table.renew(devices, &pins).await,
        };
        let outcome = match &report {
            Report::Off if pins.is_empty() => {
                told.counts_nothing();
                Some(Ok(()))
            }
            Report::Off => Some(Err("nothing is marked".to_owned())),
            Report::Failed(why) => Some(Err(why.clone())),
            Report::On | Report::Restored(_) => {
                table.pin(number, &pins, &devices.unwrap_or_default())
            }
        };
        if matches!(report, Report::Failed(_)) {
            pause = PAUSE;
        }
        told.tell(report, number, outcome);
    }
    table.remove().await;
}

/// Who is told what became of what is wanted.
struct Told {
    reports: watch::Sender<Report>,
    pinned: watch::Sender<Pinning>,
    counted: watch::Sender<Counted>,
}

impl Told {
    /// No packets of pins are counted any more.
    fn counts_nothing(&self) {
        self.counted.send_if_modified(|counted| {
            let news = !counted.is_empty();
            counted.clear();
            news
        });
    }

    /// Tells what is new.
    fn tell(&self, report: Report, number: u64, outcome: Option<Result<(), String>>) {
        if let Some(outcome) = outcome {
            let attempted = matches!(report, Report::Failed(_));
            self.pinned.send_if_modified(|last| {
                let changed = last.number != number || last.outcome != outcome;
                *last = Pinning { number, outcome };
                changed || attempted
            });
        }
        self.reports.send_if_modified(|last| {
            let same = match (&*last, &report) {
                (Report::On | Report::Restored(_), Report::On) => true,
                (last, report) => last == report && *report == Report::Off,
            };
            if !same {
                *last = report;
            }
            !same
        });
    }
}

/// The nftables table.
struct Table {
    numbers: Numbers,
    /// None while nothing is marked.
    nft: Option<Interactive>,
    /// Pins in the table.
    pinned: Pinned,
    /// Reads the table while it is settled.
    reading: Reading,
    /// What another hand changed, until everything is written anew.
    changed: Option<Changed>,
    /// What another hand changed, after that and until it is told of.
    restored: Option<String>,
}

impl Table {
    /// Renews the devices; puts the table first, with these pins, if it is not there, or is not there any more.
    async fn renew(&mut self, devices: &BTreeSet<String>, pins: &Arc<Pins>) -> Report {
        let mut refused = self.restored.take();
        if let Some(nft) = &mut self.nft {
            if nft.renewed >= RENEWALS_MAX
                && let Ok(another) = Interactive::start()
            {
                *nft = another;
            }
            match nft.renew(devices).await {
                Ok(()) => return refused.map_or(Report::On, Report::Restored),
                Err(why) => refused = Some(why),
            }
            self.nft = None;
        }
        let marked = refused.is_some();
        match (self.put(devices, pins, marked).await, refused) {
            (Ok(nft), None) => {
                self.nft = Some(nft);
                Report::On
            }
            (Ok(nft), Some(why)) => {
                self.nft = Some(nft);
                Report::Restored(why)
            }
            (Err(why), _) => Report::Failed(why),
        }
    }

    /// Puts the table with these pins. Where packets were marked until now, they are from the same moment on; elsewhere nothing is
    /// marked before a renewal works.
    async fn put(
        &mut self,
        devices: &BTreeSet<String>,
        pins: &Arc<Pins>,
        marked: bool,
    ) -> Result<Interactive, String> {
        self.forget().await;
        let none = BTreeSet::new();
        let at_once = if marked { devices } else { &none };
        self.pinned.put(pins, at_once, self.numbers).await?;
        let mut nft = Interactive::start()?;
        nft.renew(devices).await?;
        Ok(nft)
    }

    /// Removes the table. One that is not there is removed already.
    async fn remove(&mut self) {
        self.nft = None;
        self.restored = None;
        self.forget().await;
        remove().await;
    }

    /// Ends what is on its way, for the table goes.
    async fn forget(&mut self) {
        self.reading.stop();
        self.changed = None;
        self.pinned.end().await;
    }

    /// Brings the maps to these pins, and reads the table if that is due, one after the other. As [`Pinned::write`] answers.
    fn pin(
        &mut self,
        number: u64,
        pins: &Arc<Pins>,
        devices: &BTreeSet<String>,
    ) -> Option<Result<(), String>> {
        let outcome = self.pinned.write(number, pins, devices, self.numbers);
        match self.pinned.is_settled() {
            true => self.reading.begin(),
            false => self.reading.stop(),
        }
        outcome
    }

    /// Compares what was written with what is there. Packets of each pin.
    fn compare(&mut self, listed: &Listed) -> Counted {
        self.changed = listed.changed(&self.pinned.expected(self.numbers));
        match self.changed {
            Some(_) => self.pinned.distrust(),
            None => self.pinned.learn(listed),
        }
        self.pinned.counted(listed)
    }

    /// Takes what became of a transaction. If it was to mend what another hand changed, that is told of with the next renewal; if it
    /// failed and weights are not marked, that puts the table, without pins if need be.
    fn written(&mut self, outcome: Result<(), String>) -> Result<(), String> {
        let Some(Changed { what, weights }) = self.changed.take() else {
            return outcome;
        };
        match outcome {
            Ok(()) => {
                self.restored = Some(what);
                Ok(())
            }
            Err(why) => {
                let text = format!("{what}; {why}");
                match weights {
                    true => {
                        self.restored = Some(what);
                        self.nft = None;
                    }
                    false => self.changed = Some(Changed { what, weights }),
                }
                Err(text)
            }
        }
    }
}

/// `nft -i`, which takes a transaction a line.
struct Interactive {
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
    /// Renewals so far.
    renewed: u32,
    /// Killed when this is dropped.
    _child: Child,
}

impl Interactive {
    fn start() -> Result<Self, String> {
        let spawned = Command::new("nft")
            .arg("-i")
            // Where it finds no file, it keeps no history of its lines over its end.
            .env("HOME", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = spawned.map_err(|error| format!("nft: {error}"))?;
        let stdin = child.stdin.take().ok_or("nft has no standard input")?;
        let stdout = child.stdout.take().ok_or("nft has no standard output")?;
        let stderr = child.stderr.take().ok_or("nft has no standard error")?;
        Ok(Self {
            stdin,
            stdout: BufReader::new(stdout).lines(),
            stderr: BufReader::new(stderr).lines(),
            renewed: 0,
            _child: child,
        })
    }

    /// Renews the devices and waits until the kernel has them.
    async fn renew(&mut self, devices: &BTreeSet<String>) -> Result<(), String> {
        let line = renewal(devices);
        self.renewed += 1;
        let answer = async {
            let ended = |_| "nft ended".to_owned();
            self.stdin.write_all(line.as_bytes()).await.map_err(ended)?;
            loop {
                // An error is written before the answer that follows it.
                tokio::select! {
                    biased;
                    line = self.stderr.next_line() => match line.map_err(ended)? {
                        Some(text) if text.contains("Error") => return Err(format!("nft: {text}")),
                        Some(_) => {}
                        None => return Err("nft ended".to_owned()),
                    },
                    line = self.stdout.next_line() => match line.map_err(ended)?.as_deref() {
                        Some(LISTED) => return Ok(()),
                        Some(_) => {}
                        None => return Err("nft ended".to_owned()),
                    },
                }
            }
        };
        let answer = timeout(ANSWER_MAX, answer).await;
        answer.unwrap_or_else(|_| Err(SILENT.to_owned()))
    }
}

/// Removes the table of marks, whoever put it.
pub async fn remove() {
    if let Err(error) = run("add table bridge weft; delete table bridge weft").await {
        tracing::debug!(%error, "nftables table bridge weft");
    }
}

async fn run(commands: &str) -> Result<(), String> {
    let child = Command::new("nft")
        // All in one transaction, however much it is.
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // One that hangs does not stay behind.
        .kill_on_drop(true)
        .spawn();
    let failed = |error: io::Error| format!("nft: {error}");
    let output = async {
        let mut child = child?;
        if let Some(mut stdin) = child.stdin.take() {
            // One that ends early says why.
            let _ended = stdin.write_all(commands.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = timeout(ANSWER_MAX, output)
        .await
        .map_err(|_| SILENT.to_owned())?
        .map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().next().unwrap_or("no reason given");
    Err(format!("nft: {line}"))
}

/// Renewals of one `nft -i`, which keeps a history of all that it was told: some 40 minutes, 200 kB.
const RENEWALS_MAX: u32 = 10_000;

/// Commands that add the table, with these devices for a second.
fn table(devices: &BTreeSet<String>, numbers: Numbers) -> String {
    let mut table = format!(
        "add table bridge weft; \
         add set bridge weft vxlan {{ type ifname; flags timeout; }}; \
         add chain bridge weft postrouting {{ type filter hook postrouting priority 100; policy accept; }}; \
         add rule bridge weft postrouting oifname @vxlan {}counter {}",
        unmarked(numbers),
        set_mark(numbers, Slot::WEIGHTS)
    );
    if let Some(elements) = elements(devices) {
        table += &format!("; {elements}");
    }
    // nft wants the end of the line.
    table + "\n"
}

/// What a packet is not yet: one that a pin of the port by which it came has marked. Without slots there are no pins.
fn unmarked(numbers: Numbers) -> String {
    let (mark, mask) = numbers.mark_of(Slot::WEIGHTS);
    match numbers.has_slots() {
        true => format!("meta mark and {mask:#x} != {mark:#x} "),
        false => String::new(),
    }
}

/// What sets the mark of a slot. Other bits of the mark stay as they are.
fn set_mark(numbers: Numbers, slot: Slot) -> String {
    let (mark, _) = numbers.mark_of(slot);
    let others = !numbers.bits();
    format!("meta mark set mark and {others:#x} or {mark:#x}")
}

/// A transaction, and a request to list what it led to, which is the answer.
fn renewal(devices: &BTreeSet<String>) -> String {
    let mut line = "flush set bridge weft vxlan".to_owned();
    if let Some(elements) = elements(devices) {
        line += &format!("; {elements}");
    }
    line + "\nlist set bridge weft vxlan\n"
}

/// A command that adds devices for a second; None: there are none.
fn elements(devices: &BTreeSet<String>) -> Option<String> {
    let elements: Vec<String> = devices
        .iter()
        .map(|name| format!("\"{name}\" timeout {TIMEOUT_MS}ms"))
        .collect();
    let elements = elements.join(", ");
    (!devices.is_empty()).then(|| format!("add element bridge weft vxlan {{ {elements} }}"))
}

/// VXLAN devices by name. Names that nftables cannot read are left out: nobody gives such.
fn devices(links: &[Link]) -> BTreeSet<String> {
    let vxlan = links.iter().filter(|link| link.vxlan && link.is_plain());
    vxlan.map(|link| link.name.clone()).collect()
}

/// The last line of what `nft` lists.
const LISTED: &str = "}";

const SILENT: &str = "nft does not answer";

/// A second after the agent's last renewal the kernel marks nothing any more.
const TIMEOUT_MS: u32 = 1_000;

/// `nft` is a transaction with the kernel; on a busy switch it may have to wait.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// A renewal, a table that is put with pins and then without them, its first renewal and the removal: each may take its time.
const END_MAX: Duration = Duration::from_secs(10);

/// How long what another hand changed may last, where no renewal finds it; a look costs an `nft`.
const READ_EVERY: Duration = Duration::from_secs(5);

/// Renewals that are left out after one that failed, four a second: the next one may fail in the same way.
const PAUSE: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, vxlan: bool) -> Link {
        Link {
            index: 1,
            name: name.into(),
            up: true,
            addresses: Vec::new(),
            vxlan,
            vni: None,
            tx_octets: 0,
            rx_octets: 0,
        }
    }

    #[test]
    fn vxlan_devices_are_renewed_in_one_transaction_and_listed() {
        let links = [
            link("eth1", false),
            link("vxlan200", true),
            link("vxlan100", true),
        ];
        assert_eq!(
            renewal(&devices(&links)),
            "flush set bridge weft vxlan; add element bridge weft vxlan \
             { \"vxlan100\" timeout 1000ms, \"vxlan200\" timeout 1000ms }\n\
             list set bridge weft vxlan\n"
        );
        assert_eq!(
            renewal(&devices(&links[..1])),
            "flush set bridge weft vxlan\nlist set bridge weft vxlan\n"
        );
    }

    #[test]
    fn a_name_cannot_speak_to_nftables() {
        let links = [link("x\" } ; flush", true), link("v*", true)];
        assert!(devices(&links).is_empty());
    }

    #[test]
    fn other_bits_of_a_mark_stay() {
        let (none, numbers) = (BTreeSet::new(), Numbers::default());
        assert!(table(&none, numbers).contains("meta mark set mark and 0xffff or 0x57000000"));
        let tight = Numbers {
            mark: 0x57,
            mask: 0xff,
            ..numbers
        };
        assert!(table(&none, tight).ends_with("meta mark set mark and 0xffffff00 or 0x57\n"));
    }
}
