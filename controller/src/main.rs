//! weftd: the replicated BGP EVPN reflector and fabric controller.

fn main() {}
