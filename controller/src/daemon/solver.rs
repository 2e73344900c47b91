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

use super::breaker::Breaker;
use super::health::Pulse;
use super::supervision::or_abort;
use crate::balancer::demand::Demand;
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
    pub(super) fn start(pulse: Arc<Pulse>, breaker: Arc<Breaker>) -> Self {
        let inbox = Arc::new(Inbox::new(pulse));
        let outbox = Outbox {
            plans: watch::Sender::default(),
            pin_plans: watch::Sender::default(),
            solved: watch::Sender::default(),
        };
        let solver = Self {
            inbox: Arc::clone(&inbox),
            plans: outbox.plans.subscribe(),
            pin_plans: outbox.pin_plans.subscribe(),
            solved: outbox.solved.subscribe(),
        };
        std::thread::Builder::new()
            .name("balancer".to_owned())
            .spawn(move || or_abort("balancer", || drive(&inbox, &outbox, &breaker)))
            .expect("the system can start a thread at startup");
        solver
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

/// Where plans go.
struct Outbox {
    plans: watch::Sender<Plan>,
    pin_plans: watch::Sender<Ordered>,
    solved: watch::Sender<u64>,
}

/// What plans are made with, and remembered for the next ones.
struct Planners {
    weights: Balancer,
    pins: Planner,
    demand: Arc<Demand>,
}

impl Planners {
    /// Goes on from a plan of weights, and remembers nothing else.
    fn resume(plan: Plan) -> Self {
        Self {
            weights: Balancer::resume(Limits::default(), plan),
            pins: Planner::default(),
            demand: Arc::default(),
        }
    }

    /// Makes the plans of an order, and publishes each as soon as it is there.
    fn plan(
        &mut self,
        (inputs, pins): &(Inputs, pins::Inputs),
        order: u64,
        now: Duration,
        outbox: &Outbox,
    ) {
        #[cfg(test)]
        tests::refuse_poison(&inputs.topology);
        let publish = |plan: &Plan| drop(outbox.plans.send_replace(plan.clone()));
        match self.weights.handle(inputs, now) {
            Ok(true) => publish(self.weights.plan()),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%error, "no plan; switches are left to their own routing");
                publish(self.weights.plan());
            }
        }
        outbox.solved.send_replace(order);
        let plan = self.pins.handle(self.weights.plan(), pins);
        if let Some(plan) = &plan {
            self.demand = Arc::clone(plan.demand());
        }
        outbox.pin_plans.send_modify(|(last, published)| {
            *last = order;
            if let Some(plan) = plan {
                *published = plan;
            }
        });
        // Last, for it takes longest.
        if self.weights.weigh(&self.demand) {
            publish(self.weights.plan());
        }
    }
}

fn drive(inbox: &Inbox, outbox: &Outbox, breaker: &Breaker) {
    let mut planners = Planners::resume(Plan::default());
    let mut orders: Option<(Box<(Inputs, pins::Inputs)>, u64)> = None;
    let begin = Instant::now();
    loop {
        let due = planners.weights.due();
        let within = due.map(|due| due.saturating_sub(begin.elapsed()));
        match inbox.take(within) {
            Some(Order::Solve(inputs, order)) => orders = Some((inputs, order)),
            Some(Order::Stop) => return,
            None => {}
        }
        let Some((inputs, order)) = &orders else {
            continue;
        };
        let declared = &inputs.1.topology;
        // A panic leaves the plan in force as it was published, and of the planners nothing.
        while !breaker.is_off_for(declared) {
            let now = begin.elapsed();
            let plan = || planners.plan(inputs, *order, now, outbox);
            if breaker.run(declared, plan).is_some() {
                break;
            }
            planners = Planners::resume(outbox.plans.borrow().clone());
        }
    }
}

/// Between two signs of life while there is nothing to do.
const BEAT_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::topology::Topology;
    use crate::fabric::topology::tests::leaf_spine;

    fn start() -> Solver {
        Solver::start(Pulse::new("balancer", Instant::now()), Arc::default())
    }

    /// Panics with a fabric of this name, as planning might with one that nobody foresaw.
    pub(super) fn refuse_poison(topology: &Topology) {
        assert_ne!(topology.display_name(), POISON, "a plan that panics");
    }

    const POISON: &str = "poison";

    #[tokio::test]
    async fn a_fabric_that_panics_leaves_weights_as_they_are_until_another_is_declared() {
        let breaker = Arc::<Breaker>::default();
        let pulse = Pulse::new("balancer", Instant::now());
        let solver = Solver::start(pulse, Arc::clone(&breaker));
        let mut plans = solver.plans();
        let solve = |topology: &Topology, order: u64| {
            let topology = topology.clone();
            let inputs = Inputs {
                topology: Arc::new(topology.clone()),
                ..Inputs::default()
            };
            let pins = pins::Inputs {
                topology,
                ..pins::Inputs::default()
            };
            solver.solve(inputs, pins, order);
        };
        let taken = || solver.inbox.next.lock().unwrap().is_none();
        solve(&leaf_spine(3, 2).with_head("example", 1), 1);
        plans.wait_for(|plan| plan.routes.len() == 3).await.unwrap();
        let revision = plans.borrow_and_update().revision;
        // The second order of the same generation is not tried.
        let poison = leaf_spine(4, 2).with_head(POISON, 2);
        for order in [2, 3] {
            solve(&poison, order);
            while breaker.fault().is_none() || !taken() {
                tokio::task::yield_now().await;
            }
        }
        let kept = solver.plans().borrow().clone();
        assert_eq!((kept.routes.len(), kept.revision), (3, revision));
        assert_eq!(*solver.solved().borrow(), 1);
        solve(&leaf_spine(5, 2).with_head("example", 3), 4);
        let planned = plans.wait_for(|plan| plan.routes.len() == 5).await;
        assert!(planned.unwrap().revision > revision);
        assert_eq!((breaker.fault(), breaker.panics()), (None, 2));
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
