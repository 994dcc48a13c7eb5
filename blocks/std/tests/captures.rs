//! Public captures, replayed through the host's graph: with any contents nothing panics, no buffer
//! is lost, and every packet has exactly one fate.
//!
//! A few captures lie beside this file. `WEEVER_CAPTURES=DIR cargo test -p weever-blocks-std --test
//! captures -- --nocapture` replays every capture below a folder as well: the tests of tcpdump and
//! Wireshark, for example.

mod captures {
    pub(crate) mod files;
    pub(crate) mod frames;
    pub(crate) mod hosts;
}

use std::path::Path;

use captures::files::{Replay, found_below};
use captures::hosts::Hosts;

fn replay_all(folder: &Path) -> Replay {
    let mut hosts = Hosts::new();
    let mut replay = Replay::default();
    for file in found_below(folder) {
        replay.file(&file, &mut hosts);
    }
    let (sent, drops) = hosts.finish();
    println!("{}: {replay}, {sent} frames sent, {drops} dropped for a reason", folder.display());
    replay
}

#[test]
fn the_captures_of_tcpdump_are_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/tcpdump");
    let replay = replay_all(&folder);
    assert_eq!((replay.files, replay.packets, replay.broken), (28, 97, 0), "{replay}");
}

#[test]
fn whatever_captures_there_are_is_survived() {
    let Some(folder) = std::env::var_os("WEEVER_CAPTURES") else {
        println!("skipped: needs WEEVER_CAPTURES=DIR");
        return;
    };
    let replay = replay_all(Path::new(&folder));
    assert!(replay.packets > 0, "{replay}");
}
