//! Threads and tasks without which a replica is only half alive: when one of them panics the daemon had better be dead, so
//! that the others notice and the peers move. Planning is none: see [`breaker`](super::breaker).

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
        weft_log::abort();
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
            weft_log::abort();
        }
    }
}

/// Runs a part of a thread that others can do without; if it panics, the reason. The caller uses nothing of what the part may have left
/// halfway: so it is safe to go on.
pub(crate) fn caught<T>(part: impl FnOnce() -> T) -> Result<T, String> {
    let caught = std::panic::catch_unwind(AssertUnwindSafe(part));
    caught.map_err(|panic| reason(&*panic).to_owned())
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
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc;
    use std::time::Duration;

    use weft_log::Form;

    use super::*;

    /// Set in the process that is to panic: which of its parts does.
    const PART: &str = "WEFT_TEST_PANIC";

    /// A test of this file in a process of its own, where `PART` is set.
    fn command(test: &str) -> Command {
        let own = std::env::current_exe().unwrap();
        let name = format!("daemon::supervision::tests::{test}");
        let mut command = Command::new(own);
        command
            .args(["--exact", &name, "--nocapture"])
            .env(PART, test)
            .env_remove("RUST_LOG")
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    fn start(test: &str) -> Child {
        command(test).spawn().unwrap()
    }

    fn is_child(test: &str) -> bool {
        std::env::var(PART).is_ok_and(|part| part == test)
    }

    fn assert_aborted(child: Child, name: &str) {
        let output = child.wait_with_output().unwrap();
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
            let _flush = weft_log::start(Form::Text);
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
        assert_aborted(start(test), "leadership");
    }

    #[test]
    fn a_thread_that_panics_ends_the_process_with_its_name() {
        let test = "a_thread_that_panics_ends_the_process_with_its_name";
        if is_child(test) {
            let _flush = weft_log::start(Form::Text);
            return or_abort("balancer", || panic!("out of parts"));
        }
        assert_aborted(start(test), "balancer");
    }

    #[test]
    fn a_panic_is_logged_before_an_abort_whatever_rust_log_chooses() {
        let test = "a_panic_is_logged_before_an_abort_whatever_rust_log_chooses";
        if is_child(test) {
            let _flush = weft_log::start(Form::Text);
            let drive: fn() = || panic!("out of parts");
            let _ = std::panic::catch_unwind(drive);
            std::process::abort();
        }
        for filter in ["weft_controller=debug", "off", "info"] {
            let child = command(test).env("RUST_LOG", filter).spawn().unwrap();
            assert_aborted(child, file!());
        }
    }

    #[test]
    fn a_thread_that_panics_ends_the_process_though_nobody_reads_the_log() {
        let test = "a_thread_that_panics_ends_the_process_though_nobody_reads_the_log";
        if is_child(test) {
            let _flush = weft_log::start(Form::Text);
            // A pipe holds 64 KiB, the queue 1 MiB.
            for number in 0..20_000 {
                tracing::info!(number, "connection from an address that is no peer");
            }
            return or_abort("balancer", || panic!("out of parts"));
        }
        let mut child = start(test);
        let _unread = child.stderr.take();
        let pid = child.id();
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait().unwrap()));
        let status = ended.recv_timeout(Duration::from_secs(60));
        let status = status.unwrap_or_else(|_| panic!("process {pid} waits for its log"));
        assert_eq!(status.signal(), Some(6));
    }
}
