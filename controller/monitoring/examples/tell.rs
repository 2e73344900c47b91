//! Tells a collector one day of a reflector, or writes it to a file, or a table: `tell 127.0.0.1:1790`,
//! `tell FILE`, `tell FILE.mrt`. For trying readers by hand; the tests read the same octets.

#![expect(clippy::unwrap_used, reason = "an example that cannot go on may panic")]

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../tests/readers/story.rs"]
mod story;

fn main() {
    let to = std::env::args().nth(1).expect("an address or a file");
    if to.ends_with(".mrt") {
        fs::write(to, story::table(false, true)).unwrap();
        return;
    }
    let stream = story::stream();
    match to.parse::<SocketAddr>() {
        Err(_) => fs::write(to, stream).unwrap(),
        Ok(collector) => {
            let mut connection = TcpStream::connect(collector).unwrap();
            connection.write_all(&stream).unwrap();
            connection.shutdown(Shutdown::Write).unwrap();
            // A collector has nothing to say; it closes, or resets, when it has read all.
            connection.read_to_end(&mut Vec::new()).ok();
        }
    }
}
