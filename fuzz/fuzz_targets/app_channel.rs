//! A hostile application on a channel: it writes anything anywhere into the shared
//! memory, tries to resize it, and also uses it as it should. The stack's end neither panics nor loses a
//! frame, and an impossible index is an error.
#![no_main]

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;

use libfuzzer_sys::fuzz_target;
use weever_app_ring::{About, AppEnd, Geometry, Kind, PackedAddr, PacketInfo, StackEnd};
use weever_fuzz::Input;

const GEOMETRY: Geometry = Geometry { ring_len: 64, frames: 16, frame_size: 256 };
/// The first index lies here, each further one behind the one before by this much.
const INDICES: u64 = 512;
const LINE: u64 = 128;
/// Where the rings begin.
const RINGS: u64 = 4096;

/// The next number of two bytes.
fn word(script: &mut Input<'_>) -> Option<u64> {
    script.array().map(|bytes| u16::from_be_bytes(bytes).into())
}

struct Bench {
    stack: StackEnd,
    app: Option<AppEnd>,
    memory: File,
    size: u64,
}

impl Bench {
    /// One step; nothing when the script or the channel has ended.
    fn step(&mut self, script: &mut Input<'_>) -> Option<()> {
        let info =
            PacketInfo { remote: SocketAddr::from(([192, 0, 2, 1], 9)), ..PacketInfo::default() };
        match script.byte()? % 10 {
            0 => {
                let at = INDICES + LINE * u64::from(script.byte()? % 12);
                self.write(at, &word(script)?.to_ne_bytes());
            }
            1 => {
                let at = INDICES + LINE * u64::from(script.byte()? % 12);
                self.write(at, &script.array::<8>()?);
            }
            2 => {
                let at = RINGS + word(script)? % (self.size - RINGS - 16);
                self.write(at & !7, &script.array::<16>()?);
            }
            3 => {
                let payload = [7; 1024];
                let len = word(script)? as usize % payload.len();
                self.stack.deliver(1, &info, &payload[..len]).ok()?;
            }
            4 => self.transmit(usize::from(script.byte()?))?,
            5 => {
                let _ = self.stack.publish();
            }
            6 => {
                self.stack.park().ok()?;
                self.stack.unpark();
            }
            7 => {
                let message = &[7; 1024][..word(script)? as usize % 1024];
                let about = About { info: (&info).into(), sender: PackedAddr::default(), message };
                self.stack.notify(1, Kind::Error, (111, 0), Some(about)).ok()?;
            }
            8 => {
                let size = word(script)?;
                assert!(self.memory.set_len(size).is_err() || size == self.size, "it is sealed");
            }
            _ => self.behave(&info),
        }
        let (theirs, ours) = self.stack.held();
        assert_eq!(theirs + ours, GEOMETRY.frames as usize, "no frame is lost or made");
        Some(())
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("the application may write anywhere");
    }

    /// As a worker takes the frames to send.
    fn transmit(&mut self, most: usize) -> Option<()> {
        for _ in 0..most {
            let Some(transmit) = self.stack.next_transmit().ok()? else { break };
            if transmit.kind == Kind::Data {
                let mut payload = vec![0; transmit.len];
                assert!(self.stack.copy_payload(&mut payload) <= transmit.len);
            }
            self.stack.complete().ok()?;
        }
        Some(())
    }

    /// As an application uses its channel; over as soon as something is wrong with it.
    fn behave(&mut self, info: &PacketInfo) {
        let Some(mut app) = self.app.take() else { return };
        while let Ok(Some(received)) = app.receive() {
            assert!(app.payload(&received).len() <= usize::from(GEOMETRY.payload_size()));
            if let Some(frame) = received.frame {
                assert!(
                    app.frames().cause(&frame).message.len()
                        <= usize::from(GEOMETRY.payload_size())
                );
                app.release(frame);
            }
        }
        if let Ok(Some(frame)) = app.alloc() {
            let _ = app.submit(frame, 1, info, (64, 10, 0));
        }
        if app.commit().is_ok() {
            self.app = Some(app);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let stack = StackEnd::create(GEOMETRY).expect("a channel");
    let descriptor = || stack.fd().try_clone_to_owned().expect("a descriptor");
    let (app, memory) = (AppEnd::map(descriptor()).ok(), File::from(descriptor()));
    let size = memory.metadata().expect("a file").len();
    let mut bench = Bench { stack, app, memory, size };
    let mut script = Input(data);
    while bench.step(&mut script).is_some() {}
});
