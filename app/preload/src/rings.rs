//! io_uring(7): requests that a program writes into memory shared with the kernel, which no library sees.
//!
//! A socket of weever's in such a request would be the kernel's socket behind it. So programs are refused the ring when
//! they make it, as where the kernel's administrator does not permit io_uring, and wait in other ways: by the number
//! of the system call (`syscall`), or by the functions of liburing, which makes the call by an instruction of its own.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use crate::{log, real};

/// Says that there is no ring, and returns the error number.
pub(crate) fn refuse() -> c_int {
    log::note(format_args!("io_uring is refused: its calls do not pass the C library"));
    libc::EPERM
}

macro_rules! refused {
    ($($(#[$about:meta])* fn $name:ident($($argument:ty),*);)*) => {$(
        $(#[$about])*
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($(_: $argument),*) -> c_int {
            -refuse()
        }
    )*};
}

// Those of liburing by which programs begin; they return the error number with a minus sign.
refused! {
    /// Makes a ring.
    fn io_uring_queue_init(c_uint, *mut c_void, c_uint);
    /// The same, with parameters.
    fn io_uring_queue_init_params(c_uint, *mut c_void, *mut c_void);
    /// The same, in memory of the program's.
    fn io_uring_queue_init_mem(c_uint, *mut c_void, *mut c_void, *mut c_void, usize);
    /// The system call itself.
    fn io_uring_setup(c_uint, *mut c_void);
}

/// What the kernel supports, for which the library makes a ring: there is no answer.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn io_uring_get_probe() -> *mut c_void {
    real::set_errno(refuse());
    ptr::null_mut()
}
