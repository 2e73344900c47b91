//! BGP-4 without I/O: octets, sessions, tables, decision, reflection, update groups.
