//! Box plots as SVG: panels beside each other, in each a box for every set of values.

use std::fmt::Write;

use crate::plot::{Axis, Scale, rule, text, upright};
use crate::samples::quantile;

const PANEL: f64 = 420.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// Part of a set's width that its box takes.
const BOX: f64 = 0.5;

/// One plot: its sets of values share an axis that begins at zero.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) sets: Vec<Set>,
}

/// Values under a name. The box reaches from the first to the third quartile, the line in it is the median,
/// and the whiskers reach to the smallest and the largest value.
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) colour: &'static str,
    pub(crate) values: Vec<f64>,
}

/// The panels from left to right.
pub(crate) fn to_svg(panels: &[Panel]) -> String {
    let mut svg = String::new();
    draw(panels, &mut svg).expect("writing to a string does not fail");
    svg
}

fn draw(panels: &[Panel], svg: &mut String) -> std::fmt::Result {
    let width = PANEL * panels.len() as f64;
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">"
    )?;
    writeln!(svg, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>")?;
    for (number, panel) in panels.iter().enumerate() {
        writeln!(svg, "<g transform=\"translate({} 0)\">", PANEL * number as f64)?;
        panel.draw(svg)?;
        writeln!(svg, "</g>")?;
    }
    writeln!(svg, "</svg>")
}

impl Panel {
    fn draw(&self, svg: &mut String) -> std::fmt::Result {
        let (bottom, right) = (HEIGHT - BOTTOM, PANEL - 20.0);
        let values = self.sets.iter().flat_map(|set| set.values.iter().copied());
        let axis = Axis::over(Scale::Linear, values, bottom, TOP);
        text(svg, LEFT, TOP - 20.0, "start", &self.title)?;
        upright(svg, 14.0, (TOP + bottom) / 2.0, self.unit)?;
        for (mark, at) in axis.marks() {
            rule(svg, (LEFT, at), (right, at))?;
            text(svg, LEFT - 8.0, at + 4.0, "end", &mark)?;
        }
        let width = (right - LEFT) / self.sets.len().max(1) as f64;
        for (number, set) in self.sets.iter().enumerate() {
            let middle = LEFT + width * (number as f64 + 0.5);
            set.draw(svg, &axis, middle, width * BOX)?;
            text(svg, middle, bottom + 20.0, "middle", &set.name)?;
        }
        Ok(())
    }
}

impl Set {
    fn draw(&self, svg: &mut String, axis: &Axis, middle: f64, width: f64) -> std::fmt::Result {
        let Some(first) = quantile(&self.values, 0.0) else { return Ok(()) };
        let at = |share| axis.at(quantile(&self.values, share).unwrap_or(first));
        let (left, colour) = (middle - width / 2.0, self.colour);
        for (from, to) in [(0.0, 0.25), (0.75, 1.0)] {
            line(svg, (middle, at(from)), (middle, at(to)), colour)?;
        }
        let (top, height) = (at(0.75), at(0.25) - at(0.75));
        writeln!(
            svg,
            "<rect class=\"box\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\" fill=\"white\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        )?;
        for end in [0.0, 1.0] {
            let (half, y) = (width / 4.0, at(end));
            line(svg, (middle - half, y), (middle + half, y), colour)?;
        }
        line(svg, (left, at(0.5)), (left + width, at(0.5)), colour)
    }
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) -> std::fmt::Result {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
         stroke-width=\"2\"/>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_lies_between_the_quartiles() {
        let set = |values: &[f64]| Set { name: "s".into(), colour: "red", values: values.to_vec() };
        let sets = vec![set(&[0.0, 25.0, 50.0, 75.0, 100.0]), set(&[])];
        let svg = to_svg(&[Panel { title: "t".into(), unit: "µs", sets }]);
        // Of nothing there is no box.
        assert_eq!(svg.matches("class=\"box\"").count(), 1);
        let range = HEIGHT - BOTTOM - TOP;
        let (top, height) = (TOP + range * 0.25, range * 0.5);
        let expected = format!("y=\"{top:.1}\" width=\"82.5\" height=\"{height:.1}\"");
        assert!(svg.contains(&expected), "{expected} in {svg}");
    }
}
