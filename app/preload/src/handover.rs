//! Sockets that a program keeps across `exec`: the next one in the process finds them described in a sealed memory file.
//!
//! A line for each socket, with the descriptors that lead to it. A stream goes with a connection to the stack that
//! holds it ([`passing`](crate::passing)). When the next program closes the stream, or ends, the kernel closes that
//! connection, which tells the stack.

use std::ffi::CStr;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use libc::{c_int, c_void};

use crate::file::{File, Kind, Listening, Phase, Stream, Udp};
use crate::numbers::{self, Meaning};
use crate::open::file;
use crate::passing::{Away, By, Passport};
use crate::state::{Held, State, lock};
use crate::{inside, log, real};

const NAME: &CStr = c"weever sockets";
/// How the file begins.
pub(crate) const MAGIC: &str = "weever sockets 2\n";
/// Its seals, by which the next program knows it.
const SEALS: c_int =
    libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
/// Descriptor numbers below this one are searched for the file.
const AMONG: c_int = 1024;

/// Descriptors that go along with those of sockets: of holders' connections, and of files with waiting datagrams.
pub(crate) type Companions = Vec<Box<dyn AsFd>>;

/// The descriptors that were made for the next program; closed if `exec` fails.
pub(crate) struct Handover {
    file: c_int,
    /// Connections of holders, which end if the next program does not get them, and files.
    _companions: Companions,
}

impl Drop for Handover {
    fn drop(&mut self) {
        // SAFETY: a descriptor of this value's own. The others close themselves.
        unsafe { real::close(self.file) };
    }
}

/// Before another program takes this one's place: describes the sockets whose descriptors stay open.
pub(crate) fn before_exec() -> Option<Handover> {
    if inside::is_chosen() {
        return None;
    }
    let mut held = lock();
    let kept = held.kept(false);
    held.hand_over(&kept)
}

/// Before a child is made that runs another program at once (`posix_spawn`). As long as the returned lock is held, no
/// other child is made.
pub(crate) fn before_spawn() -> (Held, Option<Handover>) {
    let mut held = lock();
    if inside::is_chosen() {
        return (held, None);
    }
    let kept = held.kept(true);
    let handover = held.hand_over(&kept);
    for (place, _) in kept.into_iter().filter(|_| handover.is_some()) {
        if let Some(Kind::Stream(stream)) = held.files.get_mut(place).map(|file| &mut file.kind) {
            stream.shared = true;
        }
    }
    (held, handover)
}

/// A sealed memory file.
pub(crate) fn sealed(text: &str) -> Option<c_int> {
    // SAFETY: a name that ends with a zero, and as many readable bytes as are written.
    let (fd, done) = unsafe {
        let fd = libc::memfd_create(NAME.as_ptr(), libc::MFD_ALLOW_SEALING);
        (fd, libc::syscall(libc::SYS_write, fd, text.as_ptr(), text.len()))
    };
    if fd < 0 {
        return None;
    }
    // SAFETY: it has no pointers.
    let sealed = unsafe { real::fcntl(fd, libc::F_ADD_SEALS, SEALS as usize) };
    if done == text.len() as i64 && sealed == 0 {
        return Some(fd);
    }
    log::note(format_args!("sockets are not kept across exec: errno {}", real::errno()));
    // SAFETY: it was made above.
    unsafe { real::close(fd) };
    None
}

impl State {
    /// The sockets with descriptors that stay open, with these descriptors; with `bequeathed`, also those that
    /// `posix_spawn` was told to duplicate.
    fn kept(&self, bequeathed: bool) -> Vec<(u32, Vec<c_int>)> {
        let mut kept: Vec<(u32, Vec<c_int>)> = Vec::new();
        for fd in numbers::used(0, u32::MAX) {
            let Some(Meaning::File(place)) = numbers::meaning(fd) else { continue };
            // SAFETY: it has no pointers.
            let flags = unsafe { real::fcntl(fd, libc::F_GETFD, 0) };
            let duplicated = bequeathed && self.files.get(place).is_some_and(|f| f.bequeathed);
            if flags < 0 || flags & libc::FD_CLOEXEC != 0 && !duplicated {
                continue;
            }
            match kept.iter_mut().find(|(there, _)| *there == place) {
                Some((_, fds)) => fds.push(fd),
                None => kept.push((place, vec![fd])),
            }
        }
        kept
    }

