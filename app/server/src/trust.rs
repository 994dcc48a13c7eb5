//! Applications that work in the frames in which the stack receives and sends.
//!
//! Such an application can write to every frame of the pool that it shares, at any time: it is trusted with all packets
//! that a worker receives and sends by that pool. So a pool is lent to users that the operator has named, or to the
//! program that has the stack inside.

use std::sync::{Arc, Weak};

use weever_app_ring::{FrameMemory, Geometry, StackEnd};
use weever_packet::{Exchange, Lease, Pool};

use crate::request::{Identity, ServerError};

/// A channel in fewer frames than these and than its application has asked for is not worth having.
const LEAST: usize = 256;

/// The pool of one worker's packets, and who may work in its frames.
pub(crate) struct Lender {
    pool: Pool,
    /// The most frames that applications have together.
    most: usize,
    trusted: Vec<Trusted>,
    leases: Vec<Weak<Lease>>,
}

/// Who is trusted with a worker's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trusted {
    /// All applications: they are in this process.
    Everybody,
    /// Applications of these users, by number.
    Users(Vec<u32>),
    /// The application of this name, if it is one of these users'.
    Application(String, Vec<u32>),
}

impl Trusted {
    fn includes(&self, application: &Identity) -> bool {
        match self {
            Trusted::Everybody => true,
            Trusted::Users(users) => users.contains(&application.uid),
            Trusted::Application(name, users) => {
                *name == application.name && users.contains(&application.uid)
            }
        }
    }
}

impl Lender {
    /// `None` when the pool's memory cannot be shared.
    pub(crate) fn new(pool: &Pool) -> Option<Lender> {
        pool.region().memfd()?;
        Some(Lender { pool: pool.clone(), most: 0, trusted: Vec::new(), leases: Vec::new() })
    }

    /// Has these, besides others, work in `most` more frames.
    pub(crate) fn trust(&mut self, trusted: Trusted, most: usize) {
        self.most += most;
        self.trusted.push(trusted);
    }

    /// A channel in this pool's frames for an application, in fewer than it has asked for if others have some; `None` if it
    /// is not trusted, or too few are left.
    pub(crate) fn channel(
        &mut self,
        application: &Identity,
        geometry: Geometry,
    ) -> Result<Option<(StackEnd, Exchange)>, ServerError> {
        // One that wants longer frames than packets have gets its own.
        let is_trusted = self.trusted.iter().any(|trusted| trusted.includes(application));
        if !is_trusted || geometry.frame_size > self.pool.frame_size() {
            return Ok(None);
        }
        self.leases.retain(|lease| lease.strong_count() > 0);
        let out: usize = self.leases.iter().filter_map(Weak::upgrade).map(|l| l.frames()).sum();
        // Fewer than it has asked for are better than copies.
        let frames = (geometry.frames as usize).min(self.most.saturating_sub(out));
        if frames < LEAST.min(geometry.frames as usize) {
            tracing::info!(
                "application {:?} gets frames of its own: others have {out} of the {} that are lent",
                application.name,
                self.most
            );
            return Ok(None);
        }
        // Others may have the frames for now, packets for instance.
        let Ok((exchange, first)) = Exchange::new(&self.pool, &application.name, frames) else {
            return Ok(None);
        };
        let lease = exchange.lease();
        self.leases.push(Arc::downgrade(&lease));
        let Some(memfd) = self.pool.region().memfd() else { return Ok(None) };
        let memfd = memfd.try_clone_to_owned().map_err(ServerError::dup)?;
        let frames = self.pool.frames() as u32;
        let memory = FrameMemory { memfd, frames, keep: Box::new(lease) };
        let geometry = Geometry { frame_size: self.pool.frame_size(), ..geometry };
        Ok(Some((StackEnd::create_over(geometry, memory, &first)?, exchange)))
    }
}
