//! The cores that the process may run on.

use weever_host::allowed_cores;

use super::error::PreflightError;

pub(super) fn check(wanted: &[usize]) -> Result<(), PreflightError> {
    let what = "read the affinity of the process";
    let allowed = allowed_cores().map_err(|source| PreflightError::Io { what, source })?;
    match wanted.iter().find(|core| !allowed.contains(core)) {
        Some(core) => {
            let allowed: Vec<String> = allowed.iter().map(usize::to_string).collect();
            Err(PreflightError::Core { core: *core, allowed: allowed.join(", ") })
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use nix::sched::CpuSet;

    use super::*;

    #[test]
    fn cores_that_there_are_none_of_are_refused_with_those_that_there_are() {
        let mine = allowed_cores().unwrap();
        assert!(check(&mine).is_ok() && check(&[]).is_ok());
        for core in [CpuSet::count() - 1, CpuSet::count(), usize::MAX] {
            let error = check(&[core]).unwrap_err().to_string();
            assert!(
                error.contains(&core.to_string())
                    && error.ends_with(&mine.last().unwrap().to_string()),
                "{error}"
            );
        }
    }
}
