//! The law of packets that are of several flows: at each step a packet goes as before or as wanted.

use super::*;

/// What packets go by that are of these flows: by the most precise that has members.
fn goes_by<Members>(
    packet: &[Flow],
    members: impl Fn(Target) -> Option<Members>,
) -> Option<Members> {
    let known = packet.iter();
    let known = known.filter_map(|flow| Some((flow.precision(), members(Target::Flow(*flow))?)));
    known
        .max_by_key(|(precision, _)| *precision)
        .map(|(_, members)| members)
}

/// Flows that a packet is of, of all that rows have; of every kind of packet.
fn packets() -> BTreeSet<Vec<Flow>> {
    let all: Vec<Flow> = (FLOWS..FLOWS_END).map(flow).collect();
    let mut packets = BTreeSet::new();
    let address = |last: u8| IpAddr::from([203, 0, 113, last]);
    for from in [8, 9, 10] {
        for interface in ["swp1", "swp2"] {
            for (vni, to, port) in (100..=101)
                .flat_map(|vni| (1..=3).flat_map(move |to| (1..=3).map(move |it| (vni, to, it))))
            {
                let of = |source| Flow {
                    vni,
                    source,
                    destination: Some(address(to)),
                    udp_source_port: Some(port),
                };
                let by_address = of(Source::Address(address(from)));
                let interface = InterfaceName::from(interface).unwrap();
                let by_interface = of(Source::Interface(interface));
                let is_of = |it: &&Flow| it.overlaps(&by_address) && it.overlaps(&by_interface);
                packets.insert(all.iter().filter(is_of).copied().collect());
            }
        }
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Flows of a packet change one after the other; at each step it goes as before or as wanted.
    #[test]
    fn at_each_step_a_packet_goes_its_old_or_its_new_way(
        before in rows(),
        after in rows(),
        choices in prop::collection::vec(any::<u8>(), 80),
    ) {
        let mut device = Device::of(after_a_push(&before).tables);
        let operations = operations(&after, &device.get());
        let wanted = wanted(&after);
        let packets = packets();
        let by = |device: &Device, packet: &[Flow]| {
            goes_by(packet, |target| device.forwarded(target).map(|has| has.members))
        };
        let old: Vec<_> = packets.iter().map(|packet| by(&device, packet)).collect();
        let new = |packet: &Vec<Flow>| {
            goes_by(packet, |target| wanted.get(&target).map(|has| has.members.clone()))
        };
        let new: Vec<_> = packets.iter().map(new).collect();
        let mut done = vec![false; operations.len()];
        for choice in choices {
            let met = |after: &After| done[after.operation];
            let may = |at: &usize| !done[*at] && operations[*at].after.iter().all(met);
            let ready: Vec<usize> = (0..operations.len()).filter(may).collect();
            let Some(at) = ready.get(usize::from(choice) % ready.len().max(1)) else {
                break;
            };
            done[*at] = true;
            let change = &operations[*at].change;
            device.execute(change, Outcome::Programmed).unwrap();
            for ((packet, old), new) in packets.iter().zip(&old).zip(&new) {
                let now = by(&device, packet);
                prop_assert!(now == *old || now == *new, "{packet:?} after {change}: {now:?}");
            }
        }
    }

    #[test]
    fn what_is_refused_keeps_no_flow_that_goes(before in rows(), after in rows()) {
        let operations = operations(&after, &after_a_push(&before));
        let mut come: Vec<Option<Outcome>> = Vec::new();
        for operation in &operations {
            let met = |it: &After| come[it.operation].is_some_and(|come| come.meets(it.until));
            let may = operation.after.iter().all(met);
            prop_assert!(may || !matches!(operation.change, Change::Delete(Key::Policy(_))));
            let is_new_flow = matches!(operation.change, Change::Add(Entry::Policy(..)));
            let outcome = if is_new_flow { Outcome::Refused } else { Outcome::Programmed };
            come.push(may.then_some(outcome));
        }
    }
}
