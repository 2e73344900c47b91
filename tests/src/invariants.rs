//! What must hold after every step, one file each, and what must hold when all is healed. Knows what
//! was observed; changes nothing.

pub(crate) mod agreement;
pub(crate) mod committed;
pub(crate) mod convergence;
pub(crate) mod departure;
pub(crate) mod end_of_rib;
pub(crate) mod epoch;
pub(crate) mod facts;
pub(crate) mod no_withdraw;
pub(crate) mod progress;

/// What is broken, in words.
pub(crate) type Verdict = Result<(), String>;
