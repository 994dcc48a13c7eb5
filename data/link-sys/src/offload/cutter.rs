//! Segmentation on receive: a packet of up to 64 KiB that the sender's kernel left to a device to
//! cut, cut into the packets that it would have sent.
//!
//! As hardware does it: TCP's sequence number grows by the bytes before, FIN and PSH stand on the
//! last segment and CWR on the first (RFC 3168 §6.1.2), IPv4's identification is counted up. The
//! transport checksums of the pieces are partial, as the large packet's was.

use super::{Layers, Transport, number, put, write_ipv4, write_partial};

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// The longest packet that comes in one piece, with its link header.
const LONGEST: usize = 65_536 + 64;

/// A place for one large packet, and how far it has been cut.
#[derive(Debug)]
pub(crate) struct Cutter {
    frame: Box<[u8]>,
    job: Option<Job>,
}

/// A packet to cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    layers: Layers,
    /// Where the payload starts.
    payload: usize,
    /// Where the packet ends.
    end: usize,
    /// Payload of a piece.
    size: usize,
    /// Where the next piece's payload starts.
    next: usize,
    number: u16,
}

impl Job {
    /// Whether a packet can be cut into pieces of `size` payload bytes.
    pub(super) fn of(frame: &[u8], transport: Transport, size: u16) -> Option<Job> {
        let layers = Layers::of(frame).filter(|layers| layers.transport == transport)?;
        let payload = layers.payload(frame)?;
        let (end, size) = (frame.len(), usize::from(size));
        (size > 0).then_some(Job { layers, payload, end, size, next: payload, number: 0 })
    }
}

impl Cutter {
    pub(crate) fn new() -> Cutter {
        Cutter { frame: vec![0; LONGEST].into(), job: None }
    }

    /// Where a large packet is put before it is cut.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.frame
    }

    /// Starts cutting the first `len` bytes of [`room`](Self::room). False: they are no packet of
    /// that kind.
    pub(crate) fn start(&mut self, len: usize, transport: Transport, size: u16) -> bool {
        self.job = self.frame.get(..len).and_then(|frame| Job::of(frame, transport, size));
        self.job.is_some()
    }

    /// How long the next piece is; `None` when there is none.
    pub(crate) fn next_len(&self) -> Option<usize> {
        let job = self.job.as_ref()?;
        Some(job.payload + job.size.min(job.end - job.next))
    }

    /// Writes the next piece, of that length.
    pub(crate) fn cut(&mut self, piece: &mut [u8]) {
        let Some(job) = &mut self.job else { return };
        let chunk = piece.len() - job.payload;
        piece[..job.payload].copy_from_slice(&self.frame[..job.payload]);
        piece[job.payload..].copy_from_slice(&self.frame[job.next..job.next + chunk]);
        let sent = job.next - job.payload;
        job.next += chunk;
        let is_last = job.next >= job.end;
        job.rewrite(piece, sent, is_last);
        job.number = job.number.wrapping_add(1);
        if is_last {
            self.job = None;
        }
    }

    /// Gives up the rest.
    pub(crate) fn abandon(&mut self) {
        self.job = None;
    }
}

impl Job {
    /// Makes the copied headers those of a piece before which `sent` bytes have gone.
    fn rewrite(&self, piece: &mut [u8], sent: usize, is_last: bool) {
        let Layers { l3, l4, v6, transport } = self.layers;
        if v6 {
            put(piece, l3 + 4, (piece.len() - l3 - 40) as u16);
        } else {
            put(piece, l3 + 2, (piece.len() - l3) as u16);
            let identification = number(piece, l3 + 4).unwrap_or(0).wrapping_add(self.number);
            put(piece, l3 + 4, identification);
            write_ipv4(piece, &self.layers);
        }
        match transport {
            Transport::Udp => put(piece, l4 + 4, (piece.len() - l4) as u16),
            Transport::Tcp => self.rewrite_tcp(piece, sent, is_last),
        }
        write_partial(piece, &self.layers);
    }

    fn rewrite_tcp(&self, piece: &mut [u8], sent: usize, is_last: bool) {
        let tcp = &mut piece[self.layers.l4..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        tcp[4..8].copy_from_slice(&sequence.wrapping_add(sent as u32).to_be_bytes());
        if !is_last {
            tcp[13] &= !FIN_PSH;
        }
        if sent > 0 {
            tcp[13] &= !CWR;
        }
    }
}
