//! The table: a short name, and what is said and answered. Names follow the cases of gRIBI's own
//! compliance suite where it has one.
//!
//! `a`, `b` are clients. An answer is compared as a whole, or by its first word when it is one word.
//! A stream's end is `Code` or `Code/REASON`. `params` are redundancy, persistence, acknowledgement.

pub(crate) const CASES: &[(&str, &str)] = &[
    // Sessions.
    (
        "params: single primary, preserve, RIB ack",
        "a params 1 1 0 => ok",
    ),
    (
        "params: single primary, preserve, FIB ack",
        "a params 1 1 1 => ok",
    ),
    (
        "params: all primary is not supported",
        "a params 0 1 1 => Unimplemented/UNSUPPORTED_PARAMS",
    ),
    (
        "params: delete is not supported",
        "a params 1 0 1 => Unimplemented/UNSUPPORTED_PARAMS",
    ),
    (
        "params: unknown value",
        "a params 1 1 9 => Unimplemented/UNSUPPORTED_PARAMS",
    ),
    (
        "params: twice",
        "a params 1 1 1 => ok\na params 1 1 1 => FailedPrecondition/MODIFY_NOT_ALLOWED",
    ),
    (
        "params: differ from the other client",
        "a params 1 1 1 => ok\nb params 1 1 0 => FailedPrecondition/PARAMS_DIFFER_FROM_OTHER_CLIENTS",
    ),
    (
        "params: may differ from a client that is gone",
        "a params 1 1 1 => ok\na close\nb params 1 1 0 => ok",
    ),
    (
        "params: none, and an operation",
        "a add nh 1 192.0.2.2 => Unimplemented/UNSUPPORTED_PARAMS",
    ),
    (
        "params: none, and an election",
        "a elect 1 => FailedPrecondition/ELECTION_ID_IN_ALL_PRIMARY",
    ),
    ("request: two fields", "a mixed => InvalidArgument"),
    ("request: no field", "a empty => InvalidArgument"),
    // Elections.
    (
        "election: zero",
        "a params 1 1 1 => ok\na elect 0 => InvalidArgument",
    ),
    (
        "election: grows",
        "a params 1 1 1 => ok\na elect 3 => 3\na elect 4 => 4",
    ),
    (
        "election: shrinks",
        "a params 1 1 1 => ok\na elect 3 => 3\na elect 2 => InvalidArgument",
    ),
    (
        "election: the reply is the highest",
        "a params 1 1 1 => ok\nb params 1 1 1 => ok\na elect 9 => 9\nb elect 1 => 9",
    ),
    (
        "election: the highest survives its client",
        "a params 1 1 1 => ok\na elect 9 => 9\na close\nb params 1 1 1 => ok\nb elect 1 => 9\n\
         b add nh 1 192.0.2.2 => FAILED not primary: another client has this election id or a higher one",
    ),
    (
        "election: a lower client is not primary",
        "a primary 2\nb params 1 1 1 => ok\nb elect 1 => 2\nb add nh 1 192.0.2.2 => FAILED\n\
         a add nh 1 192.0.2.2 => FIB_PROGRAMMED",
    ),
    (
        "election: failover",
        "a primary 1\na add nh 1 192.0.2.2 => FIB_PROGRAMMED\nb primary 2\n\
         a add nh 2 192.0.2.3 => FAILED\nb add nh 2 192.0.2.3 => FIB_PROGRAMMED",
    ),
    (
        "election: an equal id makes the newer client primary",
        "a primary 1\nb primary 1\na add nh 1 192.0.2.2 => FAILED\nb add nh 1 192.0.2.2 => FIB_PROGRAMMED",
    ),
    (
        "election: an operation with another id",
        "a primary 2\na add nh 1 192.0.2.2 id=1 => FAILED the election id is not the one advertised on this stream\n\
         a add nh 1 192.0.2.2 id=3 => FAILED\na add nh 1 192.0.2.2 id=none => FAILED the operation has no election id\n\
         a add nh 1 192.0.2.2 => FIB_PROGRAMMED",
    ),
    (
        "election: an operation before the election",
        "a params 1 1 1 => ok\na add nh 1 192.0.2.2 id=1 => FAILED no election id was advertised on this stream",
    ),
    // Acknowledgements.
    (
        "ack: RIB",
        "a params 1 1 0 => ok\na elect 1 => 1\na add nh 1 192.0.2.2 => RIB_PROGRAMMED\n\
         a add nhg 1 1:1 => RIB_PROGRAMMED\na add 203.0.113.0/24 1 => RIB_PROGRAMMED\n\
         a delete 203.0.113.0/24 => RIB_PROGRAMMED\nkernel => nh 1 192.0.2.2 ; nhg 1 1:1",
    ),
    (
        "ack: FIB",
        "a primary 1\na add nh 1 192.0.2.2 => FIB_PROGRAMMED\na add nhg 1 1:1 => FIB_PROGRAMMED\n\
         a add 203.0.113.0/24 1 => FIB_PROGRAMMED\nkernel => nh 1 192.0.2.2 ; nhg 1 1:1 ; 203.0.113.0/24 1",
    ),
    (
        "ack: the kernel refuses",
        "a primary 1\nrefuse table full\na add nh 1 192.0.2.2 => FIB_FAILED table full\n\
         get all ALL => next hop 1 192.0.2.2 inactive\naccept\na add nh 1 192.0.2.2 => FIB_PROGRAMMED",
    ),
    (
        "ack: the kernel is asked again",
        "a primary 1\nrefuse table full\na add nh 1 192.0.2.2 => FIB_FAILED\naccept\nlook\nkernel => nh 1 192.0.2.2",
    ),
    (
        "ack: accepted and not active",
        "a primary 1\na add nh 1 203.0.113.9 => RIB_PROGRAMMED 203.0.113.9 is on no connected subnet\n\
         a add nh 2 192.0.2.2 up7 => RIB_PROGRAMMED there is no interface up7\n\
         a add nhg 1 1:1 => RIB_PROGRAMMED no next hop of the group is usable: 203.0.113.9 is on no connected subnet\n\
         a add 203.0.113.0/24 1 => RIB_PROGRAMMED\nkernel =>",
    ),
    // Operations.
    (
        "add: IPv4 entry, with its metadata",
        "a two\na add 203.0.113.0/24 1 meta=plan7 => FIB_PROGRAMMED\n\
         get all IPV4 => 203.0.113.0/24 1 plan7",
    ),
    (
        "add: IPv6 entry",
        "a primary 1\na add nh 1 2001:db8:1::2 => FIB_PROGRAMMED\na add nhg 1 1:1 => FIB_PROGRAMMED\n\
         a add 2001:db8:f::/48 1 => FIB_PROGRAMMED\nget all IPV6 => 2001:db8:f::/48 1",
    ),
    (
        "add: over an existing entry replaces it",
        "a two\na add nhg 1 1:1 2:31 => FIB_PROGRAMMED\na add nh 1 192.0.2.3 => FIB_PROGRAMMED\n\
         kernel => nh 1 192.0.2.3 ; nh 2 198.51.100.2 ; nhg 1 1:1 2:31 ; 203.0.113.0/24 1",
    ),
    (
        "add: forward references fail (TE-3.5)",
        "a primary 1\na batch add 203.0.113.0/24 1 ; add nhg 1 1:1 ; add nh 1 192.0.2.2 \
         => FAILED there is no next-hop group 1 ; FAILED there is no next hop 1 ; FIB_PROGRAMMED",
    ),
    (
        "add: references in one request, in order",
        "a primary 1\na batch add nh 1 192.0.2.2 ; add nhg 1 1:1 ; add 203.0.113.0/24 1 \
         => FIB_PROGRAMMED ; FIB_PROGRAMMED ; FIB_PROGRAMMED",
    ),
    (
        "add: a group that fails leaves the old one",
        "a two\na add nhg 1 1:1 9:1 => FAILED there is no next hop 9\n\
         get all NEXTHOP_GROUP => group 1 1:3 2:1",
    ),
    (
        "replace: missing entries",
        "a primary 1\na replace nh 1 192.0.2.2 => FAILED there is no next hop 1 to replace\n\
         a replace nhg 1 1:1 => FAILED there is no next-hop group 1 to replace\n\
         a replace 203.0.113.0/24 1 => FAILED there is no prefix 203.0.113.0/24 to replace",
    ),
    (
        "replace: existing entries",
        "a two\na replace nh 1 192.0.2.3 => FIB_PROGRAMMED\na replace nhg 1 1:9 2:1 => FIB_PROGRAMMED\n\
         a replace 203.0.113.0/24 1 meta=plan8 => FIB_PROGRAMMED\nget all IPV4 => 203.0.113.0/24 1 plan8",
    ),
    (
        "delete: is idempotent",
        "a primary 1\na delete nh 1 => FIB_PROGRAMMED\na delete nhg 1 => FIB_PROGRAMMED\n\
         a delete 203.0.113.0/24 => FIB_PROGRAMMED\na delete 2001:db8:f::/48 => FIB_PROGRAMMED",
    ),
    (
        "delete: what is referenced stays",
        "a two\na delete nh 1 => FAILED next hop 1 is used by next-hop group 1\n\
         a delete nhg 1 => FAILED next-hop group 1 is used by prefix 203.0.113.0/24",
    ),
    (
        "delete: in reverse order",
        "a two\na delete 203.0.113.0/24 => FIB_PROGRAMMED\na delete nhg 1 => FIB_PROGRAMMED\n\
         a delete nh 2 => FIB_PROGRAMMED\na delete nh 1 => FIB_PROGRAMMED\nkernel =>\nget all ALL =>",
    ),
    (
        "delete: a replaced group frees its old members",
        "a two\na add nhg 1 2:1 => FIB_PROGRAMMED\na delete nh 1 => FIB_PROGRAMMED",
    ),
    (
        "delete: a moved prefix frees its old group",
        "a two\na add nhg 2 1:1 => FIB_PROGRAMMED\na replace 203.0.113.0/24 2 => FIB_PROGRAMMED\n\
         a delete nhg 1 => FIB_PROGRAMMED\nkernel => nh 1 192.0.2.2 ; nh 2 198.51.100.2 ; nhg 2 1:1 ; 203.0.113.0/24 2",
    ),
    (
        "invalid: operation, network instance, entry",
        "a primary 1\na invalid nh 1 192.0.2.2 => FAILED\na add nh 1 192.0.2.2 ni=VRF-1 => FAILED there is no network instance \"VRF-1\"\n\
         a add nothing => FAILED\na add nh 1 192.0.2.2 ni= => InvalidArgument",
    ),
    (
        "invalid: next hops",
        "a primary 1\na add nh 0 192.0.2.2 => FAILED the index is zero\na add nh 1 192.0.2 => FAILED \"192.0.2\" is not an IP address\n\
         a add nh 1 - => FAILED a next hop needs an IP address or an interface\n\
         a add nh 1 fe80::1 => FAILED a link-local next hop needs an interface\n\
         a add nh 1 0.0.0.0 => FAILED",
    ),
    (
        "invalid: groups",
        "a two\na add nhg 0 1:1 => FAILED the id is zero\na add nhg 2 => FAILED a next-hop group needs a next hop\n\
         a add nhg 2 1:1 1:2 => FAILED next hop 1 is a member twice\n\
         a add nhg 2 1:257 => FIB_FAILED weight 257 of next hop 1 is not in 1..=256\n\
         a add nhg 2 1:0 => FIB_FAILED\na add nhg 2 1:256 => FIB_PROGRAMMED",
    ),
    (
        "invalid: prefixes",
        "a two\na add 203.0.113.1/24 1 => FAILED\na add 203.0.113.0/33 1 => FAILED\na add 2001:db8::1/32 1 => FAILED\n\
         a delete 203.0.113.0 => FAILED\na add 198.18.0.0/15 - => FAILED a prefix needs a next-hop group",
    ),
    (
        "invalid: numbers above the id range",
        "a primary 1\na add nh 8388607 192.0.2.2 => FIB_PROGRAMMED\na add nh 8388608 192.0.2.2 => FIB_FAILED",
    ),
    // Get.
    (
        "get: by table",
        "a two\nget all NEXTHOP => next hop 1 192.0.2.2 ; next hop 2 198.51.100.2\nget all NEXTHOP_GROUP => group 1 1:3 2:1\n\
         get name=DEFAULT IPV4 => 203.0.113.0/24 1\nget all IPV6 =>\n\
         get all ALL => next hop 1 192.0.2.2 ; next hop 2 198.51.100.2 ; group 1 1:3 2:1 ; 203.0.113.0/24 1",
    ),
    (
        "get: invalid",
        "get none ALL => InvalidArgument\nget name= ALL => InvalidArgument\nget name=VRF-1 ALL => InvalidArgument\n\
         get all INVALID => InvalidArgument\nget all MPLS => Unimplemented",
    ),
    // Policy forwarding entries. This switch has no VXLAN device, and so none of them is in force.
    (
        "policy: each network instance has indexes of its own",
        "a two\na add pfe 1 10.0.0.1/32 1 ni=vni-100 => RIB_PROGRAMMED there is no VXLAN device for vni-100\n\
         a add pfe 1 10.0.0.1/32 1 ni=vni-200 => RIB_PROGRAMMED\na add pfe 2 10.0.0.2/32 1 ni=vni-100 => RIB_PROGRAMMED\n\
         get all POLICY_FORWARDING => vni-100 policy 1 10.0.0.1/32 1 inactive ; vni-100 policy 2 10.0.0.2/32 1 inactive ; vni-200 policy 1 10.0.0.1/32 1 inactive\n\
         get name=vni-200 ALL => vni-200 policy 1 10.0.0.1/32 1 inactive\n\
         get name=DEFAULT ALL => next hop 1 192.0.2.2 ; next hop 2 198.51.100.2 ; group 1 1:3 2:1 ; 203.0.113.0/24 1",
    ),
    (
        "policy: a group that is used stays",
        "a two\na add pfe 1 10.0.0.1/32 1 ni=vni-100 => RIB_PROGRAMMED\na delete 203.0.113.0/24 => FIB_PROGRAMMED\n\
         a delete nhg 1 => FAILED next-hop group 1 is used by policy forwarding entry 1 of vni-100\n\
         flush override name=DEFAULT => NON_ZERO_REFERENCE_REMAIN\n\
         get all ALL => next hop 1 192.0.2.2 ; next hop 2 198.51.100.2 ; group 1 1:3 2:1 ; vni-100 policy 1 10.0.0.1/32 1 inactive\n\
         flush override name=vni-100 => OK\nflush override name=DEFAULT => OK\nget all ALL =>\nkernel =>",
    ),
    (
        "policy: invalid",
        "a two\na add pfe 1 10.0.0.1/32 1 => FAILED there is no network instance \"DEFAULT\"\n\
         a add pfe 1 10.0.0.1/32 1 ni=vni-0100 => FAILED there is no network instance \"vni-0100\"\n\
         a add pfe 0 10.0.0.1/32 1 ni=vni-100 => FAILED the index is zero\n\
         a add pfe 1 10.0.0.0/24 1 ni=vni-100 => FAILED 10.0.0.0/24 is more than one address; that is not supported\n\
         a add pfe 1 10.0.0.1/32 2 ni=vni-100 => FAILED there is no next-hop group 2\n\
         a replace pfe 1 10.0.0.1/32 1 ni=vni-100 => FAILED there is no policy forwarding entry 1 of vni-100 to replace\n\
         a add pfe 1 10.0.0.1/32 1 ni=vni-100 => RIB_PROGRAMMED\na add nh 9 192.0.2.2 ni=vni-100 => FAILED there is no network instance \"vni-100\"\n\
         a add pfe 2 10.0.0.1/32 1 ni=vni-100 => FAILED policy forwarding entry 1 of vni-100 is for vni-100, 10.0.0.1 already",
    ),
    // Flush.
    (
        "flush: by election id",
        "a two\nflush id=1 all => OK\nkernel =>\nget all ALL =>\na add nh 1 192.0.2.2 => FIB_PROGRAMMED\n\
         flush id=5 name=DEFAULT => OK\nkernel =>",
    ),
    (
        "flush: lower election id",
        "a primary 5\nflush id=4 all => FailedPrecondition/NOT_PRIMARY",
    ),
    (
        "flush: override",
        "a two\nflush override all => OK\nkernel =>",
    ),
    (
        "flush: zero",
        "flush id=0 all => InvalidArgument/INVALID_ELECTION_ID",
    ),
    (
        "flush: no election",
        "flush none all => FailedPrecondition/UNSPECIFIED_ELECTION_BEHAVIOR",
    ),
    (
        "flush: network instances",
        "flush override none => InvalidArgument/UNSPECIFIED_NETWORK_INSTANCE\n\
         flush override name= => InvalidArgument/INVALID_NETWORK_INSTANCE\n\
         flush override name=VRF-1 => InvalidArgument/NO_SUCH_NETWORK_INSTANCE",
    ),
    // Links, and clients that go.
    (
        "preserve: a disconnect changes nothing",
        "a two\na close\nkernel => nh 1 192.0.2.2 ; nh 2 198.51.100.2 ; nhg 1 1:3 2:1 ; 203.0.113.0/24 1",
    ),
    (
        "link: down and up",
        "a two\ndown up2\nkernel => nh 1 192.0.2.2 ; nhg 1 1:3 ; 203.0.113.0/24 1\n\
         get all NEXTHOP => next hop 1 192.0.2.2 ; next hop 2 198.51.100.2 inactive\nup up2\n\
         kernel => nh 1 192.0.2.2 ; nh 2 198.51.100.2 ; nhg 1 1:3 2:1 ; 203.0.113.0/24 1",
    ),
    (
        "link: all down leaves no black hole",
        "a two\ndown up1\ndown up2\nkernel =>\na add 198.18.0.0/15 1 => RIB_PROGRAMMED\nup up1\n\
         kernel => nh 1 192.0.2.2 ; nhg 1 1:3 ; 198.18.0.0/15 1 ; 203.0.113.0/24 1",
    ),
    (
        "link: changes while down",
        "a two\ndown up2\na replace nhg 1 1:1 2:5 => FIB_PROGRAMMED\nkernel => nh 1 192.0.2.2 ; nhg 1 1:1 ; 203.0.113.0/24 1\n\
         up up2\nkernel => nh 1 192.0.2.2 ; nh 2 198.51.100.2 ; nhg 1 1:1 2:5 ; 203.0.113.0/24 1",
    ),
    (
        "responses go to their own client",
        "a two\nb params 1 1 1 => ok\nb elect 2 => 2\nb add nh 1 192.0.2.3 => FIB_PROGRAMMED\n\
         a add nh 1 192.0.2.4 => FAILED\nb add nh 1 192.0.2.5 => FIB_PROGRAMMED",
    ),
];
