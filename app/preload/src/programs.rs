//! The calls by which a process runs another program, changes its user or restricts its system calls, as the program
//! finds them.
//!
//! What the next program inherits is described for it ([`handover`]), however it is started; a program that passes an
//! environment of its own gets what this library needs added to it when it inherits sockets.

use std::ffi::{c_char, c_int, c_long};

use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use crate::calls::calls;
use crate::environment::{self, Environment};
use crate::numbers;
use crate::state::lock;
use crate::{handover, process, real, rings};

/// A list of strings that ends with a null pointer.
type Strings = *const *const c_char;

calls! {
    /// Forks. A child that shared its parent's memory would change its parent's sockets.
    fn vfork() -> pid_t {
        real::fork()
    }

    /// Changes properties of the process; one of them restricts its system calls, and one may be
    /// [refused](process::stays_closed).
    fn prctl(option: c_int, first: libc::c_ulong, second: libc::c_ulong, third: libc::c_ulong, fourth: libc::c_ulong) -> c_int {
        if option == libc::PR_SET_SECCOMP {
            process::before_sandbox();
        }
        if option == libc::PR_SET_DUMPABLE && first == 1 && process::stays_closed() {
            return 0;
        }
        real::prctl(option, first, second, third, fourth)
    }

    /// Makes a system call; one of them restricts those that follow, and has no function of its own (seccomp(2)).
    /// Another one makes a ring, which is [refused](crate::rings).
    fn syscall(number: c_long, first: usize, second: usize, third: usize, fourth: usize, fifth: usize, sixth: usize) -> c_long {
        if number == libc::SYS_seccomp && restricts(first) {
            process::before_sandbox();
        }
        if number == libc::SYS_io_uring_setup {
            real::set_errno(rings::refuse());
            return -1;
        }
        real::syscall(number, first, second, third, fourth, fifth, sixth)
    }

    /// Replaces this program by another one.
    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
        exec(environment, |environment| real::execve(path, arguments, environment))
    }

    /// The same, with this program's environment.
    fn execv(path: *const c_char, arguments: Strings) -> c_int {
        execve(path, arguments, environment::own())
    }

    /// The same, with a search for the program in `PATH`.
    fn execvp(file: *const c_char, arguments: Strings) -> c_int {
        execvpe(file, arguments, environment::own())
    }

    /// The same, with another environment.
    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
        exec(environment, |environment| real::execvpe(file, arguments, environment))
    }

    /// Replaces this program by the one of a descriptor.
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int {
        exec(environment, |environment| real::fexecve(fd, arguments, environment))
    }

    /// Replaces this program by one that is named relative to a folder's descriptor.
    fn execveat(folder: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int {
        exec(environment, |environment| real::execveat(folder, path, arguments, environment, flags))
    }

    /// Runs a program in a child.
    fn posix_spawn(child: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, arguments: Strings, environment: Strings) -> c_int {
        spawn(environment, |environment| {
            real::posix_spawn(child, path, actions, attributes, arguments, environment)
        })
    }

    /// The same, with a search for the program in `PATH`.
    fn posix_spawnp(child: *mut pid_t, file: *const c_char, actions: *const posix_spawn_file_actions_t, attributes: *const posix_spawnattr_t, arguments: Strings, environment: Strings) -> c_int {
        spawn(environment, |environment| {
            real::posix_spawnp(child, file, actions, attributes, arguments, environment)
        })
    }

    /// Has `posix_spawn` duplicate a descriptor in the child, which inherits it thus even if it is closed on `exec`.
    fn posix_spawn_file_actions_adddup2(actions: *mut posix_spawn_file_actions_t, fd: c_int, to: c_int) -> c_int {
        if numbers::file(fd).is_some()
            && let Ok((_, file)) = lock().of(fd)
        {
            file.bequeathed = true;
        }
        real::posix_spawn_file_actions_adddup2(actions, fd, to)
    }

    /// Changes the user.
    fn setuid(user: libc::uid_t) -> c_int {
        process::before_change();
        real::setuid(user)
    }

    /// Changes the users.
    fn setresuid(first: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) -> c_int {
        process::before_change();
        real::setresuid(first, effective, saved)
    }

    /// Changes the users.
    fn setreuid(first: libc::uid_t, effective: libc::uid_t) -> c_int {
        process::before_change();
        real::setreuid(first, effective)
    }

    /// Changes the user.
    fn seteuid(user: libc::uid_t) -> c_int {
        process::before_change();
        real::seteuid(user)
    }

    /// Changes the root.
    fn chroot(path: *const c_char) -> c_int {
        process::before_change();
        real::chroot(path)
    }
}

/// Whether an operation of `seccomp` restricts the process; others only ask.
fn restricts(operation: usize) -> bool {
    let operation = operation as libc::c_uint;
    [libc::SECCOMP_SET_MODE_STRICT, libc::SECCOMP_SET_MODE_FILTER].contains(&operation)
}

/// # Safety
/// `environment` is null or a list of strings.
unsafe fn exec(environment: Strings, call: impl FnOnce(Strings) -> c_int) -> c_int {
    let undone = handover::before_exec();
    // SAFETY: the caller's promise.
    let environment = unsafe { Environment::new(environment, undone.is_some()) };
    call(environment.list())
}

/// # Safety
/// `environment` is null or a list of strings.
unsafe fn spawn(environment: Strings, call: impl FnOnce(Strings) -> c_int) -> c_int {
    let (held, handover) = handover::before_spawn();
    // SAFETY: the caller's promise.
    let environment = unsafe { Environment::new(environment, handover.is_some()) };
    let done = call(environment.list());
    drop(handover);
    // The lock kept other children from inheriting the descriptors of this one.
    drop(held);
    done
}

/// `execl` and its like have their arguments behind each other, which is no matter for Rust: the registers' ones are
/// pushed in front of those that are on the stack already, so that all of them are a list.
#[cfg(target_arch = "x86_64")]
mod listed {
    use std::arch::naked_asm;
    use std::ffi::{c_char, c_int};

    use super::{Strings, execve, execvp};

    macro_rules! listed {
        ($($name:ident => $by:ident;)*) => {$(
            /// # Safety
            /// As the call of the C library.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name() -> c_int {
                // After the pop the stack is aligned, after six pushes again.
                naked_asm!(
                    "pop r11",
                    "push r9",
                    "push r8",
                    "push rcx",
                    "push rdx",
                    "push rsi",
                    "mov rsi, rsp",
                    "push r11",
                    "call {by}",
                    "pop r11",
                    "add rsp, 40",
                    "push r11",
                    "ret",
                    by = sym $by,
                )
            }
        )*};
    }

    listed! {
        execl => list;
        execlp => list_in_path;
        execle => list_with_environment;
    }

    unsafe extern "C" fn list(path: *const c_char, arguments: Strings) -> c_int {
        // SAFETY: the caller's promise, which ends its arguments with a null pointer.
        unsafe { execve(path, arguments, super::environment::own()) }
    }

    unsafe extern "C" fn list_in_path(file: *const c_char, arguments: Strings) -> c_int {
        // SAFETY: as above.
        unsafe { execvp(file, arguments) }
    }

    unsafe extern "C" fn list_with_environment(path: *const c_char, arguments: Strings) -> c_int {
        let mut end = arguments;
        // SAFETY: as above; the environment is behind the null pointer.
        unsafe {
            while !(*end).is_null() {
                end = end.add(1);
            }
            execve(path, arguments, end.add(1).cast::<Strings>().read())
        }
    }
}
