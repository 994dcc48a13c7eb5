//! A bench to put one block on, in the unit tests of this crate.

use std::sync::Arc;

use weever_block::{BlockType, Build, Burst, Cx, Env, Mask, Nanos, Ports, Requests};
use weever_graph::{Attr, Node, NodeKind};
use weever_packet::{Buffer, HugePages, Pool, PoolCache, PoolConfig};

pub(crate) struct Bench {
    pub(crate) pool: PoolCache,
    pub(crate) env: Env,
    pub(crate) now: Nanos,
    node: Node,
}

/// The result of a block's run on a burst.
pub(crate) struct Ran {
    pub(crate) ports: Vec<Mask>,
    pub(crate) requests: Requests,
    pub(crate) burst: Burst,
}

impl Ran {
    /// The packet of task `task`.
    pub(crate) fn packet(&self, task: usize) -> &Buffer {
        self.burst.get(task).expect("the task has a packet")
    }
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let config =
            PoolConfig { frames: 256, huge_pages: HugePages::Never, ..PoolConfig::default() };
        let pool = Pool::new(config).expect("memory for a small pool").cache();
        let node = Node::new("Tested", NodeKind::Function);
        Bench { pool, env: Env::new(), now: 1_000_000_000, node }
    }

    pub(crate) fn with_param(mut self, key: &str, value: &str) -> Bench {
        self.node.attrs.push(Attr::Param { key: key.into(), value: value.into() });
        self
    }

    pub(crate) fn with_kind(mut self, kind: NodeKind) -> Bench {
        self.node.kind = kind;
        self
    }

    /// The node that is tested.
    pub(crate) fn with_node(mut self, node: Node) -> Bench {
        self.node = node;
        self
    }

    pub(crate) fn providing<T: Send + Sync + 'static>(self, value: Arc<T>) -> Bench {
        self.env.provide(value);
        self
    }

    /// A packet of these bytes.
    pub(crate) fn packet(&mut self, bytes: &[u8]) -> Buffer {
        let mut packet = self.pool.alloc().expect("the pool is large enough");
        assert!(packet.append(bytes), "the packet fits a frame");
        packet.meta_mut().iface = 0;
        packet
    }

    /// Packets of these bytes in the first slots of a burst.
    pub(crate) fn burst(&mut self, frames: &[&[u8]]) -> Burst {
        let mut burst = Burst::new();
        for (task, frame) in frames.iter().enumerate() {
            let packet = self.packet(frame);
            burst.put(task, packet);
        }
        burst
    }

    /// A burst of one.
    pub(crate) fn single(&mut self, packet: Buffer) -> Burst {
        let mut burst = Burst::new();
        burst.put(0, packet);
        burst
    }

    /// Runs a node of the host's graph which the text defines.
    pub(crate) fn run_stated(&mut self, name: &str, burst: Burst, input: Mask) -> Ran {
        let graph = weever_models::host(&weever_models::HostConfig::default());
        let graph = graph.expect("the model is sound");
        let id = graph.find(name).unwrap_or_else(|| panic!("the host's graph has no {name}"));
        self.node = graph.node(id).clone();
        self.run(&crate::by_predicate::TYPE, burst, input)
    }

    /// Makes a block of the type and runs it once.
    pub(crate) fn run(&mut self, block_type: &'static BlockType, burst: Burst, input: Mask) -> Ran {
        let mut block = self.make(block_type);
        self.run_block(block.as_mut(), block_type, burst, input)
    }

    pub(crate) fn make(&self, block_type: &'static BlockType) -> Box<dyn weever_block::Block> {
        let build = Build { node: &self.node, block_type, env: &self.env };
        (block_type.make)(&build).expect("the block can be made")
    }

    pub(crate) fn run_block(
        &mut self,
        block: &mut dyn weever_block::Block,
        block_type: &BlockType,
        mut burst: Burst,
        input: Mask,
    ) -> Ran {
        let count = block_type.ports.len().max(self.node.ports.len());
        let mut ports = vec![0; count.max(8)];
        let mut requests = Requests::new();
        let mut cx = Cx::new(self.now, &mut self.pool, &mut requests);
        block.run(&mut cx, &mut burst, input, &mut Ports::new(&mut ports));
        ports.truncate(count.max(1));
        let claimed = requests.claims.iter().fold(0, |all, (_, tasks)| all | tasks);
        let left = ports.iter().fold(0, |all, mask| {
            assert_eq!(all & mask, 0, "a task leaves by one port only");
            all | mask
        });
        assert_eq!(left | claimed, input, "every task leaves or is claimed");
        Ran { ports, requests, burst }
    }
}
