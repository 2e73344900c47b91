//! Privacy of a process: its files, its memory and its core dumps are for its own user. It refuses to know what is in them.

use std::io;

use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};

/// Makes files that the process creates from now on unreadable for group and others, and ends core dumps and access of other
/// processes of the same user to its memory (`PR_SET_DUMPABLE`, proc_pid(5)). Both hold for all threads.
///
/// # Errors
///
/// The error of the system. The mode of new files is set then.
pub fn make_private() -> io::Result<()> {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
    Ok(prctl::set_dumpable(false)?)
}
