//! A line plot with logarithmic axes, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// A line; its coordinates are positive.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) colour: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// What is drawn.
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) lines: Vec<Line>,
}

/// Decades, and where they are on the page.
struct Axis {
    lo: i32,
    hi: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Axis {
        let positive = values.filter(|v| *v > 0.0);
        let lo = positive.clone().fold(f64::INFINITY, f64::min);
        let hi = positive.fold(0.0, f64::max);
        if lo > hi {
            return Axis { lo: 0, hi: 1, from, to };
        }
        let (lo, hi) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
        Axis { lo, hi: hi.max(lo + 1), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.lo)) / f64::from(self.hi - self.lo);
        self.from + share * (self.to - self.from)
    }

    /// The powers of ten, with their places.
    fn decades(&self) -> impl Iterator<Item = (i32, f64)> + '_ {
        (self.lo..=self.hi).map(|d| (d, self.at(10f64.powi(d))))
    }
}

impl Plot {
    pub(super) fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|l| l.points.iter());
        let x = Axis::over(points().map(|p| p.0), LEFT, WIDTH - RIGHT);
        let y = Axis::over(points().map(|p| p.1), HEIGHT - BOTTOM, TOP);
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
        for (decade, at) in x.decades() {
            rule(svg, (at, TOP), (at, bottom))?;
            text(svg, at, bottom + 18.0, "middle", &power(decade))?;
        }
        for (decade, at) in y.decades() {
            rule(svg, (LEFT, at), (right, at))?;
            text(svg, LEFT - 8.0, at + 4.0, "end", &power(decade))?;
        }
        text(svg, (LEFT + right) / 2.0, HEIGHT - 12.0, "middle", self.x)?;
        text(svg, 14.0, (TOP + bottom) / 2.0, "start", self.y)?;
        self.lines.iter().try_for_each(|line| line.draw(svg, x, y))?;
        writeln!(svg, "</svg>")
    }
}

impl Line {
    fn draw(&self, svg: &mut String, x: &Axis, y: &Axis) -> std::fmt::Result {
        let shown = || self.points.iter().filter(|p| p.0 > 0.0 && p.1 > 0.0);
        let places: Vec<String> =
            shown().map(|p| format!("{:.1},{:.1}", x.at(p.0), y.at(p.1))).collect();
        let (colour, places) = (self.colour, places.join(" "));
        writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{places}\"/>"
        )?;
        for p in shown() {
            let (cx, cy) = (x.at(p.0), y.at(p.1));
            writeln!(svg, "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\" fill=\"{colour}\"/>")?;
        }
        match shown().last() {
            Some(p) => text(svg, x.at(p.0) + 8.0, y.at(p.1) + 4.0, "start", self.name),
            None => Ok(()),
        }
    }
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) -> std::fmt::Result {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
    )
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) -> std::fmt::Result {
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
        let svg = Plot { title: "t", x: "x", y: "y", lines: vec![line] }.to_svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
        // The point that a logarithm cannot show is left out.
        assert_eq!(svg.matches("<circle").count(), 2);
        let line = svg.lines().find(|l| l.contains("polyline")).unwrap();
        let numbers = line.split("points=\"").nth(1).unwrap().split(['"', ' ', ',']);
        let numbers: Vec<f64> = numbers.filter_map(|n| n.parse().ok()).collect();
        assert_eq!(numbers.len(), 4);
        assert!(numbers.iter().all(|n| (TOP..=WIDTH - RIGHT).contains(n)), "{numbers:?}");
    }
}