    /// Describes sockets in a file that stays open, as their holders do.
    fn hand_over(&mut self, kept: &[(u32, Vec<c_int>)]) -> Option<Handover> {
        if kept.is_empty() {
            return None;
        }
        self.pump();
        self.say_what_was_read();
        let mut companions = Companions::new();
        let mut text = MAGIC.to_owned();
        for (place, fds) in kept {
            let Some(inode) = fds.first().and_then(|fd| inode(*fd)) else { continue };
            let fds: Vec<String> = fds.iter().map(c_int::to_string).collect();
            if let Some(line) = self.describe(*place, &mut companions) {
                let _never_fails = writeln!(text, "{line} {} {inode}", fds.join(","));
            }
        }
        for companion in &companions {
            // SAFETY: it has no pointers. The next program finds it open.
            unsafe { real::fcntl(companion.as_fd().as_raw_fd(), libc::F_SETFD, 0) };
        }
        Some(Handover { file: sealed(&text)?, _companions: companions })
    }

    /// The line that describes a socket; `None` for one that has ended.
    fn describe(&mut self, place: u32, companions: &mut Companions) -> Option<String> {
        let (queue, rights) = (self.queue, self.rights());
        let File { family, local, kernel, kind, .. } = self.files.get_mut(place)?;
        let common = format!("{family} {local} {}", u8::from(*kernel));
        Some(match kind {
            Kind::Udp(Udp { peer, received, .. }) => {
                let peer = peer.map_or_else(|| "-".into(), |peer| peer.to_string());
                let kept = received.share();
                if kept > 0 {
                    log::note(format_args!("{kept} waiting datagrams stay with this process"));
                }
                let files = received.to_pass_on();
                let numbers: Vec<String> =
                    files.iter().map(|file| file.as_raw_fd().to_string()).collect();
                companions.extend(files.into_iter().map(|file| Box::new(file) as Box<dyn AsFd>));
                format!("udp {common} {peer} files={}", numbers.join(","))
            }
            Kind::Listening(Listening { backlog, .. }) => format!("listener {common} {backlog}"),
            Kind::Stream(stream) => {
                let holder = match (&stream.away, stream.stream, queue) {
                    (Some(Away { by: By::Passport(passport), number }), ..) => {
                        let held = rights.connect(|shown| {
                            passport.0.hold(&crate::queue::config().path, Some(*number), shown)
                        });
                        held.map(|holder| (holder, *number))
                    }
                    (Some(Away { by: By::Queue, number }), _, Some(queue)) => {
                        let held = rights.connect(|shown| queue.hold(Some(*number), shown));
                        held.map(|holder| (holder, *number))
                    }
                    (None, Some(handle), Some(queue)) if stream.phase == Phase::Connected => {
                        let number = queue.stream_number(handle);
                        let held = rights.connect(|shown| queue.hold(Some(number), shown));
                        held.map(|holder| (holder, number))
                    }
                    _ => return None,
                };
                let (holder, number) = holder
                    .inspect_err(|e| log::note(format_args!("a connection ends with exec: {e}")))
                    .ok()?;
                let (fd, (name, key)) = (holder.as_fd().as_raw_fd(), holder.name());
                companions.push(Box::new(holder));
                let (remote, mute) = (stream.remote, u8::from(stream.mute));
                format!("stream {common} {remote} {mute} {fd} {name} {key} {number}")
            }
        })
    }

    /// Takes over the sockets that the previous program has left to this one.
    pub(crate) fn take_over(&mut self) {
        let Some(text) = find() else { return };
        self.take_lines(&text, None, &sockets());
    }

    /// Takes over the described sockets, and returns the number of descriptors that came along. `now` maps the
    /// descriptors' numbers of then to those of now, if another process has sent them; `more` has descriptors that may lead to
    /// them as well.
    pub(crate) fn take_lines(
        &mut self,
        text: &str,
        now: Option<&[(c_int, c_int)]>,
        more: &[(u64, c_int)],
    ) -> usize {
        let mut companions = 0;
        for line in text.lines() {
            companions += usize::from(line.starts_with("stream "));
            companions += files(line).count();
            if self.take_line(line, now, more).is_none() {
                log::note(format_args!("a socket is not taken over: {line:?}"));
            }
        }
        companions
    }

    /// Descriptions of those sockets that are weever's among descriptors which are sent to another process, and what goes
    /// along. Nothing if none is.
    pub(crate) fn describe_sent(&mut self, fds: &[c_int]) -> Option<(String, Companions)> {
        let mut places: Vec<(u32, c_int)> = Vec::new();
        for fd in fds {
            places.extend(numbers::file(*fd).map(|place| (place, *fd)));
        }
        if places.is_empty() {
            return None;
        }
        self.pump();
        self.say_what_was_read();
        let (mut text, mut companions) = (String::new(), Companions::new());
        for (place, fd) in places {
            let Some(inode) = inode(fd) else { continue };
            let Some(line) = self.describe(place, &mut companions) else { continue };
            let _never_fails = writeln!(text, "{line} {fd} {inode}");
            if let Some(Kind::Stream(stream)) = self.files.get_mut(place).map(|f| &mut f.kind) {
                stream.shared = true;
            }
        }
        Some((text, companions))
    }

