//! The session as its edge sees it: every (state, input) pair, stories, random inputs, and two
//! sessions that talk to each other. It refuses to look inside.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

#[path = "session/chaos.rs"]
mod chaos;
#[path = "session/golden.rs"]
mod golden;
#[path = "session/pair.rs"]
mod pair;
#[path = "session/script.rs"]
mod script;
#[path = "session/table.rs"]
mod table;
#[path = "session/words.rs"]
mod words;
