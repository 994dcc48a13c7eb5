//! How the times grow with the number of flows.

use super::rig::Times;
use crate::plot::{Line, Plot, Scale};
use crate::{Report, Samples};

/// Medians by number of flows, in milliseconds.
#[derive(Default)]
pub(super) struct Growth {
    points: Vec<(f64, f64, f64, f64)>,
}

impl Growth {
    pub(super) fn add(&mut self, flows: u32, times: &Times) {
        let median = |samples: &Samples| samples.summary().median;
        let (full, add, del) = (median(&times.full), median(&times.add1), median(&times.del1));
        self.points.push((f64::from(flows), full, add, del));
    }

    /// The exponents of growth over the larger half of the range: 1 is linear, 0 is flat.
    pub(super) fn report(&self, report: &mut Report) {
        let [.., from, _, to] = self.points[..] else { return };
        let exponent = |a: f64, b: f64| Samples(vec![(b / a).ln() / (to.0 / from.0).ln()]);
        let name = |what| format!("growth of {what} from {} to {} flows", from.0, to.0);
        report.row(&name("full"), "exponent", &exponent(from.1, to.1));
        report.row(&name("+1"), "exponent", &exponent(from.2, to.2));
        report.row(&name("-1"), "exponent", &exponent(from.3, to.3));
    }

    pub(super) fn to_svg(&self) -> String {
        let line = |name, colour, pick: fn(&(f64, f64, f64, f64)) -> f64| Line {
            name,
            colour,
            points: self.points.iter().map(|p| (p.0, pick(p))).collect(),
        };
        let lines = vec![
            line("all flows", "#1f6f8b", |p| p.1),
            line("one more", "#c1440e", |p| p.2),
            line("one fewer", "#5a7d2a", |p| p.3),
        ];
        Plot {
            title: "Search on the xdp model, 64 queues",
            x: "flows",
            y: "ms",
            scales: (Scale::Log, Scale::Log),
            lines,
        }
        .to_svg()
    }
}
