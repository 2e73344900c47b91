//! What fuzzers found worth keeping, said to live replicas: each input as an UPDATE. Those that end no session are all
//! said in one; each of the others ends one, by the NOTIFICATION that it deserves. Which is which the codec says: here
//! nobody knows what is wrong with any of them.

use std::{
    collections::BTreeSet,
    fmt::Write,
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    path::Path,
    time::{Duration, Instant},
};

use bytes::BytesMut;
use weft_bgp::{
    capability::AddPathSet,
    family::Family,
    frame,
    message::{DecodeContext, Message, MessageKind},
    nlri::{self, Nlri, route_target::Membership, unicast::Prefix4},
};
use weft_evpn::Route;

use super::{
    REPLICAS, ROGUE, SOON,
    table::Table,
    voice::{KEEPALIVE, NOTIFICATION, Voice},
    witness,
};
use crate::{
    check::Checks,
    clock,
    failure::{Context, Failure},
    lab::Lab,
    programs,
};

/// Says all of it. When it returns the voice is gone, and what it said may be on its way out.
pub(super) fn replayed(lab: &Lab, table: &Table, checks: &mut Checks) -> Result<(), Failure> {
    let corpora = Corpora::read(&programs::root().join("tests/fuzz/corpus"), table)?;
    let mut keeper = greeted(lab, table, KEEPER, REPLICA)?;
    let passes = [
        ("announce", &corpora.announce, "ANNOUNCE_LAST", true),
        ("withdraw", &corpora.withdraw, "WITHDRAW_LAST", false),
    ];
    for (kind, texts, end, has_last) in passes {
        let start = Instant::now();
        for text in texts {
            keeper.say(&table.spoken(text, KEEPER, REPLICA)?)?;
        }
        keeper.say(&table.spoken(end, KEEPER, REPLICA)?)?;
        let name = format!("{} inputs of fuzzers that {kind}", texts.len());
        let verdict = agreed(lab, table, &mut keeper, has_last)?;
        checks.record(&name, start, verdict);
    }
    let start = Instant::now();
    let mut wrong = String::new();
    for (text, number) in corpora.end.iter().zip(0..) {
        wrong.push_str(&ended(lab, table, text, number)?);
        if wrong.lines().count() > WRONG_MAX {
            break; // each takes its time
        }
    }
    let name = format!("{} inputs of fuzzers that end a session", corpora.end.len());
    let verdict = match wrong.is_empty() {
        true => Ok("each its own".to_owned()),
        false => Err(wrong),
    };
    checks.record(&name, start, verdict);
    let start = Instant::now();
    let verdict = agreed(lab, table, &mut keeper, false)?;
    checks.record("the session beside them is as it was", start, verdict);
    Ok(())
}

/// Every input, as the notation of an UPDATE, by what comes of it; none twice.
#[derive(Default)]
struct Corpora {
    announce: Vec<String>,
    withdraw: Vec<String>,
    end: Vec<String>,
}

impl Corpora {
    fn read(folder: &Path, table: &Table) -> Result<Self, Failure> {
        let mut corpora = Self::default();
        for text in texts(folder)? {
            let kind = match fate(&table.spoken(&text, KEEPER, REPLICA)?) {
                Fate::Announces => &mut corpora.announce,
                Fate::Withdraws => &mut corpora.withdraw,
                Fate::Ends => &mut corpora.end,
            };
            kind.push(text);
        }
        Ok(corpora)
    }
}

/// What comes of a message, as the codec alone has it.
enum Fate {
    /// The session stays, and has routes more or none.
    Announces,
    /// It stays, and has routes less: they are withdrawn, or treated so.
    Withdraws,
    /// The session ends.
    Ends,
}

/// Ok: how many routes every replica has of the keeper, once all have the same of it. `has_last`: whether `last` is one of
/// them, by which one sees that all was heard.
fn agreed(
    lab: &Lab,
    table: &Table,
    keeper: &mut Voice,
    has_last: bool,
) -> Result<Result<String, String>, Failure> {
    let last = table.key("last", KEEPER)?;
    let deadline = clock::deadline(SOON);
    loop {
        keeper.hear(A_MOMENT, |voice| voice.closed)?;
        if keeper.closed || keeper.got(NOTIFICATION) {
            let heard = &keeper.notification;
            return Ok(Err(format!("the session ended: {heard:?}")));
        }
        let mut tables = Vec::new();
        for (_, client) in witness::clients(lab)? {
            let mut routes = witness::routes(&client)?;
            tables.push(routes.remove(&KEEPER.to_string()).unwrap_or_default());
        }
        let leaf: BTreeSet<String> = witness::leaf_received(lab)?
            .iter()
            .filter_map(|line| Some(line.split_once(": ")?.1.to_owned()))
            .collect();
        let same = tables.windows(2).all(|pair| pair[0] == pair[1]);
        let complete = tables
            .iter()
            .all(|table| table.contains(&last) == has_last && table.len() >= ROUTES_MIN);
        if same && complete && leaf.len() == 1 {
            return Ok(Ok(format!("{} routes everywhere", tables[0].len())));
        }
        if Instant::now() > deadline {
            let counts: Vec<usize> = tables.iter().map(BTreeSet::len).collect();
            return Ok(Err(format!(
                "expected: the same {ROUTES_MIN} routes or more everywhere\n\
                 actual:   {counts:?} at the replicas, {leaf:?} of them at the leaf"
            )));
        }
        clock::pause(Duration::from_millis(200))?;
    }
}

