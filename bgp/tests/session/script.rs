//! Stories: what happens to a session, and what it does. A block of inputs, `----`, its transcript.

use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weft_bgp::capability::{AddPath, Capability, GracefulRestart, LongLived};
use weft_bgp::error::{DecodeError, Fault};
use weft_bgp::family::Family;
use weft_bgp::message::notification::Cease;
use weft_bgp::message::{Message, Notification, RouteRefresh};
use weft_bgp::session::{Input, Output, RemoteAsn, Session, SessionConfig, Side};

use crate::golden;
use crate::words::{self, ASN, config, epoch, open, router_id};

#[test]
fn scripts_tell_what_happens() {
    let mut scripts: Vec<_> = fs::read_dir(golden::path("."))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("session-")
        })
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "script")
        })
        .collect();
    scripts.sort();
    assert!(scripts.len() > 10, "only {} scripts", scripts.len());
    for path in scripts {
        let text = fs::read_to_string(&path).unwrap();
        golden::check(&path, &run(&text));
    }
}

/// The script with the transcript that it should have.
fn run(text: &str) -> String {
    let mut story = Story::new();
    let mut told = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        writeln!(told, "{line}").unwrap();
        if line == "----" {
            told.push_str(&std::mem::take(&mut story.transcript));
            let rest = lines.by_ref().find(|line| line.is_empty());
            told.push_str(if rest.is_some() { "\n" } else { "" });
        } else if !line.is_empty() && !line.starts_with('#') {
            story.tell(line);
        }
    }
    told.trim_end().to_owned() + "\n"
}

struct Story {
    config: SessionConfig,
    session: Session,
    start: Instant,
    now: Instant,
    transcript: String,
}

impl Story {
    fn new() -> Self {
        let start = epoch();
        let session = Session::new(config());
        Self {
            config: config(),
            session,
            start,
            now: start,
            transcript: String::new(),
        }
    }

    fn tell(&mut self, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["config", options @ ..] => {
                self.config = config();
                for option in options {
                    configure(&mut self.config, option);
                }
                self.session = Session::new(self.config.clone());
            }
            ["established", options @ ..] => self.establish(options),
            ["restarted"] => self.session.set_restarted(true),
            ["wait", delay] => self.wait(duration(delay)),
            words => self.input(input(words)),
        }
    }

    fn establish(&mut self, options: &[&str]) {
        let receive = |what: &[&str]| input(&[&["receive", "out"], what].concat());
        self.input(Input::Start);
        self.input(Input::Connected(Side::Outgoing));
        self.input(receive(&[&["OPEN"], options].concat()));
        self.input(receive(&["KEEPALIVE"]));
        assert_eq!(
            self.session.state_name(),
            "Established",
            "{}",
            self.transcript
        );
        self.transcript.clear();
    }

    fn wait(&mut self, delay: Duration) {
        let end = self.now + delay;
        while let Some(deadline) = self
            .session
            .poll_timeout()
            .filter(|&deadline| deadline <= end)
        {
            assert!(
                deadline > self.now || delay.is_zero(),
                "a deadline stands still"
            );
            self.now = deadline;
            self.input(Input::Timeout);
        }
        self.now = end;
    }

    fn input(&mut self, input: Input) {
        let before = self.session.state_name();
        let timeout = matches!(input, Input::Timeout);
        self.session.handle(input, self.now);
        let mut down = false;
        let at = (self.now - self.start).as_secs_f64();
        for output in words::drain(&mut self.session) {
            down |= matches!(output, Output::Down(_));
            if timeout {
                write!(self.transcript, "{at:.3}s ").unwrap();
            }
            writeln!(self.transcript, "{}", words::output(&output, &self.session)).unwrap();
        }
        let after = self.session.state_name();
        if after != before && !(down && after == "Idle") {
            writeln!(self.transcript, "=> {after}").unwrap();
        }
    }
}

fn configure(config: &mut SessionConfig, option: &str) {
    match option.split_once('=').unwrap_or((option, "")) {
        ("passive", _) => config.passive = true,
        ("standard-messages", _) => config.extended_message = false,
        ("hold", value) => config.hold = duration(value),
        ("send-hold", value) => config.send_hold = duration(value),
        ("retry", value) => config.connect_retry = duration(value),
        ("as", value) => config.local_asn = value.parse().unwrap(),
        ("id", value) => config.router_id = value.parse().unwrap(),
        ("families", value) => config.families = families(value),
        ("no-refresh", _) => config.route_refresh = false,
        ("add-path", value) => config.add_path = add_path(value),
        ("restart", value) => config.graceful_restart = Some(restart(value)),
        ("long-lived", value) => config.long_lived = long_lived(value),
        ("version", value) => config.software_version = Some(value.into()),
        ("remote", "any") => config.remote_asn = RemoteAsn::Any,
        ("remote", value) => {
            config.remote_asn = match value.split_once('-') {
                Some((first, last)) => {
                    RemoteAsn::Range(first.parse().unwrap(), last.parse().unwrap())
                }
                None => RemoteAsn::Exactly(value.parse().unwrap()),
            }
        }
        (key, _) => panic!("no such option: {key}"),
    }
}

