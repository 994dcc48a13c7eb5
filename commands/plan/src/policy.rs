//! `weever policy check`.

use std::io::Write;
use std::process::ExitCode;

use weever_plan::policy::Queues;
use weever_policy::policy::Page;

use crate::{PlanToolError, PolicyCommand, load};

/// Checks a policy and says what it found.
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

/// Checks a policy's text, and that so many queues are enough for it.
///
/// # Errors
/// What is wrong with it, a line for each mistake.
pub fn check(text: &str, queues: Option<u32>) -> Result<String, String> {
    let page = weever_policy::policy::parse(text).map_err(|problems| problems.to_string())?;
    if let Some(queues) = queues {
        enough(&page, queues)?;
    }
    let classes = crate::render::count(page.document.classes.len(), "class");
    let mut said = format!("no errors, {classes}");
    if !page.doubts.is_empty() {
        said.push_str(&format!("\n{}", page.doubts));
    }
    Ok(said)
}

/// Whether so many queues are enough for what classes and applications have for themselves.
fn enough(page: &Page, queues: u32) -> Result<(), String> {
    let wanted = |q: &Queues| match q {
        Queues::Shared => 0,
        Queues::Exclusive(count) => u64::from(*count),
        Queues::Only(named) => named.len() as u64,
    };
    let document = &page.document;
    missing(page, queues)?;
    let exclusive: u64 = document.classes.iter().map(|c| wanted(&c.queues)).sum();
    let all = exclusive + document.dedicate.len() as u64;
    // One has to be left for what nobody registered.
    if all < u64::from(queues) {
        return Ok(());
    }
    let names: Vec<String> = document
        .classes
        .iter()
        .filter(|c| wanted(&c.queues) > 0)
        .map(|c| format!("class `{}` {}", c.name, wanted(&c.queues)))
        .chain(
            document
                .dedicate
                .iter()
                .map(|d| format!("application `{}` 1", page.apps[d.app as usize])),
        )
        .collect();
    Err(format!(
        "queues run out: {} are wanted exclusively ({}), and one has to be left for other traffic, \
         but there are {queues}",
        all,
        names.join(", ")
    ))
}

/// Queues that are named and that are not there.
fn missing(page: &Page, queues: u32) -> Result<(), String> {
    let said = |who: String, queue: u32| {
        Err(format!("{who} wants queue {queue}, but there are {queues} queues, numbered from 0"))
    };
    for class in &page.document.classes {
        if let Queues::Only(named) = &class.queues
            && let Some(queue) = named.iter().find(|queue| **queue >= queues)
        {
            return said(format!("class `{}`", class.name), *queue);
        }
    }
    match page.document.dedicate.iter().find(|d| d.queue >= queues) {
        Some(d) => said(format!("application `{}`", page.apps[d.app as usize]), d.queue),
        None => Ok(()),
    }
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
        assert!(check("[[class]]\n", None).unwrap_err().contains("missing field"));
    }
}
