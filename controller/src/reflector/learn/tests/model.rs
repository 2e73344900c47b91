//! Any story of announcements, withdrawals and policies against what it must come to.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Act {
    Announce(Route, u8, Vec<u32>),
    Withdraw(Route),
    Policy(Box<Inbound>),
    See(Vec<u8>),
    Begin,
    End,
}

fn route() -> impl Strategy<Value = Route> {
    prop_oneof![
        6 => (1..6_u8, option::of(1..4_u8), 1..3_u8).prop_map(|(mac, ip, vni)| host_with(mac, ip, vni)),
        2 => (1..4_u8).prop_map(flood),
    ]
}

fn policy() -> impl Strategy<Value = Inbound> {
    let mode = prop_oneof![
        Just(GuardMode::Off),
        Just(GuardMode::Warn),
        Just(GuardMode::Reject)
    ];
    let action = prop_oneof![Just(LimitAction::DropNew), Just(LimitAction::Warn)];
    let filter = prop_oneof![
        Just(RouteTargetFilter::Off),
        Just(RouteTargetFilter::Rtc),
        Just(RouteTargetFilter::Auto)
    ];
    let limit = || option::of(1..6_u64);
    (limit(), limit(), limit(), limit(), mode, action, filter).prop_map(
        |(routes, of_type, macs_per_vni, ips_per_mac, mode, action, route_target_filter)| Inbound {
            limits: Limits {
                routes,
                types: of_type.map(|limit| (2, limit)).into_iter().collect(),
                macs_per_vni,
                ips_per_mac,
                action,
                ..Limits::default()
            },
            guard: Guard::all(mode),
            route_target_filter,
            ..Inbound::default()
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => (route(), 1..4_u8, vec(1..4_u32, 0..3))
            .prop_map(|(route, vtep, targets)| Act::Announce(route, vtep, targets)),
        5 => route().prop_map(Act::Withdraw),
        1 => policy().prop_map(|policy| Act::Policy(Box::new(policy))),
        1 => vec(1..4_u8, 0..3).prop_map(Act::See),
        1 => Just(Act::Begin),
        1 => Just(Act::End),
    ]
}

fn play(rib: &mut AdjRibIn, act: Act) -> Learned {
    match act {
        Act::Announce(route, vtep, targets) => {
            let vtep = match &route {
                // A type 3 says whose it is.
                Route::InclusiveMulticast(route) => match route.key.originator {
                    std::net::IpAddr::V4(address) => address.octets()[3],
                    std::net::IpAddr::V6(_) => vtep,
                },
                _ => vtep,
            };
            rib.learn(&announce(&route, vtep, &targets)).unwrap()
        }
        Act::Withdraw(route) => rib.learn(&withdraw(&route)).unwrap(),
        Act::Policy(policy) => rib.set_policy(*policy),
        Act::See(vteps) => rib.see(Arc::new(FabricView {
            vteps: vteps.into_iter().map(|vtep| address(vtep).into()).collect(),
            ..FabricView::default()
        })),
        Act::Begin => {
            rib.begin_refresh(EVPN);
            Learned::default()
        }
        Act::End => rib.end_refresh(EVPN),
    }
}

/// Everything that is counted, counted anew from what is held.
fn recount(rib: &AdjRibIn) {
    let mut types: BTreeMap<u8, u64> = BTreeMap::new();
    let mut targets = BTreeSet::new();
    for (key, value) in &rib.routes {
        let Some(FactKey::Route(_, _, path)) = FactKey::decode(key) else {
            panic!("a key of another kind");
        };
        let (_, nlri) = ledger::read_path(path).unwrap();
        *types.entry(nlri[0]).or_default() += 1;
        let (_, attributes) = ledger::decode_path(value).unwrap();
        targets.extend(constrain::Targets::of(&attributes).iter());
    }
    let held: BTreeMap<_, _> = rib
        .types()
        .iter()
        .filter(|(_, count)| **count > 0)
        .collect();
    assert_eq!(held, types.iter().collect());
    let total: usize = rib.counts().values().sum();
    assert_eq!(total, rib.len());
    if rib.policy.route_target_filter == RouteTargetFilter::Auto {
        assert_eq!(rib.interest(), constrain::Interest::of_exports(targets));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn counts_are_those_of_what_is_held(acts in vec(act(), 1..60)) {
        let mut rib = client(Inbound::default());
        for act in acts {
            play(&mut rib, act);
            recount(&rib);
        }
        // Whatever came, all of it goes, and everything there was room for has room again.
        rib.begin_refresh(EVPN);
        rib.end_refresh(EVPN);
        prop_assert_eq!((rib.len(), rib.held_back()), (0, 0));
        recount(&rib);
        let limits = Limits { macs_per_vni: Some(1), ips_per_mac: Some(1), ..Limits::default() };
        rib.set_policy(Inbound { limits, ..Inbound::default() });
        prop_assert!(kept(&mut rib, &announce(&host_with(1, Some(1), 1), 1, &[])));
    }

    /// The guard says the same whatever came first.
    #[test]
    fn the_order_of_arrival_does_not_matter(
        routes in vec((route(), 1..4_u8), 1..12).prop_shuffle(), swaps in vec(any::<prop::sample::Index>(), 12),
    ) {
        let mut latest: BTreeMap<String, (Route, u8)> = BTreeMap::new();
        for (route, vtep) in routes {
            latest.insert(route.key().to_string(), (route, vtep));
        }
        let mut routes: Vec<_> = latest.into_values().collect();
        let run = |routes: &[(Route, u8)]| {
            let mut rib = guarded();
            for (route, vtep) in routes {
                play(&mut rib, Act::Announce(route.clone(), *vtep, Vec::new()));
            }
            let mut keys: Vec<_> = rib.routes.keys().cloned().collect();
            keys.sort_unstable();
            (keys, rib.held_back())
        };
        let first = run(&routes);
        for (at, swap) in swaps.iter().enumerate() {
            let len = routes.len();
            routes.swap(at % len, swap.index(len));
        }
        prop_assert_eq!(run(&routes), first);
    }

    /// What is proposed brings the facts to what is held.
    #[test]
    fn batches_say_what_is_held(acts in vec(act(), 1..60)) {
        let mut rib = client(Inbound::default());
        let mut facts = std::collections::HashMap::new();
        rib.claim(&facts, 0);
        for act in acts {
            play(&mut rib, act);
            while let Some((ops, _)) = rib.next_batch() {
                for op in ops {
                    match op {
                        Op::Put { value, keys } => {
                            facts.extend(keys.into_iter().map(|key| (key, value.clone())));
                        }
                        Op::Delete { keys } => keys.iter().for_each(|key| drop(facts.remove(key))),
                        Op::DeletePrefix { .. } => panic!("no prefix is deleted here"),
                    }
                }
            }
            let held: std::collections::HashMap<_, _> =
                rib.routes.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            prop_assert_eq!(&facts, &held);
        }
    }
}
