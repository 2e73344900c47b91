//! Packet marks: what leaves through a VXLAN device gets the mark that the agent's rule asks for, by
//! an nftables table of the bridge family. Knows nothing of routes.
//!
//! ```text
//! table bridge weft {
//!   set vxlan { type ifname; flags timeout; }        # each device for one second, renewed while the agent lives
//!   chain postrouting {
//!     type filter hook postrouting priority 100; policy accept;
//!     oifname @vxlan counter meta mark set mark and ~MASK or MARK
//!   }
//! }
//! ```
//!
//! VXLAN caches its route to each VTEP for packets without a mark, so that weights would move
//! nothing. And whatever becomes of the agent and of its guardian, the kernel itself ends the marking
//! a second after the last renewal: without the mark the rule matches nothing.

use std::collections::BTreeSet;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::forwarding::Link;

/// The marks of one switch.
#[derive(Debug)]
pub struct Marks {
    mark: u32,
    mask: u32,
    /// `nft -i`, which takes a transaction a line; None while nothing is marked.
    nft: Option<(Child, ChildStdin)>,
}

impl Marks {
    /// Nothing is marked yet.
    #[must_use]
    pub fn new(mark: u32, mask: u32) -> Self {
        let nft = None;
        Self { mark, mask, nft }
    }

    /// Whether the table was put and not removed since.
    #[must_use]
    pub fn are_on(&self) -> bool {
        self.nft.is_some()
    }

    /// Marks what leaves through these devices for one second from now on.
    ///
    /// # Errors
    ///
    /// Why nothing is marked, for a person: there is no `nft`, or the kernel refuses.
    pub async fn renew(&mut self, links: &[Link]) -> Result<(), String> {
        if self.nft.is_none() {
            self.put().await?;
        }
        let Some((_, stdin)) = &mut self.nft else {
            return Ok(());
        };
        let line = renewal(&devices(links));
        let written = timeout(ANSWER_MAX, stdin.write_all(line.as_bytes())).await;
        if !matches!(written, Ok(Ok(()))) {
            // Put anew at the next renewal.
            self.nft = None;
            return Err("nft ended".into());
        }
        Ok(())
    }

    /// Puts the table again if somebody removed it.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew).
    pub async fn check(&mut self) -> Result<(), String> {
        if self.are_on() && run("list table bridge weft").await.is_err() {
            self.nft = None;
            tracing::warn!("nftables table bridge weft was gone and is put back");
            self.put().await?;
        }
        Ok(())
    }

    /// Removes the table. One that is not there is removed already.
    pub async fn remove(&mut self) {
        self.nft = None;
        remove().await;
    }

    async fn put(&mut self) -> Result<(), String> {
        // "add" first: what is not there cannot be deleted.
        run(&format!(
            "add table bridge weft; delete table bridge weft; {}",
            table(self.mark, self.mask)
        ))
        .await?;
        let spawned = Command::new("nft")
            .arg("-i")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let mut child = spawned.map_err(|error| format!("nft: {error}"))?;
        let stdin = child.stdin.take().ok_or("nft has no standard input")?;
        self.nft = Some((child, stdin));
        Ok(())
    }
}

/// Removes the table of marks, whoever put it.
pub async fn remove() {
    if let Err(error) = run("add table bridge weft; delete table bridge weft").await {
        tracing::debug!(%error, "nftables table bridge weft");
    }
}

async fn run(commands: &str) -> Result<(), String> {
    let output = timeout(ANSWER_MAX, Command::new("nft").arg(commands).output())
        .await
        .map_err(|_| "nft does not answer".to_owned())?
        .map_err(|error: io::Error| format!("nft: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().next().unwrap_or("no reason given");
    Err(format!("nft: {line}"))
}

fn table(mark: u32, mask: u32) -> String {
    let others = !mask;
    format!(
        "add table bridge weft; \
         add set bridge weft vxlan {{ type ifname; flags timeout; }}; \
         add chain bridge weft postrouting {{ type filter hook postrouting priority 100; policy accept; }}; \
         add rule bridge weft postrouting oifname @vxlan counter meta mark set mark and {others:#x} or {mark:#x}"
    )
}

fn renewal(devices: &BTreeSet<&str>) -> String {
    let elements: Vec<String> = devices
        .iter()
        .map(|name| format!("\"{name}\" timeout {TIMEOUT_MS}ms"))
        .collect();
    let mut line = "flush set bridge weft vxlan".to_owned();
    if !elements.is_empty() {
        line += &format!(
            "; add element bridge weft vxlan {{ {} }}",
            elements.join(", ")
        );
    }
    line.push('\n');
    line
}

/// VXLAN devices by name. Names that nftables cannot read are left out: nobody gives such.
fn devices(links: &[Link]) -> BTreeSet<&str> {
    let plain = |name: &&str| {
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\' | '*');
        !name.contains(odd)
    };
    let vxlan = links.iter().filter(|link| link.vxlan);
    vxlan.map(|link| link.name.as_str()).filter(plain).collect()
}

/// A second after the agent's last word the kernel marks nothing any more.
const TIMEOUT_MS: u32 = 1_000;

/// `nft` is a transaction with the kernel; on a busy switch it may have to wait.
const ANSWER_MAX: Duration = Duration::from_secs(2);

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
            tx_octets: 0,
            rx_octets: 0,
        }
    }

    #[test]
    fn vxlan_devices_are_renewed_in_one_transaction() {
        let links = [
            link("eth1", false),
            link("vxlan200", true),
            link("vxlan100", true),
        ];
        assert_eq!(
            renewal(&devices(&links)),
            "flush set bridge weft vxlan; add element bridge weft vxlan \
             { \"vxlan100\" timeout 1000ms, \"vxlan200\" timeout 1000ms }\n"
        );
        assert_eq!(
            renewal(&devices(&links[..1])),
            "flush set bridge weft vxlan\n"
        );
    }

    #[test]
    fn a_name_cannot_speak_to_nftables() {
        let links = [link("x\" } ; flush", true), link("v*", true)];
        assert!(devices(&links).is_empty());
    }

    #[test]
    fn other_bits_of_a_mark_stay() {
        let table = table(0x5700_0000, 0xff00_0000);
        assert!(table.ends_with("meta mark set mark and 0xffffff or 0x57000000"));
    }
}
