//! The program against a real kernel: how it ends, hangs and is bypassed, its guardian, its lease, its controllers, and an nft that
//! is not as it should be.

use super::*;

#[test]
fn a_stopped_daemon_leaves_nothing() {
    on_switch(async |switch| {
        let daemon = programmed(switch, &["--log", "json"]).await.0;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn a_killed_daemon_leaves_nothing() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        daemon.kill();
        switch.until(is_clean).await;
        // The next one begins at once.
        programmed(switch, &[]).await.0.stop().await;
    });
}

#[test]
fn a_clock_of_day_that_jumps_ends_nothing() {
    on_switch(async |switch| {
        let day = Arc::new(AtomicI64::new(1_700_000_000_000_000_000));
        let (read, began) = (Arc::clone(&day), Instant::now());
        let read = move || {
            let since = i64::try_from(began.elapsed().as_nanos()).expect("years");
            read.load(Ordering::Relaxed) + since
        };
        let agent = switch.agent_by(Clock::new(read)).await;
        let mut session = Session::with_two_paths(agent.channel()).await;
        let year: i64 = 365 * 86_400 * 1_000_000_000;
        for (jump, text) in [(year, "by 3153"), (-2 * year, "by -6307")] {
            day.fetch_add(jump, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let told = agent.condition("CLOCK_JUMPED").await.expect("told");
            assert!(told.contains(text), "{told}");
            assert!(switch.has_rule() && switch.route("203.0.113.0/24").is_some());
            assert_eq!(session.elect(1).await.expect("a lease"), 1);
        }
        assert_eq!(agent.condition("LEASE_EXPIRED").await, None);
        agent.stop().await;
    });
}

#[test]
fn a_daemon_that_hangs_is_bypassed_until_it_goes_on() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        daemon.signal(Signal::SIGSTOP);
        switch
            .until(|switch| !switch.has_rule() && !switch.marked())
            .await;
        daemon.signal(Signal::SIGCONT);
        switch
            .until(|switch| switch.has_rule() && switch.marked())
            .await;
        daemon.stop().await;
    });
}

#[test]
fn a_log_that_nobody_reads_stops_neither_the_agent_nor_its_guardian() {
    on_switch(async |switch| {
        add_vxlan(switch);
        let daemon = switch.daemon_unread(LONG_LEASE);
        daemon.ready().await;
        let _session = Session::with_two_paths(daemon.channel()).await;
        switch.until(|switch| switch.has_rule()).await;
        let text = daemon.until_condition("LOG_LINES_DROPPED").await;
        assert!(text.contains("standard error is not read"), "{text}");
        daemon.signal(Signal::SIGSTOP);
        switch.until(|switch| !switch.has_rule()).await;
        daemon.signal(Signal::SIGCONT);
        switch.until(|switch| switch.has_rule()).await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn a_guardian_that_dies_is_followed_by_another() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        let first = daemon.guardian().expect("started");
        nix::sys::signal::kill(first, Signal::SIGKILL).expect("alive");
        let next = || daemon.guardian().filter(|guardian| *guardian != first);
        switch.until(|_| next().is_some()).await;
        assert!(switch.has_rule());
        daemon.kill();
        switch.until(is_clean).await;
    });
}

#[test]
fn without_agent_and_guardian_the_kernel_ends_the_marking() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        let guardian = daemon.guardian().expect("started");
        nix::sys::signal::kill(guardian, Signal::SIGKILL).expect("alive");
        daemon.kill();
        switch.until(|switch| !switch.marked()).await;
        assert!(
            switch.has_rule(),
            "nobody is left to remove it; no packet has its mark"
        );
        assert!(switch.daemon(&["--clean"]).ended());
        assert!(is_clean(switch));
    });
}

#[test]
fn a_controller_that_is_silent_loses_what_it_programmed() {
    on_switch(async |switch| {
        let (daemon, mut session) = programmed(switch, &["--lease-secs", "2"]).await;
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(session.elect(1).await.expect("a lease"), 1);
        }
        assert!(switch.has_rule());
        switch
            .until(|switch| switch.route("203.0.113.0/24").is_none() && !switch.has_rule())
            .await;
        assert!(session.receive().await.is_err(), "the stream has ended");
        daemon.stop().await;
    });
}