/// Says one that ends the session, from an address of its own: who made a mistake has to wait. Empty if it was answered.
fn ended(lab: &Lab, table: &Table, text: &str, number: u16) -> Result<String, Failure> {
    let [high, low] = number.to_be_bytes();
    let own = Ipv4Addr::new(10, 255, FIRST_RANGE + high, low);
    let (_, replica) = REPLICAS[usize::from(number) % REPLICAS.len()];
    let mut voice = greeted(lab, table, own, replica)?;
    voice.say(&table.spoken(text, own, replica)?)?;
    voice.hear(PATIENCE, |voice| voice.closed)?;
    let code = voice.notification.as_ref().map(|(code, ..)| *code);
    let mut wrong = String::new();
    if code != Some(UPDATE_ERROR) || !voice.closed {
        let heard = &voice.notification;
        let _ = writeln!(wrong, "expected: NOTIFICATION {UPDATE_ERROR} for {text}");
        let _ = writeln!(wrong, "actual:   {heard:?}, closed: {}", voice.closed);
    }
    Ok(wrong)
}

/// A session that may say everything.
fn greeted(lab: &Lab, table: &Table, own: Ipv4Addr, replica: Ipv4Addr) -> Result<Voice, Failure> {
    let to = SocketAddrV4::new(replica, 179);
    let mut voice = Voice::dial(lab.namespace(ROGUE)?, own, to, None)?;
    voice.say(&table.spoken("OPEN_ALL", own, replica)?)?;
    voice.hear(PATIENCE, |voice| voice.got(KEEPALIVE))?;
    voice.say(&table.spoken("KEEPALIVE ANNOUNCE_FIRST", own, replica)?)?;
    Ok(voice)
}

/// Every input, as the notation of an UPDATE; none twice.
fn texts(corpora: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut texts = BTreeSet::new();
    for (corpus, read) in CORPORA {
        let folder = corpora.join(corpus);
        let context = || folder.display().to_string();
        for file in fs::read_dir(&folder).context(context)? {
            let octets = fs::read(file.context(context)?.path()).context(context)?;
            // A length that says more than a message holds is for the fuzzers themselves.
            if octets.len() < OCTETS_MAX {
                texts.extend(read(&octets));
            }
        }
    }
    Ok(texts)
}

type Read = fn(&[u8]) -> Vec<String>;

/// Each folder, and what its files hold: as the fuzz target of the same name reads them.
const CORPORA: [(&str, Read); 6] = [
    ("bgp_clean", bodies),
    ("bgp_message", messages),
    ("bgp_route_target", memberships),
    ("bgp_unicast", prefixes),
    ("evpn_nlri", routes),
    ("evpn_views", announcements),
];

/// Two octets for the target, and the body of an UPDATE.
fn bodies(octets: &[u8]) -> Vec<String> {
    let body = octets.split_first_chunk::<2>().map(|(_, body)| body);
    body.map(|body| format!("update{{ {} }}", hex(body)))
        .into_iter()
        .collect()
}

/// An octet for the target, and messages: of those the UPDATEs, the others are the rows' business.
fn messages(octets: &[u8]) -> Vec<String> {
    let mut stream = BytesMut::from(octets.get(1..).unwrap_or_default());
    let mut texts = Vec::new();
    while let Ok(Some(frame)) = frame::split(&mut stream, frame::MAX_LEN_EXTENDED) {
        if frame.kind == MessageKind::Update {
            texts.push(format!("update{{ {} }}", hex(&frame.body)));
        }
    }
    texts
}

fn memberships(octets: &[u8]) -> Vec<String> {
    let nlri = hex(octets);
    vec![
        format!("update{{ 0000 2{{ 90 0e 2{{ RTC_HEAD {nlri} }} CLASSIC }} }}"),
        format!("update{{ 0000 2{{ 90 0f 2{{ 0001 84 {nlri} }} }} }}"),
    ]
}

