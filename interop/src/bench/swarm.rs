//! All speakers together: a few threads, each with one epoll over its share of the sockets.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::{
    clock,
    failure::{Context, Failure},
};

use super::{
    load::Load,
    speaker::{BUFFER_LEN, Goal, Speaker},
};

/// Brings all sessions up; a reflector that does not listen yet is tried again.
pub(crate) fn establish(
    speakers: &mut [Speaker],
    load: &Load,
    reflector: SocketAddr,
    until: Instant,
) -> Result<(), Failure> {
    let mut refused = Failure::new("no answer to OPEN");
    for count in [1, speakers.len()] {
        let wanted = &mut speakers[..count];
        while !wanted
            .iter()
            .all(|speaker| speaker.reached(Goal::Established, load))
        {
            if Instant::now() > until {
                return Err(Failure::new(format!("sessions do not come up: {refused}")));
            }
            for speaker in wanted.iter_mut().filter(|speaker| !speaker.connected()) {
                if let Err(error) = speaker.connect(reflector) {
                    refused = error;
                    break;
                }
            }
            serve(
                wanted,
                load,
                Goal::Established,
                clock::deadline(RETRY_AFTER),
                1,
            )?;
            if !wanted.iter().all(Speaker::connected) {
                clock::pause(RETRY_AFTER / 4)?;
            }
        }
    }
    Ok(())
}

/// Sends, receives and keeps alive until every speaker has reached the goal: Ok(true). Ok(false): time is
/// up. A session that is lost, or a route that is not as announced, is an error.
pub(crate) fn serve(
    speakers: &mut [Speaker],
    load: &Load,
    goal: Goal,
    until: Instant,
    threads: usize,
) -> Result<bool, Failure> {
    let waiting = speakers
        .iter()
        .filter(|speaker| !speaker.reached(goal, load));
    let waiting = AtomicUsize::new(waiting.count());
    let share = speakers.len().div_ceil(threads);
    let part = |speakers| {
        Part {
            speakers,
            load,
            goal,
            waiting: &waiting,
        }
        .serve(until)
    };
    if threads == 1 {
        part(speakers)?;
    } else {
        thread::scope(|scope| {
            let part = &part;
            let parts: Vec<_> = speakers
                .chunks_mut(share)
                .map(|speakers| scope.spawn(move || part(speakers)))
                .collect();
            parts
                .into_iter()
                .map(|part| part.join().expect("a part does not panic"))
                .collect::<Result<Vec<()>, Failure>>()
        })?;
    }
    Ok(waiting.into_inner() == 0)
}

/// One thread's share.
struct Part<'a> {
    speakers: &'a mut [Speaker],
    load: &'a Load,
    goal: Goal,
    /// How many speakers of all parts have not reached the goal.
    waiting: &'a AtomicUsize,
}

impl Part<'_> {
    fn serve(mut self, until: Instant) -> Result<(), Failure> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context(|| "epoll".to_owned())?;
        for (place, speaker) in self.speakers.iter_mut().enumerate() {
            speaker.write();
            if let Some(stream) = speaker.stream() {
                epoll
                    .add(stream, interest(speaker, place))
                    .context(|| "epoll".to_owned())?;
            }
        }
        let mut buffer = vec![0; BUFFER_LEN];
        let mut events = [EpollEvent::empty(); 128];
        let mut keepalives_due = Instant::now();
        while self.waiting.load(Ordering::Relaxed) > 0 {
            let now = Instant::now();
            if now > until {
                break;
            }
            clock::go_on()?;
            if now >= keepalives_due {
                keepalives_due = now + Duration::from_secs(1);
                for speaker in self.speakers.iter_mut() {
                    speaker.keep_alive(now);
                    speaker.write();
                }
            }
            let count = match epoll.wait(&mut events, EpollTimeout::from(WAIT_MILLIS)) {
                Ok(count) => count,
                Err(nix::Error::EINTR) => 0,
                Err(error) => return Err(error).context(|| "epoll".to_owned()),
            };
            for event in &events[..count] {
                self.handle(&epoll, *event, &mut buffer)?;
            }
        }
        Ok(())
    }

    fn handle(
        &mut self,
        epoll: &Epoll,
        event: EpollEvent,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        let place = usize::try_from(event.data()).expect("the data is a place");
        let speaker = &mut self.speakers[place];
        let early = !speaker.reached(self.goal, self.load);
        let talked = speaker.has_more_to_say();
        if event.events().intersects(!EpollFlags::EPOLLOUT) {
            speaker.read(self.load, buffer);
        }
        if speaker.has_more_to_say() {
            speaker.write();
        }
        if let Some(fault) = &speaker.received.fault {
            return Err(Failure::new(format!(
                "speaker {}: {fault}",
                Load::address(speaker.number)
            )));
        }
        if talked != speaker.has_more_to_say()
            && let Some(stream) = speaker.stream()
        {
            epoll
                .modify(stream, &mut interest(speaker, place))
                .context(|| "epoll".to_owned())?;
        }
        if early && speaker.reached(self.goal, self.load) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn interest(speaker: &Speaker, place: usize) -> EpollEvent {
    let mut flags = EpollFlags::EPOLLIN;
    flags.set(EpollFlags::EPOLLOUT, speaker.has_more_to_say());
    EpollEvent::new(flags, u64::try_from(place).expect("usize fits u64"))
}

/// How late a part may notice that the others are done, or that time is up.
const WAIT_MILLIS: u8 = 20;

const RETRY_AFTER: Duration = Duration::from_secs(2);
