//! Threads and tasks without which a replica is only half alive: when one of them panics the daemon had better be dead, so
//! that the others notice and the peers move.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Runs a thread to its end; if it panics the process ends, with the name of the thread in the log.
pub(crate) fn or_abort(thread: &str, drive: impl FnOnce()) {
    if let Err(panic) = std::panic::catch_unwind(AssertUnwindSafe(drive)) {
        tracing::error!(
            thread,
            reason = reason(&*panic),
            "the thread panicked; so ends the daemon"
        );
        std::process::abort();
    }
}

/// Runs a task to its end; if it panics the process ends, with the name of the task in the log.
pub(crate) async fn supervised<T>(task: &str, drive: impl Future<Output = T>) -> T {
    match AssertUnwindSafe(drive).catch_unwind().await {
        Ok(output) => output,
        Err(panic) => {
            tracing::error!(
                task,
                reason = reason(&*panic),
                "the task panicked; so ends the daemon"
            );
            std::process::abort();
        }
    }
}

/// The tasks of a daemon, which end with it.
#[derive(Default)]
pub(crate) struct Tasks(JoinSet<()>);

impl Tasks {
    /// Starts a supervised task.
    pub(crate) fn spawn(
        &mut self,
        task: &'static str,
        drive: impl Future<Output = ()> + Send + 'static,
    ) {
        self.0.spawn(supervised(task, drive));
    }

    /// Starts a supervised task on another runtime.
    pub(crate) fn spawn_on(
        &mut self,
        task: &'static str,
        runtime: &Handle,
        drive: impl Future<Output = ()> + Send + 'static,
    ) {
        self.0.spawn_on(supervised(task, drive), runtime);
    }

    /// Ends all of them.
    pub(crate) async fn shutdown(&mut self) {
        self.0.shutdown().await;
    }
}

fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};

    use super::*;

    /// Set in the process that is to panic: which of its parts does.
    const PART: &str = "WEFT_TEST_PANIC";

    /// Runs a test of this file in a process of its own, where `PART` is set.
    fn run(test: &str) -> Output {
        let own = std::env::current_exe().unwrap();
        let name = format!("daemon::supervision::tests::{test}");
        Command::new(own)
            .args(["--exact", &name, "--nocapture"])
            .env(PART, test)
            .output()
            .unwrap()
    }

    fn is_child(test: &str) -> bool {
        let child = std::env::var(PART).is_ok_and(|part| part == test);
        if child {
            tracing_subscriber::fmt()
                .with_writer(std::io::stderr)
                .init();
        }
        child
    }

    fn assert_aborted(output: &Output, name: &str) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{said}");
        assert!(
            said.contains(name) && said.contains("out of parts"),
            "{said}"
        );
    }

    #[test]
    fn a_task_that_panics_ends_the_process_with_its_name() {
        let test = "a_task_that_panics_ends_the_process_with_its_name";
        if is_child(test) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut tasks = Tasks::default();
                tasks.spawn("leadership", async { panic!("out of {}", "parts") });
                while tasks.0.join_next().await.is_some() {}
            });
            return;
        }
        assert_aborted(&run(test), "leadership");
    }

    #[test]
    fn a_thread_that_panics_ends_the_process_with_its_name() {
        let test = "a_thread_that_panics_ends_the_process_with_its_name";
        if is_child(test) {
            return or_abort("balancer", || panic!("out of parts"));
        }
        assert_aborted(&run(test), "balancer");
    }
}
