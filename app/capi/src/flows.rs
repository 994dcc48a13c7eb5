//! Flows that a program registers with the stack's policy, and requests for a plan.

use std::ffi::c_int;

use weever_app_sockets::{Error, Flow, Handle};

use crate::listener::{Listener, listener_of};
use crate::queue::{Queue, queue_of};
use crate::socket::{Socket, socket_of};
use crate::values::{Endpoint, Failure, call};

/// The flow from `peer` to a socket or listener; NULL and family 0 stand for any peer.
///
/// # Safety
/// `peer` is NULL or points to a `weever_endpoint`.
unsafe fn flow(to: impl Into<Handle>, peer: *const Endpoint) -> Result<Flow, Failure> {
    // SAFETY: by the caller's word.
    let peer = unsafe { peer.as_ref() }.map(Endpoint::peer).transpose()?.flatten();
    let flow = Flow::to(to);
    Ok(peer.map_or(flow, |peer| flow.peer(peer)))
}

/// The rate, unless it is 0, which says that it is not known.
fn with_rate(flow: Flow, rate: u64) -> Flow {
    if rate == 0 { flow } else { flow.rate(rate) }
}

/// Registers the flow from a peer, or from all peers, to a socket, with its packets per second. Blocks until the
/// stack has answered.
///
/// # Safety
/// See [`socket_of`]; `peer` is NULL or points to a `weever_endpoint`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_register_flow(
    socket: *mut Socket,
    peer: *const Endpoint,
    rate: u64,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let (queue, handle) = unsafe { socket_of(socket) }?.place()?;
        // SAFETY: by the caller's word.
        let flow = unsafe { flow(handle, peer) }?;
        // SAFETY: a queue is not destroyed while it has sockets.
        unsafe { queue_of(queue) }?.inner.register_flow(with_rate(flow, rate))?;
        Ok(0)
    })
}

/// Removes the flow that was registered with the same peer.
///
/// # Safety
/// See [`weever_socket_register_flow`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_socket_unregister_flow(
    socket: *mut Socket,
    peer: *const Endpoint,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let (queue, handle) = unsafe { socket_of(socket) }?.place()?;
        // SAFETY: by the caller's word.
        let flow = unsafe { flow(handle, peer) }?;
        // SAFETY: a queue is not destroyed while it has sockets.
        unsafe { queue_of(queue) }?.inner.unregister_flow(flow)?;
        Ok(0)
    })
}

/// As [`weever_socket_register_flow`], for the connections of a listener.
///
/// # Safety
/// See [`listener_of`]; `peer` is NULL or points to a `weever_endpoint`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_listener_register_flow(
    listener: *mut Listener,
    peer: *const Endpoint,
    rate: u64,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { listener_of(listener) }?;
        // SAFETY: by the caller's word.
        let flow = unsafe { flow(there.handle, peer) }?;
        // SAFETY: a queue is not destroyed while it has listeners.
        unsafe { queue_of(there.queue) }?.inner.register_flow(with_rate(flow, rate))?;
        Ok(0)
    })
}

/// Removes the flow that was registered with the same peer.
///
/// # Safety
/// See [`weever_listener_register_flow`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_listener_unregister_flow(
    listener: *mut Listener,
    peer: *const Endpoint,
) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let there = unsafe { listener_of(listener) }?;
        // SAFETY: by the caller's word.
        let flow = unsafe { flow(there.handle, peer) }?;
        // SAFETY: a queue is not destroyed while it has listeners.
        unsafe { queue_of(there.queue) }?.inner.unregister_flow(flow)?;
        Ok(0)
    })
}

/// Asks the policy for a plan with the flows that are registered now. `EAGAIN`: too soon; `wait_ms` is then
/// the time after which the program may ask again.
///
/// # Safety
/// See [`queue_of`]; `wait_ms` is NULL or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weever_aq_plan(queue: *mut Queue, wait_ms: *mut u32) -> c_int {
    call(|| {
        // SAFETY: by the caller's word.
        let asked = unsafe { queue_of(queue) }?.inner.request_plan();
        if let Err(Error::TooSoon { wait }) = &asked
            && !wait_ms.is_null()
        {
            let millis = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
            // SAFETY: by the caller's word.
            unsafe { wait_ms.write(millis) };
        }
        asked?;
        Ok(0)
    })
}