    fn take_line(
        &mut self,
        line: &str,
        now: Option<&[(c_int, c_int)]>,
        more: &[(u64, c_int)],
    ) -> Option<()> {
        // Another process may name only what it has sent.
        let number = |fd: c_int| match now {
            None => Some(fd),
            Some(sent) => sent.iter().find(|(then, _)| *then == fd).map(|(_, now)| *now),
        };
        let mut words = line.split(' ');
        let mut next = || words.next();
        let kind = next()?;
        let family = next()?.parse().ok()?;
        let local: SocketAddr = next()?.parse().ok()?;
        let kernel = next()? == "1";
        let kind = match kind {
            "udp" => {
                let mut udp = Udp { peer: next()?.parse().ok(), ..Udp::default() };
                next()?;
                // SAFETY: descriptors that were left for this library.
                let own = |fd| unsafe { OwnedFd::from_raw_fd(fd) };
                udp.received.take_over(files(line).filter_map(number).map(own));
                Kind::Udp(udp)
            }
            "listener" => {
                let backlog = next()?.parse().ok()?;
                Kind::Listening(Listening { backlog, ..Listening::default() })
            }
            "stream" => {
                let remote = next()?.parse().ok()?;
                let mute = next()? == "1";
                let (fd, name) = (number(next()?.parse().ok()?)?, next()?.parse().ok()?);
                let (key, number) = (next()?.parse().ok()?, next()?.parse().ok()?);
                let by = By::Passport(Arc::new(Passport::take(fd, (name, key))?));
                let mut stream = Stream::away(remote, Away { by, number });
                stream.mute = mute;
                Kind::Stream(Box::new(stream))
            }
            _ => return None,
        };
        let fds = next()?.split(',').filter_map(|fd| fd.parse().ok().and_then(number));
        let mut fds: Vec<c_int> = fds.collect();
        let socket: u64 = next()?.parse().ok()?;
        fds.extend(more.iter().filter(|(inode, _)| *inode == socket).map(|(_, fd)| *fd));
        // The child of `posix_spawn` may have closed some, and opened something else in their places.
        fds.retain(|fd| inode(*fd) == Some(socket));
        fds.sort_unstable();
        fds.dedup();
        let (first, others) = fds.split_first()?;
        let place = self.attach(*first, File { local, kernel, ..file(family, kind) }).ok()?;
        for fd in others {
            if numbers::set(*fd, Some(Meaning::File(place)))
                && let Some(file) = self.files.get_mut(place)
            {
                file.descriptors += 1;
            }
        }
        Some(())
    }
}

/// The files of a line, with the datagrams that waited in its socket.
fn files(line: &str) -> impl Iterator<Item = c_int> {
    let list = line.split(' ').find_map(|word| word.strip_prefix("files="));
    list.into_iter().flat_map(|list| list.split(',')).filter_map(|fd| fd.parse().ok())
}

/// The number by which a socket is the same through all descriptors that lead to it, in all processes.
pub(crate) fn inode(fd: c_int) -> Option<u64> {
    let mut about = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: a place for the answer, which is there if the call succeeds.
    let about = unsafe {
        if libc::fstat(fd, about.as_mut_ptr()) != 0 {
            return None;
        }
        about.assume_init()
    };
    (about.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(about.st_ino)
}

/// The sockets that this program has inherited, with their descriptors.
pub(crate) fn sockets() -> Vec<(u64, c_int)> {
    (0..AMONG).filter_map(|fd| Some((inode(fd)?, fd))).collect()
}

/// The text that the previous program has left, without its first line.
fn find() -> Option<String> {
    let (fd, text) = (0..AMONG).find_map(|fd| Some((fd, read(fd)?)))?;
    // SAFETY: it was left for this library.
    unsafe { real::close(fd) };
    Some(text)
}

/// The text of a descriptor without its first line, if it is such a file.
pub(crate) fn read(fd: c_int) -> Option<String> {
    // SAFETY: it has no pointers; a descriptor of another kind is only asked.
    if unsafe { real::fcntl(fd, libc::F_GET_SEALS, 0) } != SEALS {
        return None;
    }
    let mut octets = vec![0u8; 1 << 16];
    // SAFETY: as many writable bytes.
    let got = unsafe { libc::pread(fd, octets.as_mut_ptr().cast::<c_void>(), octets.len(), 0) };
    octets.truncate(usize::try_from(got).unwrap_or(0));
    Some(String::from_utf8(octets).ok()?.strip_prefix(MAGIC)?.to_owned())
}