#[test]
fn the_greatest_election_id_keeps_nobody_out_for_longer_than_its_lease() {
    on_switch(async |switch| {
        let daemon = switch.daemon(&["--lease-secs", "2"]);
        daemon.ready().await;
        let _silent = Session::primary(daemon.channel(), u64::MAX).await;
        let mut session = Session::open(daemon.channel()).await;
        session
            .parameters(session::PARAMETERS)
            .await
            .expect("supported");
        assert_eq!(session.elect(1).await.expect("valid"), u64::MAX);
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            session.elect(1).await.expect("a lease");
        }
        assert_eq!(session.elect(1).await.expect("valid"), 1);
        daemon.stop().await;
    });
}

#[test]
fn the_daemon_takes_orders_for_its_prefixes_from_its_controllers_only() {
    on_switch(async |switch| {
        let (daemon, mut session) = programmed(switch, &[]).await;
        let text = "198.51.100.7/32 is outside of what this agent was started for: 203.0.113.0/24";
        session
            .add_with(prefix("198.51.100.7/32", 1), "FAILED", text)
            .await;
        daemon.stop().await;
        let daemon = switch.daemon(&["--controller", "192.0.2.0/24"]);
        daemon.ready().await;
        assert!(Session::refused(daemon.channel()).await);
        daemon.stop().await;
    });
}

#[test]
fn an_address_that_comes_later_is_listened_at() {
    on_switch(async |switch| {
        let listen = "192.0.2.77:9340";
        let daemon = switch.daemon_at(listen);
        switch.until(|_| daemon.guardian().is_some()).await;
        switch.ip("addr add 192.0.2.77/32 dev lo");
        switch.until(|_| TcpStream::connect(listen).is_ok()).await;
        daemon.kill();
        switch.until(|it| !it.has_rule()).await;
    });
}

#[test]
fn a_second_daemon_does_not_work_beside_the_first() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, &[]).await;
        assert!(!switch.daemon(&[]).ended());
        assert!(switch.has_rule());
        daemon.stop().await;
    });
}

#[test]
fn without_an_nft_of_the_bridge_family_frr_alone_routes() {
    on_switch(async |switch| {
        let routes = switch.ip("route show");
        let refusing = FakeNft::new("refuse");
        refusing.does("refuse");
        for path in [refusing.path(), "/nonexistent"] {
            add_vxlan(switch);
            let daemon = switch.daemon_with_path(&[], path);
            daemon.ready().await;
            let _session = Session::with_two_paths(daemon.channel()).await;
            let text = daemon.until_condition("MARKS_UNAVAILABLE").await;
            assert!(text.contains("packets are not marked, FRR alone routes them: nft: "));
            let status = daemon.status().await;
            assert_eq!(status.state().as_str_name(), "STATE_BYPASSED");
            assert!(!switch.has_marks());
            assert_eq!(switch.ip("route show"), routes);
            daemon.stop().await;
            assert!(is_clean(switch));
            assert_eq!(switch.ip("route show"), routes);
        }
    });
}

#[test]
fn an_nft_that_hangs_does_not_delay_what_frr_changes() {
    on_switch(async |switch| {
        let nft = FakeNft::new("hang");
        let (daemon, _session) = programmed_with_path(switch, LONG_LEASE, nft.path()).await;
        nft.does("hang");
        let running = daemon.started("-i").expect("started");
        nix::sys::signal::kill(running, Signal::SIGSTOP).expect("alive");
        let whole = switch.route("203.0.113.0/24").expect("installed")["nhid"].clone();
        let mut delays = Vec::new();
        for _ in 0..25 {
            switch.ip("route replace 203.0.113.0/24 metric 20 via 192.0.2.2");
            let changed = Instant::now();
            switch.at_once(|switch| nhid(switch).is_some_and(|nhid| nhid != whole));
            delays.push(changed.elapsed());
            switch.ip("route replace 203.0.113.0/24 metric 20 nexthop via 192.0.2.2 nexthop via 198.51.100.2");
            switch.at_once(|switch| nhid(switch).as_ref() == Some(&whole));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        delays.sort();
        assert!(delays[12] < Duration::from_millis(50), "{delays:?}");
        // The machine may be busy for a moment; a wait for nft is longer.
        assert!(delays[24] < Duration::from_millis(500), "{delays:?}");
        let text = daemon.until_condition("MARKS_UNAVAILABLE").await;
        assert!(text.contains("nft does not answer"), "{text}");
        assert!(!switch.marked(), "the kernel ended it");
        nft.does("work");
        switch.until(|switch| switch.marked()).await;
        daemon.until_mended("MARKS_UNAVAILABLE").await;
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn an_interactive_nft_that_hangs_is_replaced() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        let first = daemon.started("-i").expect("started");
        nix::sys::signal::kill(first, Signal::SIGSTOP).expect("alive");
        switch.until(|switch| !switch.marked()).await;
        switch.until(|switch| switch.marked()).await;
        assert_ne!(daemon.started("-i"), Some(first));
        let text = daemon.until_condition("MARKS_REMOVED").await;
        assert!(text.contains("nft does not answer"), "{text}");
        daemon.stop().await;
    });
}

#[test]
fn marks_that_another_hand_removes_are_put_back() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        switch.nft("delete table bridge weft");
        switch.until(|switch| switch.marked()).await;
        let text = daemon.until_condition("MARKS_REMOVED").await;
        assert!(text.contains("No such file or directory"), "{text}");
        daemon.stop().await;
    });
}

