//! A defect in the packet path: the stack ends and says so, and nobody hangs.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use weever_daemon::Stack;
use weever_daemon::config::Config;
use weever_link::{Link, LinkError, LinkInfo, LinkQueue, QueueStats};
use weever_packet::{Buffer, Burst, Pool, PoolCache, PoolConfig};

struct Defective(LinkInfo);

struct DefectiveQueue;

impl Link for Defective {
    fn info(&self) -> &LinkInfo {
        &self.0
    }

    fn take_queues(&mut self) -> Vec<Box<dyn LinkQueue>> {
        vec![Box::new(DefectiveQueue)]
    }
}

impl LinkQueue for DefectiveQueue {
    fn rx(&mut self, _: &mut PoolCache, _: &mut Burst, _: usize) -> Result<usize, LinkError> {
        panic!("a defect on purpose");
    }

    fn tx(&mut self, _: &mut PoolCache, _: &mut VecDeque<Buffer>) -> Result<usize, LinkError> {
        Ok(0)
    }

    fn flush(&mut self, _: &mut PoolCache) -> Result<(), LinkError> {
        Ok(())
    }

    fn unsent(&self) -> bool {
        false
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }
}

#[test]
fn a_worker_that_panics_ends_the_stack_and_is_reported() {
    let info = LinkInfo {
        name: "defective0".into(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        queues: 1,
        partial_checksums: false,
        offload: Default::default(),
        mode: "defective".into(),
    };
    let pool = Pool::new(PoolConfig { frames: 1024, ..PoolConfig::default() }).unwrap();
    let config = Config::new("defective0", "10.0.0.1/24".parse().unwrap());
    let stack = Stack::start_on(vec![Box::new(Defective(info))], pool.clone(), config).unwrap();
    stack.wait();
    assert!(stack.status().workers[0].state.contains("a defect on purpose"));
    let failure = stack.stop().failure.expect("it panicked");
    assert_eq!(failure, "worker-0 panicked: a defect on purpose");
    assert_eq!(pool.available(), pool.frames());
}
