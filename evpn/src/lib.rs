//! The EVPN family: routes, extended communities, mobility, VTEP membership.
