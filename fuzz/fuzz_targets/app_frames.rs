//! A hostile application that works in the frames of packets: it writes anything anywhere into its channel and into any
//! frame of the pool, and also uses them as it should. The stack neither panics nor takes a frame that the
//! application does not have, and when both ends are gone, all frames are at home.
#![no_main]

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;

use libfuzzer_sys::fuzz_target;
use weever_app_ring::{AppEnd, FrameMemory, Geometry, Kind, PacketInfo, StackEnd};
use weever_fuzz::Input;
use weever_packet::{Exchange, Pool, PoolCache, PoolConfig};

/// Of the pool, and of those the application's.
const POOL: u32 = 32;
const FRAMES: usize = 8;
/// The first index of the channel lies here, each further one behind the one before by this much.
const INDICES: u64 = 512;
const LINE: u64 = 128;
/// Where its rings begin.
const RINGS: u64 = 4096;
/// Where payloads lie that the application gets.
const PAYLOAD: u16 = 300;

struct Bench {
    stack: StackEnd,
    exchange: Exchange,
    cache: PoolCache,
    app: Option<AppEnd>,
    channel: File,
    frames: File,
    /// Bytes of each.
    sizes: (u64, u64),
}

impl Bench {
    fn new(pool: &Pool) -> Bench {
        let (exchange, first) = Exchange::new(pool, "app", FRAMES).expect("the pool has so many");
        let own = || {
            let memfd = pool.region().memfd().expect("a shareable pool");
            memfd.try_clone_to_owned().expect("a descriptor")
        };
        let memory = FrameMemory {
            memfd: own(),
            frames: pool.frames() as u32,
            keep: Box::new(exchange.lease()),
        };
        let geometry = Geometry { ring_len: 64, frames: 1, frame_size: pool.frame_size() };
        let stack = StackEnd::create_over(geometry, memory, &first).expect("a channel");
        let descriptor = || stack.fd().try_clone_to_owned().expect("a descriptor");
        let (app, channel) = (AppEnd::map(descriptor()).ok(), File::from(descriptor()));
        let frames = File::from(own());
        let size = |file: &File| file.metadata().expect("a file").len();
        let sizes = (size(&channel), size(&frames));
        Bench { stack, exchange, cache: pool.cache(), app, channel, frames, sizes }
    }

    /// One step; nothing when the script or the channel has ended.
    fn step(&mut self, script: &mut Input<'_>) -> Option<()> {
        match script.byte()? % 8 {
            0 => {
                let at = INDICES + LINE * u64::from(script.byte()? % 12);
                write(&self.channel, at, &script.array::<8>()?);
            }
            1 => {
                let at = RINGS + word(script)? % (self.sizes.0 - RINGS - 16);
                write(&self.channel, at & !7, &script.array::<16>()?);
            }
            2 => {
                let at = u64::from(u32::from_be_bytes(script.array()?)) % (self.sizes.1 - 16);
                write(&self.frames, at, &script.array::<16>()?);
            }
            3 => self.deliver(usize::from(script.byte()?))?,
            4 => self.transmit(usize::from(script.byte()?))?,
            5 => {
                let _ = self.stack.publish();
            }
            6 => self.copy(word(script)? as usize % 4096)?,
            _ => self.behave(),
        }
        assert!(self.stack.held().0 <= FRAMES, "it has more frames than its own");
        Some(())
    }

    /// A packet for the application, in the frame in which it came.
    fn deliver(&mut self, len: usize) -> Option<()> {
        let Some(mut packet) = self.exchange.alloc(&mut self.cache) else { return Some(()) };
        packet.received(PAYLOAD, len as u16);
        let Ok(empty) = self.stack.take_empty().ok()? else {
            self.cache.free(packet);
            return Some(());
        };
        match self.exchange.swap(&mut self.cache, packet, empty) {
            Ok((empty, given)) => {
                self.cache.free(empty);
                self.stack.swap(1, &info(), (given, PAYLOAD, len as u16)).ok()
            }
            Err(_) => panic!("frame {empty} is not the application's"),
        }
    }

    /// A datagram that does not lie in a frame of the pool.
    fn copy(&mut self, len: usize) -> Option<()> {
        self.stack.deliver(1, &info(), &[7; 4096][..len]).ok().map(drop)
    }

    /// As a worker takes what the application sends: where it lies, if it can.
    fn transmit(&mut self, most: usize) -> Option<()> {
        for _ in 0..most {
            let Some(transmit) = self.stack.next_transmit().ok()? else { break };
            let in_place = if transmit.kind == Kind::Data { self.stack.in_place() } else { None };
            let spare = in_place.and_then(|_| self.exchange.alloc(&mut self.cache));
            let Some(((frame, offset, len), spare)) = in_place.zip(spare) else {
                let mut payload = vec![0; transmit.len];
                assert!(self.stack.copy_payload(&mut payload) <= transmit.len);
                self.stack.complete().ok()?;
                continue;
            };
            match self.exchange.swap(&mut self.cache, spare, frame) {
                Ok((mut packet, given)) => {
                    packet.received(offset, len);
                    assert_eq!(packet.data().len(), transmit.len);
                    self.cache.free(packet);
                    self.stack.complete_with(given).ok()?;
                }
                Err(_) => panic!("frame {frame} is not the application's"),
            }
        }
        Some(())
    }

    /// As an application uses its channel; over as soon as something is wrong with it.
    fn behave(&mut self) {
        let Some(mut app) = self.app.take() else { return };
        while let Ok(Some(received)) = app.receive() {
            assert!(app.payload(&received).len() <= usize::from(app.payload_size()).max(2048));
            if let Some(frame) = received.frame {
                let offset = PAYLOAD.min(app.frames().room());
                let _ = app.submit(frame, 1, &info(), (offset, received.len as u16, 0));
            }
        }
        if let Ok(Some(frame)) = app.alloc() {
            app.release(frame);
        }
        if app.commit().is_ok() && app.reap().is_ok() {
            self.app = Some(app);
        }
    }
}

fn info() -> PacketInfo {
    PacketInfo { remote: SocketAddr::from(([192, 0, 2, 1], 9)), ..PacketInfo::default() }
}

/// The next number of two bytes.
fn word(script: &mut Input<'_>) -> Option<u64> {
    script.array().map(|bytes| u16::from_be_bytes(bytes).into())
}

fn write(file: &File, at: u64, bytes: &[u8]) {
    file.write_all_at(bytes, at).expect("the application may write anywhere");
}

fuzz_target!(|data: &[u8]| {
    let config = PoolConfig { frames: POOL, ..PoolConfig::default() };
    let pool = Pool::shareable(config).expect("a pool");
    let all = pool.available();
    let mut bench = Bench::new(&pool);
    let mut script = Input(data);
    while bench.step(&mut script).is_some() {}
    drop(bench);
    assert_eq!(pool.available(), all, "every frame is at home");
});
