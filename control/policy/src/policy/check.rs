//! What is wrong with a policy, all of it at once.

use weever_plan::flow::{Conj, Flow, MAX_PARTS};
use weever_plan::policy::{Class, Document, DocumentError, Queues, can_be_kept};

use crate::filter;
use crate::{Place, Problem, Problems};

/// More classes than this are no policy that anyone has written.
const MAX_CLASSES: usize = 1024;
/// No NIC has so many queues.
const MAX_QUEUES: u32 = 65_536;

/// Where each part of a document stands.
pub(super) struct Places {
    pub(super) classes: Vec<Place>,
    pub(super) dedications: Vec<Place>,
}

/// Errors, and doubts.
pub(super) fn check(document: &Document, apps: &[String], places: &Places) -> (Problems, Problems) {
    let (mut errors, mut doubts) = (Problems::default(), Problems::default());
    let mut matched: Vec<Option<Vec<Conj>>> = Vec::new();
    if document.classes.len() > MAX_CLASSES || document.dedicate.len() > MAX_CLASSES {
        let message = format!("there are more than {MAX_CLASSES} classes or dedications");
        errors.add(Problem::new(Place::File, message));
        return (errors, doubts);
    }
    for (class, place) in document.classes.iter().zip(&places.classes) {
        check_class(class, *place, &mut errors);
        let packets = packets(class, *place).map_err(|problem| errors.add(problem));
        matched.push(packets.ok());
    }
    check_names(document, places, &mut errors);
    check_queues(document, apps, places, &mut errors);
    check_overlaps(document, &matched, places, &mut errors, &mut doubts);
    (errors, doubts)
}

fn check_class(class: &Class, place: Place, errors: &mut Problems) {
    let name = &class.name;
    if class.weight == 0 || class.weight > Flow::MAX_WEIGHT {
        let most = Flow::MAX_WEIGHT;
        let message = format!("the weight of class `{name}` is not between 1 and {most}");
        errors.add(Problem::new(place, message));
    }
    if class.drop && class.wants_queues() {
        let help = "take out `drop`, or what it says of queues, `objective` and `mode`".to_string();
        let message = format!("class `{name}` is to be dropped, so it has no queues");
        errors.add(Problem::new(place, message).help(help));
    }
    let none = match &class.queues {
        Queues::Exclusive(0) => true,
        Queues::Only(queues) => queues.is_empty(),
        _ => false,
    };
    if let Queues::Exclusive(count @ MAX_QUEUES..) = &class.queues {
        let message = format!("class `{name}` wants {count} queues, which no NIC has");
        errors.add(Problem::new(place, message));
    }
    if none {
        let help = "give it one, or write `queues = \"shared\"`".to_string();
        let message = format!("class `{name}` is to have no queue at all");
        errors.add(Problem::new(place, message).help(help));
    }
}

/// The packets of a class.
fn packets(class: &Class, place: Place) -> Result<Vec<Conj>, Problem> {
    let found = filter::parse(&class.matches).and_then(|p| filter::packets(&p));
    found.map_err(|e| {
        let message = format!("the filter of class `{}`: {}", class.name, e.message);
        Problem::new(place, message).help(e.help)
    })
}

fn check_names(document: &Document, places: &Places, errors: &mut Problems) {
    for (i, class) in document.classes.iter().enumerate() {
        let name = &class.name;
        if let Some(first) = document.classes[..i].iter().position(|c| c.name == *name) {
            let message =
                format!("two classes are called `{name}`, the first in {}", places.classes[first]);
            errors.add(Problem::new(places.classes[i], message).help("rename one".to_string()));
        }
        if name.is_empty() || name == "default" {
            let help = "it is what flows of no class belong to".to_string();
            let message = format!("no class can be called `{name}`");
            errors.add(Problem::new(places.classes[i], message).help(help));
        }
    }
}

