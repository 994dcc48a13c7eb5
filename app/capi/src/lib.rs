//! `weever.h` for C and C++: the sockets of `weever-app-sockets`, on a stack in another process or in this one, with results in the style of errno.
//! The manual, `docs/capi.md`, has each call's contract; the header is `include/weever.h`.
//!
//! ```text
//!  weever_aq ──► Queue: an AppQueue at an address that stays, its buffers counted
//!     │ poll                          │ sockets
//!     ▼                               ▼
//!  weever_event ── weever_buf     weever_socket, weever_listener, weever_stream: handles, and the
//!                                 caller's pointer
//! ```
//!
//! A pointer that C holds is a box; C gives it back by the call that ends it. A queue counts its sockets
//! and buffers and is not destroyed while one of them is left, so that nothing here points to a
//! freed queue. A panic ends at the border as `EIO`.
#![allow(unsafe_code, reason = "pointers of C programs")]

mod buffer;
mod flows;
mod kept;
mod listener;
mod options;
mod queue;
mod socket;
mod stack;
mod stream;
mod values;

pub use buffer::{
    Buf, Info, weever_buf_capacity, weever_buf_copy, weever_buf_data, weever_buf_info,
    weever_buf_len, weever_buf_set_len,
};
pub use flows::{
    weever_aq_plan, weever_listener_register_flow, weever_listener_unregister_flow,
    weever_socket_register_flow, weever_socket_unregister_flow,
};
pub use listener::{
    Listener, weever_listener_accept, weever_listener_close, weever_listener_open,
    weever_listener_port, weever_listener_span,
};
pub use options::{weever_listener_set, weever_stream_info, weever_stream_set};
pub use queue::{
    Event, Queue, State, weever_aq_acknowledge, weever_aq_arm, weever_aq_buffer_alloc,
    weever_aq_buffer_free, weever_aq_commit, weever_aq_create, weever_aq_destroy, weever_aq_fd,
    weever_aq_poll, weever_aq_reconnect, weever_aq_state, weever_aq_wait,
};
pub use socket::{
    Socket, weever_socket_bind, weever_socket_bind_with, weever_socket_close,
    weever_socket_connect, weever_socket_create, weever_socket_local_port,
    weever_socket_opaque_get, weever_socket_opaque_set, weever_socket_read, weever_socket_send,
    weever_socket_span, weever_socket_write,
};
pub use stream::{
    Stream, weever_stream_abort, weever_stream_buffer_alloc, weever_stream_close,
    weever_stream_connect, weever_stream_ends, weever_stream_finish, weever_stream_opaque_get,
    weever_stream_opaque_set, weever_stream_read, weever_stream_send, weever_stream_write,
};
pub use values::{Dest, Endpoint, weever_api_version, weever_error};
