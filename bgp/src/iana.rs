//! Names that IANA gives to BGP's numbers. Knows what a number is called, not what it does.

/// Names of a NOTIFICATION's error code and subcode. "BGP Error (Notification) Codes".
#[must_use]
pub fn notification_names(code: u8, subcode: u8) -> (Option<&'static str>, Option<&'static str>) {
    let Some((_, name, subcodes)) = NOTIFICATIONS.iter().find(|row| row.0 == code) else {
        return (None, None);
    };
    let subcode = subcodes
        .iter()
        .find(|row| row.0 == subcode)
        .map(|row| row.1);
    (Some(name), subcode)
}

/// Name of a capability code. "Capability Codes".
#[must_use]
pub fn capability_name(code: u8) -> Option<&'static str> {
    CAPABILITIES
        .iter()
        .find(|row| row.0 == code)
        .map(|row| row.1)
}

type Names = &'static [(u8, &'static str)];

const NOTIFICATIONS: &[(u8, &str, Names)] = &[
    (
        1,
        "Message Header Error",
        &[
            (1, "Connection Not Synchronized"),
            (2, "Bad Message Length"),
            (3, "Bad Message Type"),
        ],
    ),
    (
        2,
        "OPEN Message Error",
        &[
            (1, "Unsupported Version Number"),
            (2, "Bad Peer AS"),
            (3, "Bad BGP Identifier"),
            (4, "Unsupported Optional Parameter"),
            (6, "Unacceptable Hold Time"),
            (7, "Unsupported Capability"),
            (11, "Role Mismatch"),
        ],
    ),
    (
        3,
        "UPDATE Message Error",
        &[
            (1, "Malformed Attribute List"),
            (2, "Unrecognized Well-known Attribute"),
            (3, "Missing Well-known Attribute"),
            (4, "Attribute Flags Error"),
            (5, "Attribute Length Error"),
            (6, "Invalid ORIGIN Attribute"),
            (8, "Invalid NEXT_HOP Attribute"),
            (9, "Optional Attribute Error"),
            (10, "Invalid Network Field"),
            (11, "Malformed AS_PATH"),
        ],
    ),
    (4, "Hold Timer Expired", &[]),
    (
        5,
        "Finite State Machine Error",
        &[
            (1, "Receive Unexpected Message in OpenSent State"),
            (2, "Receive Unexpected Message in OpenConfirm State"),
            (3, "Receive Unexpected Message in Established State"),
        ],
    ),
    (
        6,
        "Cease",
        &[
            (1, "Maximum Number of Prefixes Reached"),
            (2, "Administrative Shutdown"),
            (3, "Peer De-configured"),
            (4, "Administrative Reset"),
            (5, "Connection Rejected"),
            (6, "Other Configuration Change"),
            (7, "Connection Collision Resolution"),
            (8, "Out of Resources"),
            (9, "Hard Reset"),
            (10, "BFD Down"),
        ],
    ),
    (
        7,
        "ROUTE-REFRESH Message Error",
        &[(1, "Invalid Message Length")],
    ),
    (8, "Send Hold Timer Expired", &[]),
];

const CAPABILITIES: Names = &[
    (1, "Multiprotocol Extensions"),
    (2, "Route Refresh"),
    (5, "Extended Next Hop Encoding"),
    (6, "BGP Extended Message"),
    (9, "BGP Role"),
    (64, "Graceful Restart"),
    (65, "4-octet AS number"),
    (69, "ADD-PATH"),
    (70, "Enhanced Route Refresh"),
    (71, "Long-Lived Graceful Restart"),
    (73, "FQDN"),
    (75, "Software Version"),
];
