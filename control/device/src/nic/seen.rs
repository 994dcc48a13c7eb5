//! What was seen of a device, as far as it matters later.

use std::time::{Duration, Instant};

use weever_plan::search::OthersRule;

/// So long after a restart was announced, losses are put down to it: some devices take seconds.
const RESTART: Duration = Duration::from_secs(10);
/// So often within that time, all rules may go without any announcement. More often, somebody deletes them.
const SILENT: (usize, Duration) = (3, Duration::from_secs(60));

/// What was announced of the device, as far as it matters later.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// When the last restart was announced.
    pub(super) restarted: Option<Instant>,
    pub(super) has_moved: bool,
    /// When all rules went without an announcement.
    pub(super) silent: Vec<Instant>,
}

impl Traces {
    pub(super) fn has_restarted(&self) -> bool {
        self.restarted.is_some_and(|at| at.elapsed() < RESTART)
    }

    /// All rules went. Returns whether that is nobody's wish.
    pub(super) fn all_went(&mut self) -> bool {
        let (most, within) = SILENT;
        self.silent.retain(|at| at.elapsed() < within);
        if self.has_restarted() {
            return true;
        }
        self.silent.push(Instant::now());
        self.silent.len() <= most
    }
}

/// The rules that others have on a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OthersRules {
    /// Those that plans go around.
    pub known: Vec<OthersRule>,
    /// The locations of those that the model has no words for: plans do not know what they take.
    pub unknown: Vec<u32>,
}

impl OthersRules {
    /// A note for people, if there are any.
    pub fn note(&self) -> Option<String> {
        let told = match (self.known.len(), &self.unknown[..]) {
            (0, []) => return None,
            (known, []) => {
                format!("{known} rules that are not ours stay: the plan goes around them")
            }
            (known, unknown) => {
                let at: Vec<String> = unknown.iter().map(u32::to_string).collect();
                format!(
                    "{} rules that are not ours stay: the plan goes around {known} of them; what those at {} take is \
                     unknown to it",
                    known + unknown.len(),
                    at.join(", ")
                )
            }
        };
        Some(told)
    }
}
