//! Running a program on frames of our own (`BPF_PROG_TEST_RUN`): once to see its verdict, or many
//! times with *live frames*, which go wherever the program's verdict sends them.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use super::program::{Attributes, Command, address, address_mut, bpf, bpf_once};
use super::{BpfError, XdpProgram};

/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;
/// Room for bytes that a program may prepend.
const GROWTH: usize = 256;

/// A program's verdict on a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum XdpAction {
    /// Dropped as a program error.
    Aborted = 0,
    /// Dropped.
    Drop = 1,
    /// Left to the kernel's stack.
    Pass = 2,
    /// Sent back out of the interface it came from.
    Tx = 3,
    /// Sent to a socket, an interface or a CPU.
    Redirect = 4,
}

impl XdpAction {
    /// The action of a program's return value; `None` if there is no such action.
    pub fn from_return(value: u32) -> Option<XdpAction> {
        use XdpAction::{Aborted, Drop, Pass, Redirect, Tx};
        [Aborted, Drop, Pass, Tx, Redirect].into_iter().find(|action| *action as u32 == value)
    }
}

/// The result of a test run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// The program's return value.
    pub value: u32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// Mean time of one repetition.
    pub duration: Duration,
}

impl RunOutcome {
    /// The return value as an action; `None` if there is no such action.
    pub fn action(&self) -> Option<XdpAction> {
        XdpAction::from_return(self.value)
    }
}

/// How to run with live frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveFrames {
    /// How many frames to run in all. Use 2²² or so: calls with few sleep between themselves.
    pub repeat: u32,
    /// How many frames between two looks at the scheduler, 1 to 256.
    pub batch: u32,
}

impl Default for LiveFrames {
    fn default() -> Self {
        LiveFrames { repeat: 1 << 22, batch: 64 }
    }
}

/// How a live run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveOutcome {
    /// All frames went; the mean time of one.
    Finished(Duration),
    /// A signal ended it early, after an unknown number of frames.
    Interrupted,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    value: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    padding: u32,
}
// SAFETY: integers only, padding explicit, laid out as the variant of BPF_PROG_TEST_RUN.
unsafe impl Attributes for TestRun {}

impl XdpProgram {
    /// Runs the program `repeat` times on a copy of `frame` (at least 14 bytes), as if received on
    /// queue 0 of the loopback interface; nothing leaves. The outcome shows the last run.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_NET_ADMIN; EINVAL if the frame is too short or long.
    pub fn run(&self, frame: &[u8], repeat: u32) -> Result<RunOutcome, BpfError> {
        let mut out = vec![0; frame.len() + GROWTH];
        let mut attributes = self.test_run(frame, repeat);
        attributes.data_out = address_mut(&mut out);
        attributes.data_size_out = out.len() as u32;
        // SAFETY: both frames are live and of the sizes given; the context is absent.
        unsafe { bpf(Command::ProgramTestRun, &mut attributes) }
            .map_err(|source| self.run_failed(source))?;
        out.truncate(attributes.data_size_out as usize);
        let duration = Duration::from_nanos(attributes.duration.into());
        Ok(RunOutcome { value: attributes.value, frame: out, duration })
    }

    /// Runs the program on live copies of `frame`: redirected frames are really sent, passed ones
    /// really received. Blocks until all have run, on the CPU of the calling thread.
    ///
    /// Frames are recycled pages with the receivers' edits still in them, so the program must
    /// write every byte that matters each time. Give it the network namespace of the calling
    /// thread: interfaces are looked up there.
    ///
    /// # Errors
    /// [`BpfError::Denied`] without CAP_NET_ADMIN; EINVAL if the frame is too short or too long
    /// for a page, E2BIG if the batch is above 256.
    pub fn run_live(&self, frame: &[u8], live: LiveFrames) -> Result<LiveOutcome, BpfError> {
        let mut attributes = self.test_run(frame, live.repeat);
        attributes.flags = LIVE_FRAMES;
        attributes.batch = live.batch;
        // SAFETY: the frame is live and of the size given; nothing is written back.
        match unsafe { bpf_once(Command::ProgramTestRun, &mut attributes) } {
            Ok(_) => Ok(LiveOutcome::Finished(Duration::from_nanos(attributes.duration.into()))),
            Err(e) if e.raw_os_error() == Some(libc::EINTR) => Ok(LiveOutcome::Interrupted),
            Err(e) => Err(self.run_failed(e)),
        }
    }

    fn test_run(&self, frame: &[u8], repeat: u32) -> TestRun {
        TestRun {
            program: self.as_fd().as_raw_fd() as u32,
            data_size_in: frame.len() as u32,
            data_in: address(frame),
            repeat,
            ..TestRun::default()
        }
    }

    fn run_failed(&self, source: io::Error) -> BpfError {
        BpfError::call(format!("test-run XDP program `{}`", self.name()), source)
    }
}
