//! io_uring(7): requests that a program writes into memory shared with the kernel, which no library sees.
//!
//! A socket of weever's in such a request would be the kernel's socket behind it. So programs are refused the ring when
//! they make it, as where the kernel's administrator does not permit io_uring, and wait in other ways: by the number
//! of the system call (`syscall`), or by the functions of liburing, which makes the call by an instruction of its own. A
//! program or library that has this instruction itself is found before the first socket becomes weever's; the process'
//! sockets are the kernel's then.

use std::ffi::{CStr, OsStr, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use weever_app_sockets::makes_rings;

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

/// Reads the environment, which some programs clear later: whether all rings are for files (`WEEVER_PRELOAD_RINGS`).
pub(crate) fn are_for_files() -> bool {
    static FILES: OnceLock<bool> = OnceLock::new();
    *FILES
        .get_or_init(|| std::env::var_os("WEEVER_PRELOAD_RINGS").is_some_and(|value| value == "1"))
}

/// Whether the program, or one of its libraries, makes rings past this library, as it is at the first question; says so
/// then.
pub(crate) fn pass_by() -> bool {
    static PASS_BY: OnceLock<bool> = OnceLock::new();
    *PASS_BY.get_or_init(|| {
        let mut found: Option<PathBuf> = None;
        if !are_for_files() {
            // SAFETY: a function of this type, and a place that is borrowed until it has returned.
            unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast::<c_void>()) };
        }
        if let Some(maker) = &found {
            log::always(format_args!(
                "sockets are the kernel's: {} makes io_urings by itself, whose requests pass no library; with `weever \
                 run --rings`, which says that they are for files, sockets are the stack's",
                maker.display()
            ));
        }
        found.is_some()
    })
}

/// Looks through the code of one object; the walk ends with the first that makes rings.
unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: the loader passes an object, and `found` is that of `pass_by`.
    let (object, found) = unsafe { (&*object, &mut *found.cast::<Option<PathBuf>>()) };
    // SAFETY: a string of the loader's.
    let name = unsafe { CStr::from_ptr(object.dlpi_name) };
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    // The functions of the shared liburing are refused.
    let file = name.file_name().map(OsStr::as_bytes).unwrap_or_default();
    if file.starts_with(b"liburing") || object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: as many headers.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    let code = |header: &&libc::Elf64_Phdr| {
        let needed = libc::PF_R | libc::PF_X;
        header.p_type == libc::PT_LOAD && header.p_flags & needed == needed
    };
    let makes = headers.iter().filter(code).any(|header| {
        let start = object.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
        // SAFETY: the loader has mapped it to be read, and the object stays during the walk.
        makes_rings(unsafe {
            std::slice::from_raw_parts(
                ptr::with_exposed_provenance(start),
                header.p_filesz as usize,
            )
        })
    });
    if makes {
        let program = || std::env::current_exe().unwrap_or_else(|_| "the program".into());
        *found = Some(if file.is_empty() { program() } else { name.to_owned() });
    }
    makes.into()
}

/// `dlsym`, for those who look a function up by its name in a library that they have loaded (`dlopen`). It looks behind its
/// caller if it is asked for the next definition (`RTLD_NEXT`), so it is not called from here but continued at, with the
/// program's own place to return to.
#[cfg(target_arch = "x86_64")]
mod by_name {
    use std::arch::naked_asm;
    use std::ffi::c_char;
    use std::sync::atomic::{AtomicPtr, Ordering};

    use super::*;

    /// Looks a function up.
    ///
    /// # Safety
    /// As the call of the C library.
    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        // After two pushes and eight bytes the stack is aligned.
        naked_asm!(
            "push rdi",
            "push rsi",
            "sub rsp, 8",
            "mov rdi, rsi",
            "call {find}",
            "add rsp, 8",
            "pop rsi",
            "pop rdi",
            "test rax, rax",
            "jz 2f",
            "ret",
            "2:",
            "jmp rdx",
            find = sym find,
        )
    }

    /// What is found in the place of liburing's function of this name.
    fn refusal(name: &CStr) -> *mut c_void {
        match name.to_bytes() {
            b"io_uring_queue_init" => io_uring_queue_init as *mut c_void,
            b"io_uring_queue_init_params" => io_uring_queue_init_params as *mut c_void,
            b"io_uring_queue_init_mem" => io_uring_queue_init_mem as *mut c_void,
            b"io_uring_setup" => io_uring_setup as *mut c_void,
            b"io_uring_get_probe" => io_uring_get_probe as *mut c_void,
            _ => ptr::null_mut(),
        }
    }

    /// What is returned at once, and where the call continues otherwise.
    #[repr(C)]
    struct Found(*mut c_void, *mut c_void);

    unsafe extern "C" fn find(name: *const c_char) -> Found {
        static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        let mut next = NEXT.load(Ordering::Relaxed);
        // glibc 2.34 has moved the function, with a new version.
        for version in [c"GLIBC_2.34", c"GLIBC_2.2.5"] {
            if next.is_null() {
                // SAFETY: names that end with a zero.
                next =
                    unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
                NEXT.store(next, Ordering::Relaxed);
            }
        }
        if next.is_null() {
            log::always(format_args!("the C library has no dlsym"));
            // SAFETY: ends the process.
            unsafe { libc::abort() }
        }
        if name.is_null() {
            return Found(ptr::null_mut(), next);
        }
        // SAFETY: the caller's promise.
        Found(refusal(unsafe { CStr::from_ptr(name) }), next)
    }
}
