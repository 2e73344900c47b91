//! What an operator has done with a session: a reset, and routes told again. Knows no call.

use weft_bgp::message::RouteRefresh;
use weft_bgp::message::notification::Cease;
use weft_bgp::session::Input;

use super::Peer;
use super::joining::Why;

/// What is to be done with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// End it by a Cease, Administrative Reset, RFC 4486, and begin again; or begin now, where a new one has to wait.
    Reset,
    /// Have the peer tell its routes again, RFC 2918.
    RefreshIn,
    /// Tell the peer all routes again.
    RefreshOut,
}

/// Why it is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no established session.
    NotEstablished,
    /// The peer does not have the capability ROUTE-REFRESH.
    NotCapable,
}

impl Peer {
    pub(super) async fn obey(&mut self, command: Command) -> Result<(), Refused> {
        let peer = self.setup.address;
        if command == Command::Reset && self.waits().is_some() {
            tracing::warn!(%peer, "wait for a new session ended by an operator");
            self.begin_again().await;
            return Ok(());
        }
        let up = self.up.as_ref().ok_or(Refused::NotEstablished)?;
        let able = up.negotiated.route_refresh;
        let families = up.negotiated.families.clone();
        match command {
            Command::Reset => {
                tracing::warn!(%peer, "session reset by an operator");
                self.pause = None;
                self.input(Input::Stop(Cease::Reset)).await;
                self.input(Input::Start).await;
            }
            Command::RefreshIn if !able => return Err(Refused::NotCapable),
            Command::RefreshIn => {
                tracing::info!(%peer, "routes asked for again by an operator");
                for family in families {
                    self.ask_again(RouteRefresh::request(family));
                }
            }
            Command::RefreshOut => {
                tracing::info!(%peer, "routes told again by an operator");
                for family in families {
                    self.want(family, Why::Again, 0);
                }
            }
        }
        Ok(())
    }
}
