//! Who may write: session parameters and the election, gRIBI specification §4.1. Knows nothing of
//! entries. One instance per agent.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_proto::gribi::modify_rpc_error_details::Reason;
use weft_proto::gribi::session_parameters::{
    AftPersistence, AftResultStatusType, ClientRedundancy,
};
use weft_proto::gribi::{SessionParameters, Uint128};

use crate::refusal::Refusal;

/// A `Modify` stream. Later streams have higher numbers.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u64);

/// An election id. For weft: cluster incarnation, Raft term.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElectionId {
    /// Compared first.
    pub high: u64,
    /// Compared second.
    pub low: u64,
}

impl From<&Uint128> for ElectionId {
    fn from(id: &Uint128) -> Self {
        Self {
            high: id.high,
            low: id.low,
        }
    }
}

impl From<ElectionId> for Uint128 {
    fn from(id: ElectionId) -> Self {
        Self {
            high: id.high,
            low: id.low,
        }
    }
}

impl ElectionId {
    /// What no client may use.
    pub const ZERO: Self = Self { high: 0, low: 0 };
}

/// Which acknowledgement a client asked for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// When the RIB has it.
    Rib,
    /// When the kernel has it.
    RibAndFib,
}

#[derive(Clone, Debug, Default)]
struct Session {
    acknowledge: Option<Acknowledge>,
    election: Option<ElectionId>,
    address: String,
    received: Duration,
}

/// All streams and the highest id.
#[derive(Clone, Debug, Default)]
pub struct Election {
    sessions: BTreeMap<Client, Session>,
    /// Survives a disconnect, §4.1.2.1, for as long as the lease of who sent it: an id whose holder
    /// is silent keeps nobody out for longer.
    highest: Option<ElectionId>,
    primary: Option<Client>,
    /// Address of the client that sent the highest id.
    holder: String,
    lease: Duration,
    /// When the lease of the primary ends, or of the last one.
    until: Duration,
}

impl Election {
    /// Nobody leads. Whoever is silent for the lease is not there any more.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self {
            lease,
            ..Self::default()
        }
    }

    /// A stream begins.
    pub fn open(&mut self, client: Client, address: String, uptime: Duration) {
        let session = Session {
            address,
            received: uptime,
            ..Session::default()
        };
        self.sessions.insert(client, session);
    }

    /// A stream says something: its lease, and the primary's, begins anew.
    pub fn receive(&mut self, client: Client, uptime: Duration) {
        if let Some(session) = self.sessions.get_mut(&client) {
            session.received = uptime;
        }
        if self.primary == Some(client) {
            self.until = uptime + self.lease;
        }
    }

    /// Every stream that is open.
    #[must_use]
    pub fn clients(&self) -> Vec<Client> {
        self.sessions.keys().copied().collect()
    }

    /// The streams that were silent for the lease.
    #[must_use]
    pub fn silent(&self, uptime: Duration) -> Vec<Client> {
        let sessions = self.sessions.iter();
        let silent = sessions.filter(|(_, session)| uptime >= session.received + self.lease);
        silent.map(|(client, _)| *client).collect()
    }

    /// Whether the lease of who led is over now: the highest id is forgotten then.
    pub fn lapse(&mut self, uptime: Duration) -> bool {
        let over = self.highest.is_some() && uptime >= self.until;
        if over {
            self.highest = None;
            self.primary = None;
        }
        over
    }

    /// Who leads.
    #[must_use]
    pub fn primary(&self) -> Option<Client> {
        self.primary
    }

    /// The address of a stream's other end.
    #[must_use]
    pub fn address(&self, client: Client) -> &str {
        let session = self.sessions.get(&client);
        session.map_or("", |session| &session.address)
    }

    /// What is left of the lease of who leads, or led last.
    #[must_use]
    pub fn remaining(&self, uptime: Duration) -> Duration {
        self.until.saturating_sub(uptime)
    }

    /// A stream is over. What it wrote stays for its lease, and so does the highest id (PRESERVE).
    pub fn close(&mut self, client: Client) {
        self.sessions.remove(&client);
        if self.primary == Some(client) {
            self.primary = None;
        }
    }

    /// Whether the stream is open.
    #[must_use]
    pub fn knows(&self, client: Client) -> bool {
        self.sessions.contains_key(&client)
    }

    /// The highest id that any client has sent.
    #[must_use]
    pub fn highest(&self) -> Option<ElectionId> {
        self.highest
    }

    /// Session parameters of a stream.
    ///
    /// # Errors
    ///
    /// The stream ends: the parameters are sent a second time, are not supported, or differ from those of another stream of the same
    /// address.
    pub fn parameters(&mut self, client: Client, given: &SessionParameters) -> Result<(), Refusal> {
        let acknowledge = supported(given)?;
        let own = host(self.address(client));
        let others = self.sessions.iter().filter(|(other, _)| **other != client);
        // gribi.proto: every client must send the same values. A stream of another address may differ, and each is answered as it
        // asked. Otherwise the first client would lock out all later ones.
        let differs = others
            .filter(|(_, session)| host(&session.address) == own)
            .filter_map(|(_, session)| session.acknowledge)
            .any(|other| other != acknowledge);
        let Some(session) = self.sessions.get_mut(&client) else {
            return Ok(());
        };
        if session.acknowledge.is_some() {
            return Err(Refusal::failed(
                Reason::ModifyNotAllowed,
                "session parameters came twice",
            ));
        }
        if differs {
            let text = "another client has other session parameters";
            return Err(Refusal::failed(Reason::ParamsDifferFromOtherClients, text));
        }
        session.acknowledge = Some(acknowledge);
        Ok(())
    }

    /// A client states its id; returns the highest. Equal to the highest makes the newer statement
    /// primary, so that a client can reconnect without an election. Lower than this stream's last one
    /// changes nothing: operations still have to carry that one.
    ///
    /// # Errors
    ///
    /// What ends the stream: zero, or no single-primary session.
    pub fn elect(
        &mut self,
        client: Client,
        id: ElectionId,
        uptime: Duration,
    ) -> Result<ElectionId, Refusal> {
        let Some(session) = self.sessions.get_mut(&client) else {
            return Ok(id);
        };
        if id == ElectionId::ZERO {
            return Err(Refusal::invalid("the election id is zero"));
        }
        if session.acknowledge.is_none() {
            let text = "an election id without session parameters, which default to ALL_PRIMARY";
            return Err(Refusal::failed(Reason::ElectionIdInAllPrimary, text));
        }
        // §4.1.2: an id only grows within a stream. A lower one is passed over, as the compliance suite asks.
        if let Some(before) = session.election.filter(|before| id < *before) {
            return Ok(self.highest.unwrap_or(before));
        }
        session.election = Some(id);
        if self.highest.is_none_or(|highest| id >= highest) {
            self.highest = Some(id);
            self.primary = Some(client);
            self.holder.clone_from(&session.address);
            self.until = uptime + self.lease;
        }
        Ok(self.highest.unwrap_or(id))
    }

    /// Which acknowledgement an operation of this client gets.
    ///
    /// # Errors
    ///
    /// What ends the stream: operations under the default parameters, which are not supported.
    pub fn acknowledge(&self, client: Client) -> Result<Acknowledge, Refusal> {
        let session = self.sessions.get(&client);
        session.and_then(|session| session.acknowledge).ok_or_else(|| {
            let text = "the default session parameters are not supported: send SINGLE_PRIMARY and PRESERVE";
            Refusal::unimplemented(Reason::UnsupportedParams, text)
        })
    }

    /// Whether this operation may be acted upon.
    ///
    /// # Errors
    ///
    /// What the client is told with FAILED. The stream stays open.
    pub fn admit(&self, client: Client, id: Option<ElectionId>) -> Result<(), String> {
        let advertised = self
            .sessions
            .get(&client)
            .and_then(|session| session.election);
        match (advertised, id) {
            (None, _) => Err("no election id was advertised on this stream".into()),
            (Some(_), None) => Err("the operation has no election id".into()),
            (Some(advertised), Some(id)) if advertised != id => {
                Err("the election id is not the one advertised on this stream".into())
            }
            (Some(_), Some(_)) if self.primary != Some(client) => {
                Err("not primary: another client has this election id or a higher one".into())
            }
            (Some(_), Some(_)) => Ok(()),
        }
    }

    /// Whether a `Flush` with this id may be acted upon: as in `elect`, without a session.
    #[must_use]
    pub fn may_flush(&self, id: ElectionId) -> bool {
        self.highest.is_none_or(|highest| id >= highest)
    }

    /// Returns true if a `Flush` with override is accepted: it comes from the address of the primary client, or of the last one, or
    /// there was none.
    #[must_use]
    pub fn may_override(&self, address: &str) -> bool {
        self.highest.is_none() || host(address) == host(&self.holder)
    }
}

