//! The kernel leaves applications' ephemeral ports alone.
//!
//! `net.ipv4.ip_local_reserved_ports` has the ports that the kernel does not choose by itself, for either family. Those
//! that are added here are given back at the end, unless the ports outlive the stack: then marks beside their pins tell
//! which were added, and `weever release` gives them back.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use weever_link_sys::af_xdp::{Pins, Steering};

use super::holders;
use crate::config::PortRange;
use crate::stack::StartError;

const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";
/// Before the range in a mark's name.
const MARK: &str = "reserved-";

/// Ports that were added to the kernel's list.
#[derive(Debug)]
pub(in crate::stack) struct ReservedRange {
    list: KernelList,
    added: Vec<RangeInclusive<u16>>,
    /// They outlive the stack.
    kept: bool,
}

impl ReservedRange {
    /// Has the kernel leave the ports of a range alone, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// When a kernel socket on one of these addresses has one of them already, or the kernel's list cannot be changed.
    pub(in crate::stack) fn new(
        range: PortRange,
        addresses: &[IpAddr],
    ) -> Result<ReservedRange, StartError> {
        let range = range.first..=range.last;
        let failed =
            |source| StartError::Io { what: "reserve ephemeral ports in the kernel", source };
        let list = KernelList::open().map_err(failed)?;
        let before = list.read().map_err(failed)?;
        let added = runs(range.clone().filter(|port| !before[usize::from(*port)]));
        list.change(&added, true).map_err(failed)?;
        let reserved = ReservedRange { list, added, kept: false };
        // What was reserved before was bound by its number, be it by an application of the stack before.
        let bound = holders::first_in(range.clone(), addresses, |port| before[usize::from(port)]);
        if let Some(holder) = bound {
            tracing::warn!(
                "apps-ephemeral: {holder} is among them, and gets nothing by shared devices"
            );
        }
        // After that, so that none is chosen meanwhile.
        match holders::first_in(range.clone(), addresses, |port| !before[usize::from(port)]) {
            None => Ok(reserved),
            Some(holder) => Err(StartError::Setting(format!(
                "apps-ephemeral = {}-{}: {holder} is among them; stop that, or give another range",
                range.start(),
                range.end()
            ))),
        }
    }

    /// The ports outlive the stack, as those of these devices' steering do.
    pub(in crate::stack) fn keep(&mut self, steering: &[Arc<Steering>]) {
        self.kept = self.added.iter().all(|range| {
            let name = format!("{MARK}{}-{}", range.start(), range.end());
            steering.iter().all(|steering| steering.mark(&name).is_ok_and(|marked| marked))
        });
    }
}

impl Drop for ReservedRange {
    fn drop(&mut self) {
        if !self.kept
            && let Err(error) = self.list.change(&self.added, false)
        {
            tracing::warn!("ephemeral ports stay reserved in {RESERVED}: {error}");
        }
    }
}

/// Gives back all that outlives a stack on a device: its ports, and those that were added to the kernel's list.
///
/// # Errors
/// The system's word.
pub(crate) fn release(pins: &Pins) -> io::Result<()> {
    pins.names()?.iter().try_for_each(|name| give_back(name))?;
    pins.remove()
}

/// Gives back what a mark with this name tells; other names are passed over.
fn give_back(mark: &str) -> io::Result<()> {
    let range = mark.strip_prefix(MARK).and_then(|range| range.split_once('-'));
    let range = range.and_then(|(first, last)| Some(first.parse().ok()?..=last.parse().ok()?));
    range.map_or(Ok(()), |range| KernelList::open()?.change(&[range], false))
}

/// The kernel's list of the network namespace in which it was opened, whichever thread changes it.
#[derive(Debug)]
struct KernelList(File);

impl KernelList {
    fn open() -> io::Result<KernelList> {
        File::options().read(true).write(true).open(RESERVED).map(KernelList)
    }

    /// Whether each port is reserved.
    fn read(&self) -> io::Result<Vec<bool>> {
        // The kernel gives all in one call, or what fits.
        let mut text = vec![0; 1 << 19];
        let len = self.0.read_at(&mut text, 0)?;
        Ok(parse(&String::from_utf8_lossy(&text[..len])))
    }

    fn change(&self, ranges: &[RangeInclusive<u16>], reserve: bool) -> io::Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let mut ports = self.read()?;
        ranges.iter().flat_map(Clone::clone).for_each(|port| ports[usize::from(port)] = reserve);
        let all = runs((0..=u16::MAX).filter(|port| ports[usize::from(*port)]));
        let words: Vec<String> = all.iter().map(|r| format!("{}-{}", r.start(), r.end())).collect();
        // The kernel takes the list of one call.
        self.0.write_all_at((words.join(",") + "\n").as_bytes(), 0)
    }
}

/// A list as the kernel writes it: `8080,9000-9010`.
fn parse(list: &str) -> Vec<bool> {
    let mut ports = vec![false; 1 << 16];
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            (first..=last).for_each(|port| ports[usize::from(port)] = true);
        }
    }
    ports
}

/// Ascending ports as ranges.
fn runs(ports: impl Iterator<Item = u16>) -> Vec<RangeInclusive<u16>> {
    let mut runs: Vec<RangeInclusive<u16>> = Vec::new();
    for port in ports {
        match runs.last_mut() {
            Some(run) if u32::from(*run.end()) + 1 == u32::from(port) => *run = *run.start()..=port,
            _ => runs.push(port..=port),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read_and_written() {
        let ports = parse("53,8080-8082,61000-61001\n");
        let found = runs((0..=u16::MAX).filter(|port| ports[usize::from(*port)]));
        assert_eq!(found, [53..=53, 8080..=8082, 61000..=61001]);
        assert!(parse("\n").iter().all(|reserved| !reserved));
        assert_eq!(runs([65534, 65535].into_iter()), [65534..=65535]);
        assert!(give_back("ports").is_ok() && give_back("reserved-x").is_ok());
    }
}
