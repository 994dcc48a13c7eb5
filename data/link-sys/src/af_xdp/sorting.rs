//! Several sockets on each device queue, and the filters that say which of them gets a packet.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use weever_ebpf::sys::{BpfError, Map, MapKind};
use weever_ebpf::xdp::classify::{Classifier, Fallback, Sink, Target};
use weever_ebpf::xdp::{Gate, Share};

/// How many filters that look at the same bits there may be.
const FILTERS: u32 = 1 << 16;

/// A classifier behind a gate that sends everything to the first sockets.
pub(super) fn load(
    share: Share,
    queues: u16,
    sockets: u16,
) -> Result<(Arc<Gate>, Classifier), BpfError> {
    let gate = Arc::new(Gate::new(share)?);
    let (queues, sockets) = (u32::from(queues), u32::from(sockets));
    let map = Map::create(MapKind::XskMap, "weever_xsks", 4, 4, (queues * sockets).max(1))?;
    let (sink, first) = (Sink::Sockets { map, queues: sockets }, Fallback::To(Target::Queue(0)));
    let classifier = Classifier::load_behind(Arc::clone(&gate), sink, first, FILTERS)?;
    Ok((gate, classifier))
}

/// The filters of a link with several sockets for each device queue. Software queue *i* of a filter is
/// the *i*-th socket, whatever device queue a packet comes on.
#[derive(Debug)]
pub struct Sorting<'a>(MutexGuard<'a, Classifier>);

impl<'a> Sorting<'a> {
    pub(super) fn new(classifier: MutexGuard<'a, Classifier>) -> Sorting<'a> {
        Sorting(classifier)
    }
}

impl Deref for Sorting<'_> {
    type Target = Classifier;

    fn deref(&self) -> &Classifier {
        &self.0
    }
}

impl DerefMut for Sorting<'_> {
    fn deref_mut(&mut self) -> &mut Classifier {
        &mut self.0
    }
}