/// An address without its port.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn supported(given: &SessionParameters) -> Result<Acknowledge, Refusal> {
    let redundancy = ClientRedundancy::try_from(given.redundancy);
    let persistence = AftPersistence::try_from(given.persistence);
    let text = match (redundancy, persistence) {
        (Ok(ClientRedundancy::SinglePrimary), Ok(AftPersistence::Preserve)) => {
            match AftResultStatusType::try_from(given.ack_type) {
                Ok(AftResultStatusType::RibAck) => return Ok(Acknowledge::Rib),
                Ok(AftResultStatusType::RibAndFibAck) => return Ok(Acknowledge::RibAndFib),
                Err(_) => "unknown acknowledgement type",
            }
        }
        (Ok(ClientRedundancy::SinglePrimary), _) => "only PRESERVE is supported",
        (_, _) => "only SINGLE_PRIMARY is supported",
    };
    Err(Refusal::unimplemented(Reason::UnsupportedParams, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(ack_type: AftResultStatusType) -> SessionParameters {
        SessionParameters {
            redundancy: ClientRedundancy::SinglePrimary.into(),
            persistence: AftPersistence::Preserve.into(),
            ack_type: ack_type.into(),
        }
    }

    #[test]
    fn another_acknowledgement_type_of_another_address_locks_nobody_out() {
        let mut election = Election::new(Duration::from_secs(5));
        let (thief, weft, twin) = (Client(1), Client(2), Client(3));
        for (client, address) in [
            (thief, "192.0.2.9:40000"),
            (weft, "192.0.2.1:40000"),
            (twin, "192.0.2.1:40001"),
        ] {
            election.open(client, address.to_owned(), Duration::ZERO);
        }
        let (rib, fib) = (
            parameters(AftResultStatusType::RibAck),
            parameters(AftResultStatusType::RibAndFibAck),
        );
        let id = |low| ElectionId { high: 1, low };
        assert_eq!(election.parameters(thief, &rib), Ok(()));
        assert_eq!(election.elect(thief, id(1), Duration::ZERO), Ok(id(1)));
        assert_eq!(election.parameters(weft, &fib), Ok(()));
        assert_eq!(election.elect(weft, id(2), Duration::ZERO), Ok(id(2)));
        assert_eq!(election.primary(), Some(weft));
        assert_eq!(election.acknowledge(thief), Ok(Acknowledge::Rib));
        assert_eq!(election.acknowledge(weft), Ok(Acknowledge::RibAndFib));
        // Of one address they are the same.
        assert!(election.parameters(twin, &rib).is_err());
    }
}
