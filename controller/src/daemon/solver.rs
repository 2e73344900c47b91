//! The thread that makes plans: it may take a second for a large fabric, and nothing waits for it.
//!
//! ```text
//! switches task --inputs, the latest wins--> balancer thread (1x per daemon) --plans, the latest win--> switches task
//! ```

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use weft_weights::quantize::Limits;

use super::health::Pulse;
use super::supervision::or_abort;
use crate::balancer::pins::{self, PinPlan, Planner};
use crate::balancer::{Balancer, Inputs, Plan};

/// A handle on the thread, which ends with it.
pub(super) struct Solver {
    inbox: Arc<Inbox>,
    plans: watch::Receiver<Plan>,
    pin_plans: watch::Receiver<Ordered>,
    solved: watch::Receiver<u64>,
}

/// At most one order waits: a newer one replaces it.
struct Inbox {
    next: Mutex<Option<Order>>,
    arrived: Condvar,
    pulse: Arc<Pulse>,
}

/// A plan of pins, and the number of the last order that it is for.
pub(super) type Ordered = (u64, Arc<PinPlan>);

enum Order {
    Solve(Box<(Inputs, pins::Inputs)>, u64),
    Stop,
}

impl Inbox {
    fn new(pulse: Arc<Pulse>) -> Self {
        Self {
            next: Mutex::default(),
            arrived: Condvar::new(),
            pulse,
        }
    }

    fn put(&self, order: Order) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(order);
        self.arrived.notify_one();
    }

    /// Waits for an order, as long as given, and beats meanwhile; None: none came.
    fn take(&self, within: Option<Duration>) -> Option<Order> {
        let mut left = within.unwrap_or(Duration::MAX);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.pulse.beat();
            let wait = left.min(BEAT_EVERY);
            let waited = self
                .arrived
                .wait_timeout_while(next, wait, |it| it.is_none());
            next = waited.unwrap_or_else(PoisonError::into_inner).0;
            left = left.saturating_sub(wait);
            if next.is_some() || left.is_zero() {
                return next.take();
            }
        }
    }
}

impl Solver {
    /// Starts the thread. There is no plan yet.
    pub(super) fn start(pulse: Arc<Pulse>) -> Self {
        let inbox = Arc::new(Inbox::new(pulse));
        let (publish, plans) = watch::channel(Plan::default());
        let (publish_pins, pin_plans) = watch::channel(Ordered::default());
        let (finish, solved) = watch::channel(0);
        let orders = Arc::clone(&inbox);
        std::thread::Builder::new()
            .name("balancer".to_owned())
            .spawn(move || {
                or_abort("balancer", || {
                    drive(&orders, &publish, &publish_pins, &finish)
                })
            })
            .expect("the system can start a thread at startup");
        Self {
            inbox,
            plans,
            pin_plans,
            solved,
        }
    }

    /// Hands over what the next plans follow from. What was handed over before and was not begun is forgotten.
    /// `order` is its number.
    pub(super) fn solve(&self, inputs: Inputs, pins: pins::Inputs, order: u64) {
        self.inbox
            .put(Order::Solve(Box::new((inputs, pins)), order));
    }

    /// The plan in force, now and later.
    pub(super) fn plans(&self) -> watch::Receiver<Plan> {
        self.plans.clone()
    }

    /// Number of the last order that the plan in force was made for.
    pub(super) fn solved(&self) -> watch::Receiver<u64> {
        self.solved.clone()
    }

    /// The plan of pins, likewise. It comes after the plan of weights that it is made for.
    pub(super) fn pin_plans(&self) -> watch::Receiver<Ordered> {
        self.pin_plans.clone()
    }
}

impl Drop for Solver {
    fn drop(&mut self) {
        self.inbox.put(Order::Stop);
    }
}

fn drive(
    inbox: &Inbox,
    publish: &watch::Sender<Plan>,
    publish_pins: &watch::Sender<Ordered>,
    finish: &watch::Sender<u64>,
) {
    let mut balancer = Balancer::new(Limits::default());
    let mut planner = Planner::default();
    let mut orders: Option<(Box<(Inputs, pins::Inputs)>, u64)> = None;
    let mut known = Arc::default();
    let begin = Instant::now();
    loop {
        let due = balancer.due();
        let within = due.map(|due| due.saturating_sub(begin.elapsed()));
        match inbox.take(within) {
            Some(Order::Solve(inputs, order)) => orders = Some((inputs, order)),
            Some(Order::Stop) => return,
            None => {}
        }
        let Some((inputs, order)) = &orders else {
            continue;
        };
        let (inputs, pins) = &**inputs;
        match balancer.handle(inputs, begin.elapsed()) {
            Ok(true) => drop(publish.send_replace(balancer.plan().clone())),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, "no plan; switches are left to their own routing");
                publish.send_replace(balancer.plan().clone());
            }
        }
        finish.send_replace(*order);
        let plan = planner.handle(balancer.plan(), pins);
        let demand = plan.as_ref().map(|plan| Arc::clone(plan.demand()));
        publish_pins.send_modify(|(last, published)| {
            *last = *order;
            if let Some(plan) = plan {
                *published = plan;
            }
        });
        // Last, for it takes longest.
        known = demand.unwrap_or(known);
        if balancer.weigh(&known) {
            publish.send_replace(balancer.plan().clone());
        }
    }
}

/// Between two signs of life while there is nothing to do.
const BEAT_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::tests::leaf_spine;

    fn start() -> Solver {
        Solver::start(Pulse::new("balancer", Instant::now()))
    }

    #[tokio::test]
    async fn the_last_of_many_inputs_is_the_one_that_is_planned() {
        let solver = start();
        let mut plans = solver.plans();
        for leaves in 2..=20 {
            let inputs = Inputs {
                topology: Arc::new(leaf_spine(leaves, 2)),
                ..Inputs::default()
            };
            solver.solve(inputs, pins::Inputs::default(), 1);
        }
        let planned = plans.wait_for(|plan| plan.leaves().count() == 20).await;
        assert_eq!(planned.unwrap().routes.len(), 20);
    }

    #[test]
    fn the_thread_ends_with_its_handle() {
        let solver = start();
        let plans = solver.plans();
        drop(solver);
        while plans.has_changed().is_ok() {
            std::thread::yield_now();
        }
    }
}
