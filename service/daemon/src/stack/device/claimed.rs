//! A claimed device: no other process steers it meanwhile.

use weever_device::claim::{Claim, ClaimError};
use weever_device::ifindex;
use weever_link::{Link, LinkInfo, LinkQueue};

use crate::stack::steward::SharedNicSteering;

/// A link with the claim on its device, which is given up with it. The policy's changes to the
/// device are undone after the link is closed, since drivers keep queues that have sockets.
struct Held {
    link: Box<dyn Link>,
    _nic: Option<SharedNicSteering>,
    _claim: Option<Claim>,
}

impl Link for Held {
    fn info(&self) -> &LinkInfo {
        self.link.info()
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        self.link.take_queues()
    }
}

/// Claims a device of the calling thread's network namespace; `None` if there is no such device,
/// which opening it will report.
pub(in crate::stack) fn claim(dev: &str) -> Result<Option<Claim>, ClaimError> {
    ifindex(dev).map(|index| Claim::of(dev, index, "`weever up`")).transpose()
}

/// The link, which keeps the claim and the policy's changes to the device as long as it exists.
pub(in crate::stack) fn holding(
    link: Box<dyn Link>,
    nic: Option<SharedNicSteering>,
    claim: Option<Claim>,
) -> Box<dyn Link> {
    if nic.is_none() && claim.is_none() {
        return link;
    }
    Box::new(Held { link, _nic: nic, _claim: claim })
}
