//! Flows meet a policy.

use weever_plan::embed::Host;
use weever_plan::flow::{AppId, ClassId, Flow};
use weever_plan::policy::{Classifier, Document, DocumentError, Policy};

use crate::filter;
use crate::flows::FlowSpec;
use crate::policy::{Page, app_number};
use crate::{Problem, Problems, suggest};

/// Flows with their classes, and the policy for them.
pub struct Assigned {
    /// The flows, in the order of the file.
    pub flows: Vec<Flow>,
    /// Flows that the policy asks for beside those: what it wants dropped.
    pub standing: Vec<Flow>,
    /// What the planner asks.
    pub policy: Box<dyn Policy>,
    /// What gives flows that come later their classes.
    pub classifier: Classifier,
    /// The names of applications, by number.
    pub apps: Vec<String>,
    /// Flows that name a class which is not there; they were given the class of their packets.
    pub problems: Problems,
}

/// Gives every flow its class, weight and application. A flow that names its class is of that one;
/// the others are of the first class that has all of their packets.
///
/// # Errors
/// [`DocumentError`] if the document is not one that [`crate::policy::parse`] returned.
pub fn assign(flows: Vec<FlowSpec>, page: &Page) -> Result<Assigned, DocumentError> {
    assign_on(flows, page, None)
}

/// The same for a host, whose graph counts if the page says so (`[paths]`).
///
/// # Errors
/// As [`assign`].
pub fn assign_on(
    flows: Vec<FlowSpec>,
    page: &Page,
    host: Option<&Host<'_>>,
) -> Result<Assigned, DocumentError> {
    let (policy, classifier) = page.document.build(filter::parse, host)?;
    let mut out = Assigned {
        flows: Vec::new(),
        standing: page.document.standing_flows(&classifier),
        policy,
        classifier,
        apps: page.apps.clone(),
        problems: Problems::default(),
    };
    for spec in flows {
        let mut flow = Flow::of(spec.name, spec.parts);
        out.classifier.classify(&mut flow);
        if let Some(name) = &spec.class {
            match class_of(&page.document, name) {
                Some((class, weight)) => {
                    (flow.class, flow.weight) = (class, weight);
                    flow.yields = out.classifier.yields(&flow);
                }
                None => {
                    let problem = Problem::new(spec.place, format!("there is no class `{name}`"));
                    let names = page.document.classes.iter().map(|c| c.name.as_str());
                    out.problems.add(problem.help(suggest::did_you_mean(name, names)));
                }
            }
        }
        flow.weight = flow.weight.saturating_mul(spec.weight).clamp(1, Flow::MAX_WEIGHT);
        flow.rate = spec.rate;
        flow.core = spec.core;
        flow.app = spec.app.map(|app| AppId(app_number(&mut out.apps, &app)));
        out.flows.push(flow);
    }
    Ok(out)
}

fn class_of(document: &Document, name: &str) -> Option<(ClassId, u32)> {
    let number = |i: usize| ClassId(u16::try_from(i).unwrap_or(u16::MAX));
    if name == "default" {
        return Some((number(document.classes.len()), 1));
    }
    let at = document.classes.iter().position(|c| c.name == name)?;
    Some((number(at), document.classes[at].weight))
}
