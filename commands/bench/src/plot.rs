//! A line plot as SVG.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// The height of a name.
const LABEL: f64 = 13.0;

/// A line; its coordinates are positive.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) colour: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot.
pub(crate) struct Plot {
    pub(crate) title: &'static str,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
    pub(crate) scales: (Scale, Scale),
    pub(crate) lines: Vec<Line>,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// By powers of ten.
    Log,
    /// Evenly, from zero.
    Linear,
}

/// A range of values, and where it is on the page.
pub(crate) struct Axis {
    scale: Scale,
    /// For [`Scale::Log`], exponents of ten.
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
}

impl Axis {
    pub(crate) fn over(
        scale: Scale,
        values: impl Iterator<Item = f64> + Clone,
        from: f64,
        to: f64,
    ) -> Axis {
        let positive = values.filter(|v| *v > 0.0);
        let least = positive.clone().fold(f64::INFINITY, f64::min);
        let most = positive.fold(0.0, f64::max);
        let (lo, hi) = match scale {
            _ if least > most => (0.0, 1.0),
            Scale::Linear => (0.0, most),
            Scale::Log => {
                let lo = least.log10().floor();
                (lo, most.log10().ceil().max(lo + 1.0))
            }
        };
        Axis { scale, lo, hi, from, to }
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        let value = if self.scale == Scale::Log { value.log10() } else { value };
        let share = (value - self.lo) / (self.hi - self.lo);
        self.from + share * (self.to - self.from)
    }

    /// The labels of the axis with their places: powers of ten, or round numbers.
    pub(crate) fn marks(&self) -> Vec<(String, f64)> {
        match self.scale {
            Scale::Log => {
                let decades = self.lo as i32..=self.hi as i32;
                decades.map(|d| (power(d), self.at(10f64.powi(d)))).collect()
            }
            Scale::Linear => {
                let step = round_step(self.hi / 5.0);
                let count = (self.hi / step) as usize;
                let values = (0..=count).map(|n| n as f64 * step);
                values.map(|v| (format!("{}", (v * 1e6).round() / 1e6), self.at(v))).collect()
            }
        }
    }
}

/// One, two or five times a power of ten, not less than `least`.
fn round_step(least: f64) -> f64 {
    let decade = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
    steps.into_iter().find(|step| *step >= least).unwrap_or(10.0 * decade)
}

impl Plot {
    pub(crate) fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|l| l.points.iter());
        let x = Axis::over(self.scales.0, points().map(|p| p.0), LEFT, WIDTH - RIGHT);
        let y = Axis::over(self.scales.1, points().map(|p| p.1), HEIGHT - BOTTOM, TOP);
        let mut svg = String::new();
        self.draw(&mut svg, &x, &y).expect("writing to a string does not fail");
        svg
    }

    fn draw(&self, svg: &mut String, x: &Axis, y: &Axis) -> std::fmt::Result {
        writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">"
        )?;
        writeln!(svg, "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>")?;
        text(svg, LEFT, TOP - 16.0, "start", self.title)?;
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (mark, at) in x.marks() {
            rule(svg, (at, TOP), (at, bottom))?;
            text(svg, at, bottom + 18.0, "middle", &mark)?;
        }
        for (mark, at) in y.marks() {
            rule(svg, (LEFT, at), (right, at))?;
            text(svg, LEFT - 8.0, at + 4.0, "end", &mark)?;
        }
        text(svg, (LEFT + right) / 2.0, HEIGHT - 12.0, "middle", self.x)?;
        upright(svg, 14.0, (TOP + bottom) / 2.0, self.y)?;
        let mut labels: Vec<f64> = Vec::new();
        for line in &self.lines {
            line.draw(svg, x, y)?;
            let Some(end) = line.shown().next_back() else { continue };
            let mut label = y.at(end.1) + 4.0;
            // Lines that end beside each other have their names below each other.
            while labels.iter().any(|other| (other - label).abs() < LABEL) {
                label += LABEL;
            }
            labels.push(label);
            text(svg, x.at(end.0) + 8.0, label, "start", line.name)?;
        }
        writeln!(svg, "</svg>")
    }
}

