//! Giving up privileges that a running stack does not need: a flaw that hostile packets could use then gains little.
//!
//! Two steps, since Linux keeps capabilities for each thread and shares a filter of system calls between
//! all. [`drop_capabilities`] comes before the first thread is started, when files and devices are open;
//! threads inherit them from the one that starts them. [`restrict_system_calls`] comes when the whole stack runs, for
//! all threads at once. Neither can be undone, and both concern the whole process: `weever up` takes them,
//! and a program that embeds a stack decides for itself.

use std::collections::BTreeMap;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads,
};

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivilegeError {
    /// The kernel did not take the capabilities.
    #[error(
        "cannot give up capabilities: {0}; with `drop-privileges = false` the stack keeps them"
    )]
    Capabilities(Errno),
    /// The kernel did not take the filter.
    #[error(
        "cannot restrict system calls: {0}; with `drop-privileges = false` the stack does without"
    )]
    Filter(#[from] seccompiler::Error),
}

/// Capabilities of a running stack: rules of NICs, addresses and new steering programs (NET_ADMIN, BPF, and
/// PERFMON, without which the verifier rejects sums of pointers and lengths of headers), packet sockets
/// (NET_RAW), and buffers beyond the limit of locked memory (IPC_LOCK).
const NEEDED: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK);

/// Gives up all capabilities but those that a running stack needs, in this thread and those that it
/// starts from now on. `binds`: it also keeps the right to bind ports below 1024, for applications whose ports are the
/// kernel's.
///
/// # Errors
/// See [`PrivilegeError`]; nothing has changed then.
pub(crate) fn drop_capabilities(binds: bool) -> Result<(), PrivilegeError> {
    let now = capabilities(None).map_err(PrivilegeError::Capabilities)?;
    let bind = CapabilitySet::NET_BIND_SERVICE & now.permitted;
    let kept = kept(now.permitted) | if binds { bind } else { CapabilitySet::empty() };
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: none };
    set_capabilities(None, sets).map_err(PrivilegeError::Capabilities)
}

/// Kernels before 5.8 have no CAP_BPF: there CAP_SYS_ADMIN stands for it.
fn kept(permitted: CapabilitySet) -> CapabilitySet {
    let for_bpf = match permitted.contains(CapabilitySet::BPF) {
        true => CapabilitySet::empty(),
        false => CapabilitySet::SYS_ADMIN,
    };
    permitted & (NEEDED | for_bpf)
}

