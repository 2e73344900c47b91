//! What the network is: facts that an operator declares, typed and validated.
//!
//! Pure. It refuses to know what is done with them: weights, plans, streams.

pub mod decision;
pub mod declared;
pub mod fact;
pub mod hold;
pub mod job;
pub mod live;
pub mod measured;
pub mod mode;
pub mod pin;
pub mod place;
pub mod reach;
pub mod topology;