#[test]
fn a_guardian_that_stands_still_is_replaced() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        let first = daemon.guardian().expect("started");
        nix::sys::signal::kill(first, Signal::SIGSTOP).expect("alive");
        let next = || daemon.guardian().filter(|guardian| *guardian != first);
        switch.until(|_| next().is_some()).await;
        assert!(switch.has_rule());
        let text = daemon.until_condition("GUARDIAN_LOST").await;
        assert!(text.contains("did not answer"), "{text}");
        daemon.kill();
        switch.until(is_clean).await;
    });
}

#[test]
fn an_agent_that_was_stopped_does_not_blame_its_guardian() {
    on_switch(async |switch| {
        let (daemon, _session) = programmed(switch, LONG_LEASE).await;
        let guardian = daemon.guardian();
        daemon.signal(Signal::SIGSTOP);
        tokio::time::sleep(Duration::from_secs(4)).await;
        daemon.signal(Signal::SIGCONT);
        switch
            .until(|switch| switch.has_rule() && switch.marked())
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(daemon.guardian(), guardian);
        daemon.stop().await;
    });
}

#[test]
fn without_a_guardian_nobody_programs_the_switch() {
    on_switch(async |switch| {
        let routes = switch.ip("route show");
        let (daemon, mut session) = programmed(switch, LONG_LEASE).await;
        // Somebody else has the name that a guardian needs.
        daemon.signal(Signal::SIGSTOP);
        let first = daemon.guardian().expect("started");
        nix::sys::signal::kill(first, Signal::SIGKILL).expect("alive");
        let name = SocketAddr::from_abstract_name("weft-agent").expect("a name");
        let mut taken = None;
        switch
            .until(|_| {
                taken = UnixListener::bind_addr(&name).ok();
                taken.is_some()
            })
            .await;
        daemon.signal(Signal::SIGCONT);
        let text = daemon.until_condition("GUARDIAN_UNAVAILABLE").await;
        assert!(text.contains("another weft-agent works"), "{text}");
        switch
            .until(|switch| !switch.has_rule() && switch.next_hops() == json!([]))
            .await;
        let ended = session.receive().await.expect_err("ended");
        assert_eq!(ended.code(), Code::Unavailable);
        assert!(ended.message().contains("nobody can program this switch"));
        assert!(Session::refused(daemon.channel()).await);
        assert_eq!(switch.ip("route show"), routes);
        drop(taken);
        let wait = async {
            while Session::refused(daemon.channel()).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        waited.expect("a guardian in time");
        daemon.until_mended("GUARDIAN_UNAVAILABLE").await;
        let _session = Session::with_two_paths(daemon.channel()).await;
        assert!(switch.has_rule());
        daemon.stop().await;
        assert!(is_clean(switch));
    });
}

#[test]
fn too_many_connections_of_a_controller_are_closed() {
    on_switch(async |switch| {
        let (daemon, mut session) = programmed(switch, &[]).await;
        let mut mute = Vec::new();
        let mut closed = 0;
        for _ in 0..100 {
            let mut connection = TcpStream::connect(LISTEN).expect("listening");
            let patience = Some(Duration::from_millis(100));
            connection.set_read_timeout(patience).expect("a socket");
            match connection.read(&mut [0; 64]) {
                Ok(0) => closed += 1,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => closed += 1,
                // It speaks, or waits for what is said.
                Ok(_) | Err(_) => mute.push(connection),
            }
        }
        assert!((1..64).contains(&mute.len()), "{} are open", mute.len());
        assert_eq!(closed + mute.len(), 100);
        let text = daemon.until_condition("CONNECTIONS_EXCEEDED").await;
        assert!(text.contains("times"), "{text}");
        assert_eq!(session.elect(1).await.expect("a lease"), 1);
        drop(mute);
        daemon.ready().await;
        daemon.stop().await;
    });
}
