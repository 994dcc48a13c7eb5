//! Mistakes that show only when the parts of a policy are compared with each other.

use weever_plan::flow::{Conj, MAX_PARTS};
use weever_plan::policy::{Class, Queues, SharingMode, can_be_kept};

use super::decode::{Decoded, problem};
use crate::{Position, Problems};

/// All errors and warnings.
pub(super) fn check(decoded: &Decoded) -> (Problems, Problems) {
    let (mut errors, mut warnings) = (Problems::default(), Problems::default());
    check_names(decoded, &mut errors);
    check_drops(decoded, &mut errors);
    check_order(decoded, &mut warnings);
    check_queues(decoded, &mut errors);
    check_overlaps(decoded, &mut errors, &mut warnings);
    (errors, warnings)
}

fn check_names(decoded: &Decoded, errors: &mut Problems) {
    let classes = &decoded.document.classes;
    for (at, class) in classes.iter().enumerate() {
        let (name, place) = (&class.name, decoded.classes[at].name);
        if let Some(first) = classes[..at].iter().position(|c| c.name == *name) {
            let first = decoded.classes[first].name;
            let message = format!("two classes are called `{name}`, the first in {first}");
            errors.add(problem(place, message, "rename one of them"));
        }
        if name.is_empty() || name == "default" {
            let message = format!("no class can be called `{name}`");
            let help = match name.is_empty() {
                true => "give it a name",
                false => "rename it: flows of no class belong to `default`",
            };
            errors.add(problem(place, message, help));
        }
    }
}

fn check_drops(decoded: &Decoded, errors: &mut Problems) {
    let classes = decoded.document.classes.iter().zip(&decoded.classes);
    for (class, places) in classes.filter(|(class, _)| class.drop && class.wants_queues()) {
        let message = format!("class `{}` is dropped, so it has no queues", class.name);
        let help = "remove `drop`, or its `queues`, `objective`, `mode` and `ordered`";
        errors.add(problem(places.drop, message, help));
    }
    let classes = decoded.document.classes.iter().zip(&decoded.classes);
    for (class, places) in classes.filter(|(class, _)| class.drop && class.app.is_some()) {
        let message = format!("class `{}` has `app` and `drop`", class.name);
        let help = "a device drops packets and knows no applications: write `match` alone";
        errors.add(problem(places.drop, message, help));
    }
}

/// Order is kept where queues are not shared.
fn check_order(decoded: &Decoded, warnings: &mut Problems) {
    let is_shared = decoded.document.sharing.is_some_and(|s| s.mode != SharingMode::ScaleOut);
    let classes = decoded.document.classes.iter().zip(&decoded.classes);
    for (class, places) in classes.filter(|(class, _)| class.ordered && !is_shared) {
        let message = format!("`ordered` has no effect on class `{}`", class.name);
        let help =
            "no queue is shared; say so by `[sharing]` with `mode = \"auto\"` or `\"shared\"`";
        warnings.add(problem(places.ordered, message, help));
    }
}

/// A queue has one owner.
fn check_queues(decoded: &Decoded, errors: &mut Problems) {
    let mut owners: Vec<(u32, String)> = Vec::new();
    let mut own = |queue: u32, owner: String, place: Position| {
        if let Some((_, first)) = owners.iter().find(|(q, _)| *q == queue) {
            let message = format!("queue {queue} is promised to {first} and to {owner}");
            errors.add(problem(place, message, "give it to one of them"));
        }
        owners.push((queue, owner));
    };
    for (class, places) in decoded.document.classes.iter().zip(&decoded.classes) {
        if let Queues::Only(queues) = &class.queues {
            queues.iter().for_each(|q| own(*q, format!("class `{}`", class.name), places.queues));
        }
    }
    for (dedication, place) in decoded.document.dedicate.iter().zip(&decoded.dedications) {
        let app = decoded.apps.get(dedication.app as usize).map_or("?", |app| app.as_str());
        own(dedication.queue, format!("application `{app}`"), *place);
    }
}

/// Classes that match the same packets. A class with a wrong filter has no packets and is skipped.
fn check_overlaps(decoded: &Decoded, errors: &mut Problems, warnings: &mut Problems) {
    let order = decoded.document.by_priority();
    for (at, later) in order.iter().enumerate() {
        for earlier in &order[..at] {
            let pair = [*earlier, *later].map(|number| &decoded.document.classes[number]);
            // Whether a packet belongs to an application is known only once the socket exists.
            let is_comparable = pair[0].app.is_none() || pair[0].app == pair[1].app;
            if is_comparable && pair.iter().all(|class| !class.packets.is_empty()) {
                check_pair(pair, decoded.classes[*later].matches, errors, warnings);
            }
        }
    }
}

/// Two classes, of which the first has precedence.
fn check_pair(
    [first, second]: [&Class; 2],
    place: Position,
    errors: &mut Problems,
    warnings: &mut Problems,
) {
    let (before, packets) = (&first.packets, &second.packets);
    let (a, b) = (&first.name, &second.name);
    if is_within(packets, before) {
        let message = format!(
            "class `{b}` never gets a flow: `{a}` comes before it and matches all of its packets"
        );
        let help = format!("give `{b}` a higher `priority`, or narrow `{a}`");
        errors.add(problem(place, message, help));
    } else if second.drop && !first.drop && !can_be_kept(before, packets) {
        let message = format!(
            "class `{b}` is dropped, but keeping those of its packets that belong to `{a}` takes more \
             than {MAX_PARTS} filters"
        );
        errors.add(problem(
            place,
            message,
            format!("give `{b}` a higher `priority`, or simplify one"),
        ));
    } else if first.app == second.app && overlap(packets, before) && !is_within(before, packets) {
        // An exception inside a wider class is how people write rules: no warning about it.
        check_overlap([first, second], place, errors, warnings);
    }
}

/// Two classes that share some packets: an error if both need them for themselves and neither is first.
fn check_overlap(
    [first, second]: [&Class; 2],
    place: Position,
    errors: &mut Problems,
    warnings: &mut Problems,
) {
    let is_exclusive = |class: &Class| class.queues != Queues::Shared || class.drop;
    let message =
        format!("some packets belong to class `{}` and to class `{}`", first.name, second.name);
    if is_exclusive(first) && is_exclusive(second) && first.priority == second.priority {
        let wants = match first.drop || second.drop {
            true => "one of them is dropped",
            false => "both want queues for themselves",
        };
        let help = "give one a higher `priority`, or make their filters disjoint";
        errors.add(problem(place, format!("{message}, and {wants}"), help));
    } else {
        let help = format!("flows that lie in both belong to class `{}`", first.name);
        warnings.add(problem(place, message, help));
    }
}

fn overlap(a: &[Conj], b: &[Conj]) -> bool {
    a.iter().any(|x| b.iter().any(|y| !x.disjoint(y)))
}

fn is_within(inner: &[Conj], outer: &[Conj]) -> bool {
    inner.iter().all(|i| outer.iter().any(|o| i.implies(o)))
}
