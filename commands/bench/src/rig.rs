//! Where network benchmarks run: two namespaces, one cable, one core each.

use std::net::Ipv4Addr;

use weever_testbed::{Fixture, LinkInfo, Namespace, allowed_cores, privileged};

use crate::BenchError;

/// A veth pair with one queue. The generator's end is `left0`, the contender's `right0`.
pub(crate) struct Rig {
    pub(crate) fixture: Fixture,
    /// The core of the generator and of the kernel's receive path (softirqs run where the
    /// generator sends).
    pub(crate) generator_core: usize,
    /// The core of the contender's user thread.
    pub(crate) contender_core: usize,
}

/// The port that the contenders listen on.
pub(crate) const PORT: u16 = 7;

impl Rig {
    pub(crate) fn new(bench: &'static str) -> Result<Rig, BenchError> {
        if !privileged() {
            return Err(BenchError::Rights(bench));
        }
        let cores = allowed_cores().map_err(BenchError::of("cores"))?;
        let [generator_core, contender_core, ..] = cores[..] else {
            return Err(BenchError::Cores { bench, cores: cores.len() });
        };
        let fixture = Fixture::pair(1)?;
        fixture.veth.left.add_address(Fixture::LEFT, Fixture::PREFIX)?;
        fixture.veth.left.add_neighbour(Fixture::RIGHT, fixture.veth.right.info()?.mac)?;
        Ok(Rig { fixture, generator_core, contender_core })
    }

    /// The namespace of the contenders.
    pub(crate) fn host(&self) -> &Namespace {
        &self.fixture.right
    }

    /// The generator's end.
    pub(crate) fn generator_end(&self) -> Result<LinkInfo, BenchError> {
        Ok(self.fixture.veth.left.info()?)
    }

    /// The contender's end.
    pub(crate) fn contender_end(&self) -> Result<LinkInfo, BenchError> {
        Ok(self.fixture.veth.right.info()?)
    }

    /// Gives the contender's address to the kernel, for contenders that are the kernel. It comes
    /// with a permanent neighbour entry for the generator.
    pub(crate) fn kernel_host(&self) -> Result<(), BenchError> {
        self.fixture.veth.right.add_address(Fixture::RIGHT, Fixture::PREFIX)?;
        Ok(self.fixture.veth.right.add_neighbour(Fixture::LEFT, GENERATOR_MAC)?)
    }

    /// Chooses the core on which the kernel receives the returned packets: the generator's, or the
    /// one that the contender sends on, which is a veth's default.
    pub(crate) fn receive_returns(&self, by: Receiver) -> Result<(), BenchError> {
        let core = (by == Receiver::Generator).then_some(self.generator_core);
        Ok(self.fixture.left.process_received_on("left0", core)?)
    }

    pub(crate) fn describe(&self) -> String {
        let (generator, contender) = (self.generator_core, self.contender_core);
        format!(
            "veth, 1 queue; generator and softirq on core {generator}, contender on {contender}"
        )
    }
}

/// The core on which the other host receives the contender's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// On that of the other host, as in a real network.
    Generator,
    /// On the contender's, in its time.
    Contender,
}

/// The source address of the load. It is not the interface's own address, so that the kernel throws
/// returned packets away as soon as it has counted them.
pub(crate) const GENERATOR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x99];

/// Where more clients are than a port's numbers suffice for, behind the generator's address.
pub(crate) const REMOTE: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 78, 0, 0), 16);

/// The contender's address, under the kernel or weever.
pub(crate) const HOST: Ipv4Addr = Fixture::RIGHT;