fn input(words: &[&str]) -> Input {
    match words {
        ["start"] => Input::Start,
        ["stop", cease] => Input::Stop(self::cease(cease)),
        ["stop", cease, "saying", text @ ..] => {
            Input::StopSaying(self::cease(cease), text.join(" "))
        }
        ["connected", on] => Input::Connected(side(on)),
        ["connect", "fails"] => Input::ConnectFailed,
        ["disconnected", on] => Input::Disconnected(side(on)),
        ["malformed", on, "marker"] => malformed(on, Fault::Marker),
        ["malformed", on, "type"] => malformed(on, Fault::MessageType { code: 6 }),
        ["malformed", on, "version"] => malformed(on, Fault::Version { version: 3 }),
        ["malformed", on, "nlri"] => malformed(on, Fault::NlriFraming),
        ["renew"] => Input::Renew,
        ["sent"] => Input::Sent,
        ["send", "blocked"] => Input::SendBlocked,
        ["receive", on, message @ ..] => Input::Message(side(on), self::message(message)),
        words => panic!("no such line: {words:?}"),
    }
}

fn malformed(on: &str, fault: Fault) -> Input {
    Input::Malformed(side(on), DecodeError { fault, offset: 0 }, Bytes::new())
}

fn message(words: &[&str]) -> Message {
    match words {
        ["OPEN", options @ ..] => {
            let mut open = open(ASN, router_id(2), 90, &[Family::L2VPN_EVPN]);
            for option in options {
                let (key, value) = option.split_once('=').unwrap_or((option, ""));
                match key {
                    "as" => {
                        open = self::open(
                            value.parse().unwrap(),
                            open.router_id,
                            open.hold_secs,
                            &[Family::L2VPN_EVPN],
                        );
                    }
                    "id" => open.router_id = value.parse().unwrap(),
                    "hold" => open.hold_secs = value.parse().unwrap(),
                    "keepalive" => {
                        assert_eq!(value.parse::<u16>().unwrap() * 3, open.hold_secs)
                    }
                    "families" => {
                        open =
                            self::open(open.asn, open.router_id, open.hold_secs, &families(value));
                    }
                    "extended" => {
                        open.capabilities.push(Capability::ExtendedMessage);
                    }
                    "add-path" => open.capabilities.push(Capability::AddPath(add_path(value))),
                    "restart" => open
                        .capabilities
                        .push(Capability::GracefulRestart(restart(value))),
                    "long-lived" => {
                        open.capabilities
                            .push(Capability::LongLivedGracefulRestart(long_lived(value)));
                    }
                    "bare" => open.capabilities.clear(),
                    key => panic!("no such option: {key}"),
                }
            }
            Message::Open(open)
        }
        ["KEEPALIVE"] => Message::Keepalive,
        ["UPDATE"] => words::update(),
        ["ROUTE-REFRESH", family, subtype] => Message::RouteRefresh(RouteRefresh {
            family: family.parse().unwrap(),
            subtype: subtype.parse().unwrap(),
        }),
        ["NOTIFICATION", code, text @ ..] => {
            let (code, subcode) = code.split_once('/').unwrap();
            let text = text.join(" ");
            let mut data = Vec::new();
            if !text.is_empty() {
                data.push(u8::try_from(text.len()).unwrap());
                data.extend(text.as_bytes());
            }
            let (code, subcode) = (code.parse().unwrap(), subcode.parse().unwrap());
            Message::Notification(Notification {
                code,
                subcode,
                data: data.into(),
            })
        }
        words => panic!("no such message: {words:?}"),
    }
}

fn side(word: &str) -> Side {
    match word {
        "out" => Side::Outgoing,
        "in" => Side::Incoming,
        word => panic!("no such side: {word}"),
    }
}

fn cease(word: &str) -> Cease {
    match word {
        "shutdown" => Cease::Shutdown,
        "reset" => Cease::Reset,
        "max-prefixes" => Cease::MaxPrefixes,
        "deconfigured" => Cease::Deconfigured,
        "hard-reset" => Cease::HardReset,
        word => panic!("no such cease: {word}"),
    }
}

/// "l2vpn-evpn:receive+send,ipv4-unicast:send".
fn add_path(list: &str) -> Vec<AddPath> {
    let offer = |offer: &str| {
        let (family, modes) = offer.split_once(':').unwrap();
        let mut modes = modes.split('+');
        AddPath {
            family: family.parse().unwrap(),
            receive: modes.clone().any(|mode| mode == "receive"),
            send: modes.any(|mode| mode == "send"),
        }
    };
    list.split(',').map(offer).collect()
}

/// "120s", "120s+notification", "120s+restarted", of the EVPN family with its forwarding state; "120s+nothing".
fn restart(text: &str) -> GracefulRestart {
    let (secs, flags) = text.split_once('+').unwrap_or((text, ""));
    GracefulRestart {
        restarted: flags.contains("restarted"),
        notification: flags.contains("notification"),
        restart_secs: duration(secs).as_secs().try_into().unwrap(),
        families: match flags.contains("nothing") {
            true => Vec::new(),
            false => vec![(Family::L2VPN_EVPN, true)],
        },
    }
}

/// "3600s", of the EVPN family.
fn long_lived(text: &str) -> Vec<LongLived> {
    vec![LongLived {
        family: Family::L2VPN_EVPN,
        forwarding: true,
        stale_secs: duration(text).as_secs().try_into().unwrap(),
    }]
}

fn families(list: &str) -> Vec<Family> {
    list.split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.parse().unwrap())
        .collect()
}

fn duration(text: &str) -> Duration {
    let seconds: f64 = text
        .strip_suffix('s')
        .expect("seconds, as in 90s")
        .parse()
        .unwrap();
    Duration::from_secs_f64(seconds)
}
