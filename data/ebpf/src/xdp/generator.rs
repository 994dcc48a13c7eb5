//! Traffic from live frames: the kernel runs a program on a frame over and over, the program
//! writes the headers and sends it out of an interface. The fastest source there is without
//! hardware, so it belongs to benchmarks; it needs one core.

use super::generator_frame::{self, GeneratorSettings, Order};
use super::generator_program;
use crate::asm::Program;
use crate::sys::{BpfError, LiveFrames, LiveOutcome, Map, MapKind, XdpProgram};

/// A loaded traffic generator.
#[derive(Debug)]
pub struct Generator {
    program: XdpProgram,
    frame: Vec<u8>,
}

impl Generator {
    /// Loads the program for these settings.
    ///
    /// # Errors
    /// [`BpfError::Setting`] if they make no sense; [`BpfError::Denied`] without CAP_BPF and
    /// CAP_NET_ADMIN.
    pub fn load(settings: &GeneratorSettings) -> Result<Generator, BpfError> {
        settings.check()?;
        let counter = match settings.order {
            Order::RoundRobin => Some(Map::create(MapKind::PerCpuArray, "weever_gen", 4, 8, 1)?),
            Order::Random => None,
        };
        let code: Program = generator_program::emit(settings, counter.as_ref())?;
        let program = XdpProgram::load("weever_gen", &code)?;
        Ok(Generator { program, frame: generator_frame::template(settings) })
    }

    /// Sends `live.repeat` frames, from the CPU of the calling thread, and returns when they are
    /// sent or a signal came. See [`XdpProgram::run_live`].
    ///
    /// # Errors
    /// The kernel's word.
    pub fn run(&self, live: LiveFrames) -> Result<LiveOutcome, BpfError> {
        self.program.run_live(&self.frame, live)
    }

    /// Size of a frame in bytes, from the Ethernet header to the end of the payload.
    pub fn frame_len(&self) -> usize {
        self.frame.len()
    }

    /// The loaded program, for [`XdpProgram::run`]: a look at a frame without sending it.
    pub fn program(&self) -> &XdpProgram {
        &self.program
    }
}
