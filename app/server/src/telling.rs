//! Events of streams, and answers, are written into the rings of their applications.

use weever_app_ring::{Delivery, Kind, PacketInfo};
use weever_net::stream::{StreamEvent, StreamId};

use crate::channels::{Channel, Channels};
use crate::passage::Told;
use crate::stream::Urgent;
use crate::streams::Streams;

impl Streams {
    /// Delivers events to applications as far as there is room, in order for each channel.
    pub(crate) fn tell_untold(&mut self, channels: &mut Channels) {
        self.released.retain(|name| !tell(*name, &Told::Released, channels));
        // After the release was delivered: the same queue may get the connection again by another listener,
        // under the same number.
        if !self.unplaced.is_empty() && self.released.is_empty() {
            self.place(channels);
        }
        let mut full: Vec<u32> = Vec::new();
        for _ in 0..self.untold.len() {
            let Some((id, what)) = self.untold.pop_front() else { break };
            if matches!(what, Told::Event(StreamEvent::Urgent { .. })) {
                if !self.tell_urgent(id, channels) {
                    self.untold.push_back((id, what));
                }
                continue;
            }
            let place = self.open.get(&id).map(|there| (there.queue, there.number, there.open));
            let relay = || self.relays.get(&id).map(|there| (there.queue, there.number, true));
            let Some((queue, number, open)) = place.or_else(relay) else { continue };
            let told = !open || !full.contains(&queue) && tell((queue, number), &what, channels);
            if !told {
                full.push(queue);
                self.untold.push_back((id, what));
            } else if matches!(what, Told::Event(StreamEvent::Closed)) {
                self.forget(id, channels);
            }
        }
    }

    /// Tells an application of urgent data; false when there is no room. Done if the stream is elsewhere: it is told from
    /// there.
    fn tell_urgent(&mut self, id: StreamId, channels: &mut Channels) -> bool {
        let Some(there) = self.open.get_mut(&id).filter(|there| there.open) else { return true };
        let Some(channel) = channels.of(there.queue) else { return true };
        tell_urgent(there.number, there.delivered, &mut there.urgent, channel)
    }

    pub(crate) fn forget(&mut self, id: StreamId, channels: &mut Channels) {
        let Some(stream) = self.open.remove(&id) else { return };
        if stream.open {
            self.named.remove(&(stream.queue, stream.number));
        }
        self.holds -= stream.holders.len();
        stream.holders.iter().for_each(|name| _ = self.named.remove(name));
        self.return_all(stream.sent);
        self.give_back(channels);
    }
}

/// Writes an event or an answer into the ring of a stream's channel; false when there is no room. Done once
/// the application is gone.
fn tell((queue, number): (u32, u32), what: &Told, channels: &mut Channels) -> bool {
    let Some(channel) = channels.of(queue) else { return true };
    let event = match what {
        Told::Event(event) => *event,
        Told::Moved(worker) => {
            return tell_plain(number, (Kind::Moved, (*worker).into()), channel);
        }
        Told::Released => return tell_plain(number, (Kind::Released, 0), channel),
        Told::Info(info) => {
            let told = channel.end.inform(number, &info[..]);
            channel.dirty = true;
            channel.broken |= told.is_err();
            return told.unwrap_or(true);
        }
    };
    let what = match event {
        StreamEvent::Connected { local, remote } => {
            let ends = PacketInfo { local, remote, ..PacketInfo::default() };
            let told = channel.end.connected(number, number, &ends);
            channel.dirty = true;
            channel.broken |= told.is_err();
            return told.unwrap_or(true);
        }
        StreamEvent::Finished => (Kind::Finished, 0),
        StreamEvent::Failed(errno) => (Kind::Error, errno.into()),
        _ => (Kind::Closed, 0),
    };
    tell_plain(number, what, channel)
}

/// Writes of urgent data of which the application was not told; false when there is no room. `delivered` is the offset behind
/// the octets that it has.
#[inline]
pub(crate) fn tell_urgent(
    number: u32,
    delivered: u64,
    urgent: &mut Option<Urgent>,
    channel: &mut Channel,
) -> bool {
    let Some(urgent) = urgent.as_mut().filter(|urgent| !urgent.told) else { return true };
    // A window and the reach of a pointer at the most.
    let ahead = urgent.end.wrapping_sub(delivered) as u32;
    urgent.told = tell_plain(number, (Kind::Urgent, ahead), channel);
    urgent.told
}

/// Writes an entry without a frame.
fn tell_plain(number: u32, (kind, value): (Kind, u32), channel: &mut Channel) -> bool {
    let told = channel.end.notify(number, kind, (value as u16, (value >> 16) as u16), None);
    channel.dirty = true;
    channel.broken |= told.is_err();
    told.is_ok_and(|told| told == Delivery::Delivered) || channel.broken
}