/// Sets `PR_SET_NO_NEW_PRIVS` and has the kernel refuse, with `EPERM`, all system calls that a running
/// stack does not make, in all threads of the process.
///
/// # Errors
/// See [`PrivilegeError`].
pub(crate) fn restrict_system_calls() -> Result<(), PrivilegeError> {
    // Of what two filters say, the stricter counts. So `clone3`, whose flags a filter cannot see, is "not
    // there" by the first and allowed by the second, and the C library takes `clone`.
    let absent = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let absent = filter(absent, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?;
    let allowed = filter(rules()?, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)?;
    apply_filter_all_threads(&absent)?;
    Ok(apply_filter_all_threads(&allowed)?)
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(
    rules: Rules,
    others: SeccompAction,
    listed: SeccompAction,
) -> Result<BpfProgram, seccompiler::Error> {
    let filter = SeccompFilter::new(rules, others, listed, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

/// The allowed calls; those with rules only with such arguments.
fn rules() -> Result<Rules, seccompiler::Error> {
    let mut rules: Rules = CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let first = |operation, value| {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operation, value)?;
        SeccompRule::new(vec![condition])
    };
    // Threads, but no processes and no namespaces.
    let thread = libc::CLONE_THREAD as u64;
    let flags = thread | NAMESPACES;
    rules.insert(libc::SYS_clone3, Vec::new());
    rules.insert(libc::SYS_clone, vec![first(SeccompCmpOp::MaskedEq(flags), thread)?]);
    let one_of = |values: &[i32]| {
        values.iter().map(|value| first(SeccompCmpOp::Eq, *value as u64)).collect::<Result<_, _>>()
    };
    rules.insert(libc::SYS_socket, one_of(&FAMILIES)?);
    rules.insert(libc::SYS_prctl, one_of(&PRCTL)?);
    Ok(rules)
}

/// `CLONE_NEW…` (`linux/sched.h`).
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// Families of sockets: control, applications and metrics; the kernel's network; the devices' packets.
const FAMILIES: [i32; 6] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];

/// Names and timers of threads, and names of memory, which the C library gives.
const PRCTL: [i32; 5] = [
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_VMA,
];

/// Calls that are allowed whatever their arguments are. Missing on purpose: programs (`execve`), other
/// processes (`ptrace`, `process_vm_*`, `kill`), namespaces and mounts, users and groups, kernel modules
/// and keys, `io_uring` (whose work a filter does not see), `perf_event_open`, `userfaultfd`,
/// `open_by_handle_at`.
const CALLS: &[i64] = &[
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mbind,
    libc::SYS_brk,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_memfd_create,
    // Files: of control, states of devices, `/proc` and `/sys`.
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_faccessat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_readlinkat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_ioctl,
    // Sockets.
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_bpf,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    // Threads and signals.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_tgkill,
    libc::SYS_getcpu,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Questions.
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Older forms of the above, which the C library takes where the architecture has them.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
];

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::UdpSocket;
    use std::process::Command;

    use nix::errno::Errno;
    use nix::sched::{CloneFlags, unshare};
    use socket2::{Domain, Socket, Type};

    use super::*;

    const MARK: &str = "WEEVER_TEST_RESTRICTED";

    /// The filter is for a whole process, so this test runs itself as one.
    #[test]
    fn a_restricted_process_is_refused_what_no_stack_does() {
        if std::env::var_os(MARK).is_some() {
            return restricted();
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "privileges::tests::a_restricted_process_is_refused_what_no_stack_does",
        ]);
        let output = command.arg("--nocapture").env(MARK, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("refused as it should be"), "{output:?}");
    }

    fn restricted() {
        let earlier = std::thread::spawn(|| {
            std::thread::park();
            Socket::new(Domain::VSOCK, Type::STREAM, None).unwrap_err().kind()
        });
        restrict_system_calls().unwrap();
        earlier.thread().unpark();
        assert_eq!(earlier.join().unwrap(), ErrorKind::PermissionDenied, "of earlier threads too");
        let program = Command::new("/bin/true").spawn().unwrap_err();
        assert_eq!(program.kind(), ErrorKind::PermissionDenied, "no other programs");
        assert_eq!(unshare(CloneFlags::CLONE_NEWUSER), Err(Errno::EPERM));
        let signalled = nix::sys::signal::kill(nix::unistd::Pid::this(), None);
        assert_eq!(signalled, Err(Errno::EPERM), "no signals to processes");
        assert!(rustix::thread::set_no_new_privs(true).is_err(), "no options of processes");
        // What stacks do goes on: threads, files, sockets.
        let thread = std::thread::Builder::new().name("later".into());
        assert_eq!(thread.spawn(|| 1).unwrap().join().unwrap(), 1);
        let mut status = String::new();
        std::fs::File::open("/proc/self/status").unwrap().read_to_string(&mut status).unwrap();
        assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
        UdpSocket::bind("127.0.0.1:0").unwrap();
        println!("refused as it should be");
    }

    #[test]
    fn what_a_stack_needs_is_kept_and_nothing_else() {
        assert_eq!(kept(CapabilitySet::all()), NEEDED);
        let before_5_8 = CapabilitySet::all() - CapabilitySet::BPF;
        assert!(kept(before_5_8).contains(CapabilitySet::SYS_ADMIN));
        assert_eq!(kept(CapabilitySet::NET_RAW | CapabilitySet::SETUID), CapabilitySet::NET_RAW);
    }
}
