//! EVPN NLRI: what a core decodes and encodes in a second, in octets.
//!
//! `cargo bench --profile release -p weft-evpn` (the one profile; without it cargo compiles all once more).

use criterion::{Criterion, Throughput, criterion_group, criterion_main};

use weft_bgp::nlri::{Nlri, decode_all};
use weft_bgp::wire::Writer;
use weft_evpn::Route;

/// `count` NLRI of this shape; the numbers stand where they make them differ.
fn routes(shape: &[u8], at: usize, count: u16) -> Vec<Route> {
    let mut octets = Vec::new();
    for number in 0..count {
        let mut one = shape.to_vec();
        one[at..at + 2].copy_from_slice(&number.to_be_bytes());
        octets.extend(one);
    }
    let mut routes = Vec::new();
    decode_all::<Route>(
        &octets,
        false,
        |_, route| routes.push(route),
        |error| panic!("{error}"),
    )
    .expect("framed");
    routes
}

fn bench(criterion: &mut Criterion, name: &str, routes: &[Route]) {
    let mut out = Writer::new();
    routes.iter().for_each(|route| route.encode(&mut out));
    let octets = out.finish();
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Bytes(octets.len() as u64));
    group.bench_function("decode", |bencher| {
        bencher.iter(|| {
            let mut all = Vec::with_capacity(routes.len());
            decode_all::<Route>(&octets, false, |_, route| all.push(route), drop).expect("framed");
            all
        });
    });
    group.bench_function("encode", |bencher| {
        bencher.iter(|| {
            let mut out = Writer::with_capacity(octets.len());
            routes.iter().for_each(|route| route.encode(&mut out));
            out
        });
    });
    group.bench_function("storage", |bencher| {
        bencher.iter(|| {
            let mut all = Vec::with_capacity(octets.len());
            for route in routes {
                Route::key_octets(&route.key(), &mut all);
                route.payload_octets(&mut all);
            }
            all
        });
    });
    group.finish();
}

fn types(criterion: &mut Criterion) {
    let mut mac_ip = vec![2, 40, 0, 1, 192, 0, 2, 1, 0, 100];
    mac_ip.extend([0; 14]);
    mac_ip.extend([
        48, 2, 0, 0x5e, 0x53, 0, 0, 32, 10, 0, 0, 1, 0, 0, 100, 0, 0, 200,
    ]);
    bench(
        criterion,
        "1000 type 2, IPv4, two labels",
        &routes(&mac_ip, 29, 1000),
    );
    let multicast = [
        3, 17, 0, 1, 192, 0, 2, 1, 0, 100, 0, 0, 0, 0, 32, 192, 0, 2, 1,
    ];
    bench(criterion, "1000 type 3", &routes(&multicast, 8, 1000));
    let mut prefix = vec![5, 34, 0, 1, 192, 0, 2, 1, 0, 200];
    prefix.extend([0; 14]);
    prefix.extend([24, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200]);
    bench(criterion, "1000 type 5, IPv4", &routes(&prefix, 26, 1000));
}

criterion_group!(benches, types);
criterion_main!(benches);