impl Line {
    fn draw(&self, svg: &mut String, x: &Axis, y: &Axis) -> std::fmt::Result {
        let places: Vec<String> =
            self.shown().map(|p| format!("{:.1},{:.1}", x.at(p.0), y.at(p.1))).collect();
        let (colour, places) = (self.colour, places.join(" "));
        writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{places}\"/>"
        )?;
        for p in self.shown() {
            let (cx, cy) = (x.at(p.0), y.at(p.1));
            writeln!(svg, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
        }
        Ok(())
    }

    /// The points that a logarithmic scale can show.
    fn shown(&self) -> impl DoubleEndedIterator<Item = &(f64, f64)> {
        self.points.iter().filter(|p| p.0 > 0.0 && p.1 > 0.0)
    }
}

pub(crate) fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) -> std::fmt::Result {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
    )
}

/// Read from below, beside numbers of any width.
pub(crate) fn upright(svg: &mut String, x: f64, y: f64, text: &str) -> std::fmt::Result {
    let turn = format!("translate({x:.1} {y:.1}) rotate(-90)");
    writeln!(svg, "<text transform=\"{turn}\" text-anchor=\"middle\">{text}</text>")
}

pub(crate) fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) -> std::fmt::Result {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>")
}

fn power(decade: i32) -> String {
    match decade {
        -3..=0 => format!("{:.*}", decade.unsigned_abs() as usize, 10f64.powi(decade)),
        1..=5 => format!("{}", 10u32.pow(decade.unsigned_abs())),
        _ => format!("1e{decade}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_within_the_axes() {
        let points = vec![(10.0, 0.02), (1000.0, 5.0), (100_000.0, 0.0)];
        let line = Line { name: "l", colour: "red", points };
        let svg = Plot {
            title: "t",
            x: "x",
            y: "y",
            scales: (Scale::Log, Scale::Log),
            lines: vec![line],
        };
        let svg = svg.to_svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
        // The point that a logarithm cannot show is left out.
        assert_eq!(svg.matches("<circle").count(), 2);
        let line = svg.lines().find(|l| l.contains("polyline")).unwrap();
        let numbers = line.split("points=\"").nth(1).unwrap().split(['"', ' ', ',']);
        let numbers: Vec<f64> = numbers.filter_map(|n| n.parse().ok()).collect();
        assert_eq!(numbers.len(), 4);
        assert!(numbers.iter().all(|n| (TOP..=WIDTH - RIGHT).contains(n)), "{numbers:?}");
    }

    #[test]
    fn lines_that_end_at_one_place_have_names_that_can_be_read() {
        let line = |name| Line { name, colour: "red", points: vec![(1.0, 1.0), (2.0, 3.0)] };
        let lines = ["first", "second", "third"].map(line).into();
        let scales = (Scale::Linear, Scale::Linear);
        let svg = Plot { title: "t", x: "x", y: "y", scales, lines }.to_svg();
        let height = |name: &str| -> f64 {
            let label = svg.lines().find(|line| line.contains(&format!(">{name}<"))).unwrap();
            label.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        assert!(height("second") >= height("first") + 12.0);
        assert!(height("third") >= height("second") + 12.0);
    }

    #[test]
    fn even_axes_begin_at_zero_and_have_round_marks() {
        let axis = Axis::over(Scale::Linear, [0.3, 4.2].into_iter(), 0.0, 420.0);
        let marks = axis.marks();
        assert_eq!(
            marks.iter().map(|(m, _)| m.as_str()).collect::<Vec<_>>(),
            ["0", "1", "2", "3", "4"]
        );
        assert_eq!((marks[0].1, marks[4].1.round()), (0.0, 400.0));
        let nothing = Axis::over(Scale::Linear, [].into_iter(), 0.0, 1.0);
        assert!(nothing.marks().len() > 1);
    }
}
