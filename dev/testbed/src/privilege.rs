//! May this process make namespaces at all?

use std::sync::OnceLock;

use crate::Namespace;

/// The line that a test prints when it may not run; scripts look for exactly this line.
pub const SKIPPED: &str = "skipped: needs CAP_NET_ADMIN";

/// True if this process may create network namespaces and links.
///
/// Found out by trying once, since capabilities alone do not show whether a container's seccomp
/// filter allows it. The answer is kept for the life of the process.
#[must_use]
pub fn privileged() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| Namespace::new().is_ok())
}

/// Returns from the enclosing function, after printing [`SKIPPED`], unless the process is
/// [`privileged`]. An argument is the value to return.
#[macro_export]
macro_rules! require_net_admin {
    () => {
        $crate::require_net_admin!(())
    };
    ($value:expr) => {
        if !$crate::privileged() {
            println!("{}", $crate::SKIPPED);
            return $value;
        }
    };
}
