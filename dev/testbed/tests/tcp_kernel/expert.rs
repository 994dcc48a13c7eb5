//! What another reader of TCP thinks: tshark's expert analysis of all that went over the cable.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use weever_link::pcap::{Format, Record, Writer};

/// The frames of a host in both directions, in a file that goes with it.
pub(crate) struct Capture {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
}

impl Capture {
    pub(crate) fn new(name: &str) -> Capture {
        let file = format!("weever-{}-{name}.pcap", std::process::id());
        let path = std::env::temp_dir().join(file);
        let file = BufWriter::new(File::create(&path).unwrap());
        Capture { path, writer: Writer::new(file, Format::Pcap, "weever's tests").unwrap() }
    }

    pub(crate) fn write(&mut self, time: u64, frame: &[u8]) {
        self.writer.write(&Record::whole(time, frame)).unwrap();
    }

    /// Frames that tshark finds something wrong with, a line each: those that match any of `filters`.
    pub(crate) fn findings(self, filters: &[&str]) -> Vec<String> {
        let Capture { path, mut writer } = self;
        writer.flush().unwrap();
        let lines = filters.iter().flat_map(|filter| lines(&path, filter)).collect();
        std::fs::remove_file(&path).unwrap();
        lines
    }
}

fn lines(path: &Path, filter: &str) -> Vec<String> {
    // Octets of streams are no protocol, though they may look like one.
    let options = "-d tcp.port==1-65535,data -o tcp.check_checksum:TRUE -o ip.check_checksum:TRUE \
                   -T fields -e frame.number -e ip.src -e _ws.expert.message";
    let output = Command::new("tshark")
        .args(options.split_whitespace())
        .args(["-Y", filter, "-r"])
        .arg(path)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{filter}: {errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Whether tshark can be run; says so if it cannot.
pub(crate) fn is_there() -> bool {
    let there = Command::new("tshark").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: needs tshark (.ci/run setup)");
    }
    there
}
