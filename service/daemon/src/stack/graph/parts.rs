//! Every worker runs the part of the graph that its queues need (design note 0013).
//!
//! Stewards order parts by the packets that can arrive by their links: [`GraphParts::order`]. [`simplify`]
//! makes the part of each worker from the whole graph, now and whenever that graph changes. Packets that a
//! part is not made for go to the whole graph at the first worker, so an order may be late, wrong or refused,
//! and no packet is lost.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weever_block::Registry;
use weever_blocks_std::registry;
use weever_engine::{Fit, Publisher};
use weever_graph::{Field, Graph, Node, Predicate, Verified, verify};
use weever_plan::embed::{Arrival, tested};
use weever_plan::flow::Conj;
use weever_plan::simplify::{ForeignPackets, HandOver, Home, QueueFacts, simplify};

/// Parts kept for reuse: plans go back and forth.
const REMEMBERED: usize = 64;

/// What is known of the packets that arrive by a link.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::stack) struct Known {
    /// The only ones that can arrive at each queue; a queue has the number of its worker.
    pub(in crate::stack) arriving: Vec<Arrival>,
    /// What the device guarantees for every packet.
    pub(in crate::stack) vouched: Predicate,
}

/// Has workers run parts of the graph.
pub(in crate::stack) struct GraphParts {
    publisher: Arc<Publisher>,
    workshop: Arc<Workshop>,
    /// The last order was not carried out: when it comes again, it is tried again.
    behind: AtomicBool,
}

struct Workshop {
    /// By link; `None`: anything can arrive, at any worker.
    orders: Mutex<Vec<Option<Known>>>,
    /// The latest last.
    made: Mutex<VecDeque<Part>>,
    registry: Registry,
}

/// A part that was made.
struct Part {
    whole: Arc<Graph>,
    worker: u16,
    arriving: Vec<Conj>,
    vouched: Predicate,
    graph: Option<Graph>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GraphParts {
    /// Nothing is known of `links` links: every worker runs the whole graph.
    pub(in crate::stack) fn new(publisher: Arc<Publisher>, links: usize) -> GraphParts {
        let orders = Mutex::new(vec![None; links]);
        let (made, registry) = (Mutex::default(), registry());
        let workshop = Arc::new(Workshop { orders, made, registry });
        GraphParts { publisher, workshop, behind: AtomicBool::new(false) }
    }

    /// The fields of packets that the graph can tell apart.
    pub(in crate::stack) fn fields(&self) -> BTreeSet<Field> {
        tested(&self.publisher.graph())
    }

    /// Declares what arrives by a link from now on. Blocks until every worker runs its part.
    pub(in crate::stack) fn order(&self, link: u16, known: Known) {
        {
            let mut orders = lock(&self.workshop.orders);
            let order = &mut orders[usize::from(link)];
            if order.as_ref() == Some(&known) && !self.behind.load(Ordering::Relaxed) {
                return;
            }
            *order = Some(known);
        }
        let workshop = Arc::clone(&self.workshop);
        let fit: Arc<Fit> = Arc::new(move |whole, worker| workshop.part(whole, worker));
        let fitted = self.publisher.fit(Some(fit));
        self.behind.store(fitted.is_err(), Ordering::Relaxed);
        match fitted {
            Ok(published) if published.steps == 0 => {}
            Ok(published) => {
                let (epoch, sizes) = (published.epoch, self.publisher.sizes());
                tracing::debug!(epoch, ?sizes, "workers run parts of the graph");
            }
            // Workers hand foreign packets over, whichever part they run.
            Err(error) => tracing::warn!("workers keep their graphs: {error}"),
        }
    }
}

impl Workshop {
    fn part(&self, whole: &Verified, worker: u16) -> Option<Graph> {
        let (arriving, vouched) = self.known(u32::from(worker))?;
        let mut made = lock(&self.made);
        let is_it = |part: &&Part| {
            let same = (&part.arriving, &part.vouched) == (&arriving, &vouched);
            part.worker == worker && same && *part.whole == **whole
        };
        if let Some(part) = made.iter().find(is_it) {
            return part.graph.clone();
        }
        let graph = self.simplified(whole, worker, &arriving, &vouched);
        if made.len() == REMEMBERED {
            made.pop_front();
        }
        let known = made.iter().map(|part| &part.whole).find(|known| ***known == **whole);
        let whole = known.cloned().unwrap_or_else(|| Arc::new(Graph::clone(whole)));
        made.push_back(Part { whole, worker, arriving, vouched, graph: graph.clone() });
        graph
    }

    /// The packets that can arrive at a worker, and what is true of each: it came by one of the links. `None`:
    /// anything.
    fn known(&self, queue: u32) -> Option<(Vec<Conj>, Predicate)> {
        let (mut all, mut vouched) = (Vec::new(), Vec::new());
        for order in lock(&self.orders).iter() {
            let known = order.as_ref()?;
            let arrival = known.arriving.iter().find(|arrival| arrival.queue == queue);
            all.extend(arrival.into_iter().flat_map(|arrival| arrival.parts.iter().cloned()));
            vouched.push(known.vouched.clone());
        }
        (!all.iter().any(Conj::is_all)).then_some((all, Predicate::Or(vouched)))
    }

