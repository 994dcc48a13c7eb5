//! `weever policy check`.

use std::io::Write;
use std::process::ExitCode;

use weever_plan::policy::{Class, Dedication, Queues};
use weever_policy::policy::CheckedPolicy;

use crate::{PlanToolError, PolicyCommand, load};

/// Checks a policy and reports the findings.
///
/// # Errors
/// [`PlanToolError`] if the file cannot be read. Mistakes in it are shown, and are the exit status
/// 1.
pub fn run(command: &PolicyCommand) -> Result<ExitCode, PlanToolError> {
    let PolicyCommand::Check(args) = command;
    let text = load::text(&args.file)?;
    let file = load::shown(&args.file);
    match check(&text, args.queues) {
        Ok(said) => {
            let _ = writeln!(std::io::stdout(), "{file}: {said}");
            Ok(ExitCode::SUCCESS)
        }
        Err(said) => {
            let _ = writeln!(std::io::stderr(), "{file}: the policy is wrong:\n{said}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Checks a policy's text, and that `queues` queues are enough for it.
///
/// # Errors
/// All mistakes, a line each.
pub fn check(text: &str, queues: Option<u32>) -> Result<String, String> {
    let policy = weever_policy::policy::parse(text).map_err(|problems| problems.to_string())?;
    let shortages = queues.map(|queues| shortages(&policy, queues)).unwrap_or_default();
    if !shortages.is_empty() {
        return Err(shortages.join("\n"));
    }
    let classes = crate::render::count(policy.document.classes.len(), "class");
    let mut said = format!("no errors, {classes}");
    if !policy.warnings.is_empty() {
        said.push_str(&format!("\n{}", policy.warnings));
    }
    Ok(said)
}

/// The queues that classes and applications want for themselves beyond the `queues` there are.
fn shortages(policy: &CheckedPolicy, queues: u32) -> Vec<String> {
    let owners = owners(policy);
    let mut said: Vec<String> = owners
        .iter()
        .filter_map(|(owner, _, named)| Some((owner, named.iter().find(|at| **at >= queues)?)))
        .map(|(owner, queue)| {
            format!("{owner} wants queue {queue}, but there are {queues} queues, numbered from 0")
        })
        .collect();
    let all: u64 = owners.iter().map(|(_, count, _)| count).sum();
    // One has to be left for unregistered traffic.
    if all >= u64::from(queues) {
        let wanted: Vec<String> =
            owners.iter().map(|(owner, count, _)| format!("{owner} {count}")).collect();
        said.push(format!(
            "queues run out: {all} are wanted exclusively ({}), and one has to be left for other \
             traffic, but there are {queues}; lower `exclusive`, or use {} queues",
            wanted.join(", "),
            all + 1
        ));
    }
    said
}

/// Classes and applications with queues of their own: how many, and which if they are named.
fn owners(policy: &CheckedPolicy) -> Vec<(String, u64, Vec<u32>)> {
    let class = |class: &Class| {
        let name = format!("class `{}`", class.name);
        match &class.queues {
            Queues::Shared => None,
            Queues::Exclusive(count) => Some((name, u64::from(*count), Vec::new())),
            Queues::Only(named) => Some((name, named.len() as u64, named.clone())),
        }
    };
    let app = |dedication: &Dedication| {
        let name = format!("application `{}`", policy.apps[dedication.app as usize]);
        (name, 1, vec![dedication.queue])
    };
    let document = &policy.document;
    let classes = document.classes.iter().filter_map(class);
    classes.chain(document.dedicate.iter().map(app)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[[class]]\nname = \"a\"\nmatch = \"udp\"\nqueues = { exclusive = 3 }\n\
                       [[dedicate]]\napp = \"x\"\nqueue = 3\n";

    #[test]
    fn queues_that_run_out_are_named_with_who_wants_them() {
        assert!(check(TWO, Some(5)).unwrap().starts_with("no errors, 1 class"));
        let said = check(TWO, Some(4)).unwrap_err();
        assert!(
            said.contains("4 are wanted exclusively (class `a` 3, application `x` 1)"),
            "{said}"
        );
        let only = "[[class]]\nname = \"b\"\nmatch = \"tcp\"\nqueues = { only = [0, 5] }\n";
        assert!(check(only, Some(6)).is_ok());
        let said = check(only, Some(5)).unwrap_err();
        assert!(said.contains("class `b` wants queue 5, but there are 5 queues"), "{said}");
        let said = check(TWO, Some(3)).unwrap_err();
        assert!(said.contains("application `x` wants queue 3"), "{said}");
        assert!(said.contains("queues run out"), "both are reported: {said}");
        assert!(check("[[class]]\n", None).unwrap_err().contains("has no `name`"));
    }
}