/// A queue has one owner.
fn check_queues(document: &Document, apps: &[String], places: &Places, errors: &mut Problems) {
    let mut owners: Vec<(u32, String)> = Vec::new();
    let mut own = |queue: u32, owner: String, place: Place| {
        if let Some((_, first)) = owners.iter().find(|(q, _)| *q == queue) {
            let message = format!("queue {queue} is promised to {first} and to {owner}");
            errors.add(Problem::new(place, message).help("give it to one of them".to_string()));
        }
        if queue >= MAX_QUEUES {
            let message = format!("{owner} wants queue {queue}, which no NIC has");
            errors.add(Problem::new(place, message));
        }
        owners.push((queue, owner));
    };
    for (class, place) in document.classes.iter().zip(&places.classes) {
        if let Queues::Only(queues) = &class.queues {
            queues.iter().for_each(|q| own(*q, format!("class `{}`", class.name), *place));
        }
    }
    for (dedication, place) in document.dedicate.iter().zip(&places.dedications) {
        let app = apps.get(dedication.app as usize).map_or("?", |a| a.as_str());
        own(dedication.queue, format!("application `{app}`"), *place);
    }
}

/// Classes that take each other's packets.
fn check_overlaps(
    document: &Document,
    matched: &[Option<Vec<Conj>>],
    places: &Places,
    errors: &mut Problems,
    doubts: &mut Problems,
) {
    let mut order: Vec<usize> = (0..document.classes.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(document.classes[*i].priority));
    for (at, later) in order.iter().enumerate() {
        let Some(packets) = &matched[*later] else { continue };
        for earlier in &order[..at] {
            let Some(before) = &matched[*earlier] else { continue };
            let (first, second) = (&document.classes[*earlier], &document.classes[*later]);
            let place = places.classes[*later];
            if packets.iter().all(|p| before.iter().any(|b| p.implies(b))) {
                let message = format!(
                    "class `{}` never gets a flow: `{}` comes before it and matches all of its packets",
                    second.name, first.name
                );
                let help =
                    format!("give `{}` a higher priority, or narrow `{}`", second.name, first.name);
                errors.add(Problem::new(place, message).help(help));
            } else if second.drop && !first.drop && !can_be_kept(before, packets) {
                let (class, by, most) = (second.name.clone(), first.name.clone(), MAX_PARTS);
                let error = DocumentError::Kept { class, by, most };
                let help = format!("give `{}` a higher priority, or simplify one", second.name);
                errors.add(Problem::new(place, error.to_string()).help(help));
            } else if overlap(packets, before) && !packets_within(before, packets) {
                overlapping(first, second, place, errors, doubts);
            }
        }
    }
}

/// Two classes that both want queues for themselves, and neither comes first.
fn overlapping(
    first: &Class,
    second: &Class,
    place: Place,
    errors: &mut Problems,
    doubts: &mut Problems,
) {
    let exclusive = |c: &Class| c.queues != Queues::Shared || c.drop;
    let (a, b) = (&first.name, &second.name);
    if exclusive(first) && exclusive(second) && first.priority == second.priority {
        let wants = match first.drop || second.drop {
            true => "one of them is to be dropped",
            false => "both want queues for themselves",
        };
        let message = format!("some packets belong to class `{a}` and to class `{b}`, and {wants}");
        let help = "give one a higher `priority`, or make their filters disjoint".to_string();
        errors.add(Problem::new(place, message).help(help));
    } else {
        let message = format!("some packets belong to class `{a}` and to class `{b}`");
        let help = format!("flows that lie in both are of class `{a}`");
        doubts.add(Problem::new(place, message).help(help));
    }
}

fn overlap(a: &[Conj], b: &[Conj]) -> bool {
    a.iter().any(|x| b.iter().any(|y| !x.disjoint(y)))
}

/// An exception inside a wider class is how people write rules: no doubt about it.
fn packets_within(inner: &[Conj], outer: &[Conj]) -> bool {
    inner.iter().all(|i| outer.iter().any(|o| i.implies(o)))
}
