//! Whatever the values, the octets have the right lengths and NetGauze reads them.