/// An octet for the target, whose bits say what we do not speak, and NLRI.
fn prefixes(octets: &[u8]) -> Vec<String> {
    match octets {
        [flags, nlri @ ..] if flags & 3 == 0 => vec![format!(
            "update{{ 0000 2{{ CLASSIC 40 03 1{{ SELF }} }} {} }}",
            hex(nlri)
        )],
        _ => Vec::new(),
    }
}

fn routes(octets: &[u8]) -> Vec<String> {
    let nlri = hex(octets);
    vec![
        format!("update{{ 0000 2{{ 90 0e 2{{ HEAD {nlri} }} ATTRIBUTES TUNNEL }} }}"),
        format!("update{{ 0000 2{{ 90 0f 2{{ 0019 46 {nlri} }} }} }}"),
    ]
}

/// Again and again: two octets for the target, a number of communities, these, a length in two octets, and NLRI.
fn announcements(octets: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = octets;
    while let [_, _, count, after @ ..] = rest {
        let communities = after.split_at_checked(usize::from(count % 8) * 8);
        let Some((communities, after)) = communities else {
            break;
        };
        let Some((length, after)) = after.split_first_chunk::<2>() else {
            break;
        };
        let length = usize::from(u16::from_be_bytes(*length) % 512).min(after.len());
        let (nlri, after) = after.split_at(length);
        let carried = match communities.is_empty() {
            true => String::new(),
            false => format!("c0 10 1{{ {} }}", hex(communities)),
        };
        texts.push(format!(
            "update{{ 0000 2{{ 90 0e 2{{ HEAD {} }} CLASSIC {carried} TUNNEL }} }}",
            hex(nlri)
        ));
        rest = after;
    }
    texts
}

fn fate(message: &[u8]) -> Fate {
    let mut octets = BytesMut::from(message);
    let Ok(Some(frame)) = frame::split(&mut octets, frame::MAX_LEN_EXTENDED) else {
        return Fate::Ends;
    };
    let Ok(Message::Update(update)) = Message::decode(frame, &INSIDE) else {
        return Fate::Ends;
    };
    let unreach = update.unreach.iter().map(|part| (part.family, &part.nlri));
    let reach = update.reach.iter().map(|part| (part.family, &part.nlri));
    let ends = unreach.chain(reach).any(|(family, nlri)| match family {
        Family::L2VPN_EVPN => loses_framing::<Route>(nlri),
        Family::IPV4_UNICAST => loses_framing::<Prefix4>(nlri),
        Family::RTC => loses_framing::<Membership>(nlri),
        _ => false, // not spoken, so nobody reads it
    });
    let classic = !update.withdrawn.is_empty();
    let withdraws = classic || update.unreach.is_some() || update.is_withdraw();
    match (ends, withdraws) {
        (true, _) => Fate::Ends,
        (false, true) => Fate::Withdraws,
        (false, false) => Fate::Announces,
    }
}

fn loses_framing<N: Nlri>(octets: &[u8]) -> bool {
    nlri::decode_all::<N>(octets, false, |_, _| (), |_| ()).is_err()
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// What the OPEN of the voice comes to.
const INSIDE: DecodeContext = DecodeContext {
    four_octet_as: true,
    ibgp: true,
    extended_message: true,
    add_path: AddPathSet::NONE,
};

const REPLICA: Ipv4Addr = REPLICAS[0].1;
const KEEPER: Ipv4Addr = Ipv4Addr::new(10, 255, 19, 255);

/// 10.255.16.0/22 is theirs: as many as there are inputs that end a session, and the keeper.
const FIRST_RANGE: u8 = 16;

/// With header and attributes still an extended message.
const OCTETS_MAX: usize = 60_000;

/// The corpora hold more good routes than that.
const ROUTES_MIN: usize = 50;

/// Lines that are enough to look for what is wrong.
const WRONG_MAX: usize = 10;

/// RFC 4271 §4.5.
const UPDATE_ERROR: u8 = 3;

const PATIENCE: Duration = Duration::from_secs(3);
const A_MOMENT: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpora_hold_inputs_of_every_kind_and_no_more_than_addresses() {
        let path = crate::scenario::folder("bad-input").join("cases.yaml");
        let table = Table::read(&path).unwrap();
        let folder = programs::root().join("tests/fuzz/corpus");
        let corpora = Corpora::read(&folder, &table).unwrap();
        let counts = [&corpora.announce, &corpora.withdraw, &corpora.end].map(Vec::len);
        assert!(counts.iter().all(|count| *count >= 100), "{counts:?}");
        assert!(counts[2] < 1023, "{counts:?}");
    }
}
