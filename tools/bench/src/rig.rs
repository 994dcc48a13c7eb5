//! Where network benchmarks run: two namespaces, one cable, one core each.

use std::net::Ipv4Addr;

use weever_ebpf::sys::XdpLink;
use weever_ebpf::xdp;
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
        let mac = self.generator_end()?.mac;
        Ok(self.fixture.veth.right.add_neighbour(Fixture::LEFT, mac)?)
    }

    /// Drops, and thereby counts, what comes back to the generator's end.
    pub(crate) fn drop_at_generator(&self) -> Result<XdpLink, BenchError> {
        let index = self.generator_end()?.index;
        self.fixture.left.run(|| Ok(XdpLink::attach(&xdp::drop_all()?, index)?))
    }

    pub(crate) fn describe(&self) -> String {
        let (generator, contender) = (self.generator_core, self.contender_core);
        format!(
            "veth, 1 queue; generator and softirq on core {generator}, contender on {contender}"
        )
    }
}

/// The contender's address, whoever owns it.
pub(crate) const HOST: Ipv4Addr = Fixture::RIGHT;
