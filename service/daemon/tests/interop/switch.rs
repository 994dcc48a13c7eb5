//! A switch that knows VLANs, since not every kernel does; frames are seen here as they were sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weever_link::{Link, LinkQueue};
use weever_link_sys::af_xdp::{AfXdp, AfXdpConfig, Share};
use weever_link_sys::packet::{PacketSocket, Protocol};
use weever_packet::{Burst, Pool, PoolCache, PoolConfig};
use weever_testbed::{Namespace, Veth, VethEnd};

/// A trunk, whose frames are tagged, and ports each in a VLAN, whose frames are not. On VLAN 0 the
/// trunk's frames are not tagged either.
pub(crate) struct Switch {
    /// The hosts' ends of the ports, in the order of their VLANs.
    pub(crate) hosts: Vec<VethEnd>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

struct Wiring {
    queue: Box<dyn LinkQueue>,
    cache: PoolCache,
    ports: Vec<(u16, PacketSocket)>,
    _trunk: AfXdp,
}

impl Switch {
    /// With the trunk's far end in a namespace, and a fresh one for the host of each VLAN.
    pub(crate) fn new(trunk: &Namespace, vlans: &[u16]) -> Switch {
        let inside = Namespace::new().unwrap();
        let far = Veth::create(&inside, "trunk", trunk, "right0", 1).unwrap().right;
        // Frames leave the switch as they came: their checksums have to be whole.
        far.set_checksum_offload(false).unwrap();
        let (mut hosts, mut ports) = (Vec::new(), Vec::new());
        for vlan in vlans {
            let host = Namespace::new().unwrap();
            let name = format!("port{vlan}");
            let end = Veth::create(&inside, &name, &host, "host0", 1).unwrap().right;
            end.set_checksum_offload(false).unwrap();
            let socket = inside.run(|| PacketSocket::open(&name, Protocol::All)).unwrap();
            socket.set_receive_buffer(8 << 20).unwrap();
            ports.push((*vlan, socket));
            hosts.push(end);
        }
        // An AF_XDP socket sees tags, which the kernel would take out.
        let pool = Pool::new(PoolConfig { frames: 4096, ..PoolConfig::default() }).unwrap();
        let settings =
            AfXdpConfig { share: Share::None, ..AfXdpConfig::new("trunk", pool.clone()) };
        let mut link = inside.run(|| AfXdp::open(&settings)).unwrap();
        let (queue, cache) = (link.take_queues().remove(0), pool.cache());
        let mut wiring = Wiring { queue, cache, ports, _trunk: link };
        let stop = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&stop);
        let work = move || {
            while !stops.load(Ordering::Relaxed) {
                if !wiring.turn() {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        };
        let thread = Some(inside.spawn("switch", work).unwrap());
        Switch { hosts, stop, thread }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Wiring {
    /// Whether anything was passed on.
    fn turn(&mut self) -> bool {
        let mut burst = Burst::new();
        let n = self.queue.rx(&mut self.cache, &mut burst, 64).unwrap();
        for packet in (0..n).filter_map(|slot| burst.take(slot)) {
            let (vlan, frame) = untagged(packet.data());
            for (_, port) in self.ports.iter().filter(|(member, _)| *member == vlan) {
                // A frame too long for a port is lost there.
                let _ = port.send(&frame);
            }
            self.cache.free(packet);
        }
        let mut room = [0; 2000];
        let mut passed = n > 0;
        for at in 0..self.ports.len() {
            let (vlan, port) = &self.ports[at];
            let vlan = *vlan;
            let Some(n) = port.receive(&mut room, Duration::ZERO).unwrap() else { continue };
            self.send(&tagged(vlan, &room[..n]));
            passed = true;
        }
        passed
    }

    fn send(&mut self, frame: &[u8]) {
        let Some(mut buffer) = self.cache.alloc() else { return };
        assert!(buffer.append(frame));
        let mut packets = [buffer].into();
        while self.queue.tx(&mut self.cache, &mut packets).unwrap() == 0 {
            self.queue.flush(&mut self.cache).unwrap();
        }
        self.queue.flush(&mut self.cache).unwrap();
    }
}

/// The VLAN of a frame, and the frame without its tag.
fn untagged(frame: &[u8]) -> (u16, Vec<u8>) {
    match frame[12..] {
        [0x81, 0, high, low, ..] => {
            (u16::from_be_bytes([high & 0xf, low]), [&frame[..12], &frame[16..]].concat())
        }
        _ => (0, frame.to_vec()),
    }
}

fn tagged(vlan: u16, frame: &[u8]) -> Vec<u8> {
    if vlan == 0 {
        return frame.to_vec();
    }
    let [high, low] = vlan.to_be_bytes();
    [&frame[..12], &[0x81, 0, high, low], &frame[12..]].concat()
}
