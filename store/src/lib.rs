//! Replicated facts: Raft on RocksDB, sans-IO towards the network and the clock.