    fn simplified(
        &self,
        whole: &Verified,
        worker: u16,
        arriving: &[Conj],
        vouched: &Predicate,
    ) -> Option<Graph> {
        let home = |node: &Node| self.home(node, worker);
        let foreign = ForeignPackets::HandOver(HandOver::default());
        let given = QueueFacts { home: &home, foreign, ..QueueFacts::of(arriving, vouched) };
        let part = simplify(whole, &given).graph;
        match verify(part.clone()) {
            Ok(_) => Some(part),
            Err(errors) => {
                let error = errors.first().map(ToString::to_string).unwrap_or_default();
                tracing::warn!(worker, "its part of the graph is not sound: {error}");
                None
            }
        }
    }

    fn home(&self, node: &Node, worker: u16) -> Home {
        match self.registry.home_for_parts(node) {
            None => Home::Any,
            Some(home) if home == worker => Home::Here,
            Some(home) => Home::Elsewhere(home),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::Arc;
    use std::time::Duration;

    use weever_plan::embed::Arrival;
    use weever_plan::flow::Conj;
    use weever_testbed::{Fixture, require_net_admin};

    use weever_graph::Predicate;

    use super::{GraphParts, Known};
    use crate::Stack;
    use crate::config::{Config, Interface, Share};

    const STACK: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 10);
    const ECHO: u16 = 7;
    const POLICY: &str = "
    [[class]]
    name = \"echo\"
    match = \"udp dst port 7\"
    queues = { only = [1] }
    ";

    fn config() -> Config {
        let file = std::env::temp_dir().join(format!("weever-parts-{}.toml", std::process::id()));
        std::fs::write(&file, POLICY).unwrap();
        let mut interface = Interface::new("left0", vec![format!("{STACK}/24").parse().unwrap()]);
        interface.share = Share::None;
        let mut config = Config::of(vec![interface]);
        config.services.echo = Some(ECHO);
        config.pool.frames = 8192;
        config.probe = false;
        let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
        config.cores = vec![0, last.min(1)];
        config.control = Some(file.with_extension("sock"));
        config.policy = Some(file);
        config
    }

    fn come_back(client: &UdpSocket, count: usize) -> usize {
        let back =
            |i: &usize| client.send(&i.to_be_bytes()).is_ok() && client.recv(&mut [0; 9]).is_ok();
        (0..count).filter(back).count()
    }

    #[test]
    fn strangers_are_answered_whatever_was_ordered() {
        require_net_admin!();
        let net = Fixture::pair(2).unwrap();
        net.assign_addresses().unwrap();
        let stack = net.left.run(|| Stack::start(config())).unwrap();
        let client = net.right.run(|| UdpSocket::bind((Fixture::RIGHT, 0))).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        client.connect((STACK, ECHO)).unwrap();
        assert!(come_back(&client, 20) >= 18);
        // What the kernel at the other end sends by itself, a router solicitation say, is a stranger wherever it
        // arrives.
        let strangers = |before: u64| {
            let now = stack.shared.host.workers[1].stats.handed_over();
            (now, now - before)
        };
        let few = 0..10;
        let (seen, new) = strangers(0);
        assert!(few.contains(&new), "an echo is no stranger: {new}");
        let nodes = || stack.shared.host.publisher.sizes();
        let expected = nodes()[1];

        let graph_parts = GraphParts::new(Arc::clone(&stack.shared.host.publisher), 1);
        let known = |arriving, vouched| Known { arriving, vouched };
        let order = |arriving| graph_parts.order(0, known(arriving, Predicate::True));
        let tcp = Conj::all().with(weever_graph::Field::Ip4Proto, 6);
        order(vec![Arrival { queue: 1, parts: vec![tcp.clone()] }]);
        assert!(nodes()[1] < expected, "it has no UDP any more: {:?}", nodes());
        assert_eq!(come_back(&client, 200), 200);
        let (seen, new) = strangers(seen);
        assert!((200..210).contains(&new), "every echo is a stranger: {new}");

        order(Vec::new());
        assert!(nodes()[1] < 12, "little is left: {:?}", nodes());
        assert_eq!(come_back(&client, 200), 200);
        let (seen, new) = strangers(seen);
        assert!((200..210).contains(&new), "every echo is a stranger: {new}");

        order(vec![Arrival { queue: 1, parts: vec![Conj::all()] }]);
        assert_eq!(nodes()[0], nodes()[1]);
        assert_eq!(come_back(&client, 200), 200);
        let (_, new) = strangers(seen);
        assert!(few.contains(&new), "no echo is a stranger any more: {new}");

        // What a device guarantees for every frame is tested no more.
        let udp = Conj::all().with(weever_graph::Field::Ip4Proto, 17);
        let udp = vec![Arrival { queue: 1, parts: vec![udp] }];
        order(udp.clone());
        let tested = nodes()[1];
        let long = weever_unicorn::predicate::parse("frame.len >= 56").unwrap();
        graph_parts.order(0, known(udp, long));
        assert_eq!(nodes()[1], tested - 1, "the node for frames that end inside their tag is gone");
        assert_eq!(come_back(&client, 200), 200);
        assert_eq!(stack.stop().failure, None);
    }
}
