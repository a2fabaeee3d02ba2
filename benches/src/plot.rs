//! The ratios as bars, in a self-contained SVG.

use std::fmt::Write;

use crate::part::{Bar, Panel};
use crate::table::number;

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
/// The bars are between these; the names are left of them, the figures right.
const LEFT: f64 = 380.0;
const RIGHT: f64 = 760.0;
const HEADER: f64 = 78.0;
const TITLE: f64 = 34.0;
const LINE: f64 = 24.0;
const BAR: f64 = 14.0;
const GAP: f64 = 20.0;

const OURS: &str = "#1a7f64";
const THEIRS: &str = "#9aa4b2";
const INK: &str = "#1f2430";

const HEADING: &str = r#"font-size="18" font-weight="bold""#;
const BOLD: &str = r#"font-weight="bold""#;
const NOTE: &str = r##"font-size="12" fill="#5b6472""##;
const RANGE: &str = r##"font-size="11" fill="#5b6472""##;

/// All panels, one below the other.
pub(crate) fn plot(panels: &[Panel], subtitle: &str) -> String {
    let heights = panels.iter().map(height);
    let height = HEADER + heights.sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" fill=\"{INK}\" \
         font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let title = "What each way of locking costs, side by side";
    let note = format!(
        "{subtitle}. Dashed: 1. Thin line: minimum and maximum of the rounds, or for contests the quartiles."
    );
    text(&mut svg, MARGIN, 32.0, HEADING, title);
    text(&mut svg, MARGIN, 56.0, NOTE, &note);
    let mut top = HEADER;
    for panel in panels {
        draw(&mut svg, panel, top);
        top += self::height(panel);
    }
    svg.push_str("</svg>\n");
    svg
}

fn height(panel: &Panel) -> f64 {
    TITLE + LINE * panel.bars.len() as f64 + GAP
}

fn draw(svg: &mut String, panel: &Panel, top: f64) {
    text(svg, MARGIN, top + 18.0, BOLD, &panel.title);
    let medians = panel.bars.iter().map(|bar| bar.ratio.median);
    // The scale ends a little above the largest median; a larger maximum is cut off.
    let full = 1.15 * medians.fold(1.0, f64::max);
    let position = |ratio: f64| LEFT + (RIGHT - LEFT) * (ratio / full).min(1.0);
    for (number, bar) in panel.bars.iter().enumerate() {
        row(svg, bar, top + TITLE + LINE * number as f64, &position);
    }
    let (one, top, bottom) = (position(1.0), top + TITLE - 6.0, top + height(panel) - GAP);
    line(svg, [one, one], [top, bottom], "stroke-dasharray=\"3 3\"");
}

fn row(svg: &mut String, bar: &Bar, top: f64, position: &impl Fn(f64) -> f64) {
    let (colour, weight) = if bar.ours { (OURS, BOLD) } else { (THEIRS, "") };
    let base = top + BAR - 3.0;
    let right = format!("text-anchor=\"end\" {weight}");
    text(svg, LEFT - 10.0, base, &right, &bar.name);
    let width = position(bar.ratio.median) - LEFT;
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>",
    );
    let middle = top + BAR / 2.0;
    let ends = [bar.ratio.low, bar.ratio.high].map(position);
    line(svg, ends, [middle, middle], "");
    let figure = format!("{} ×", number(bar.ratio.median));
    text(svg, RIGHT + 12.0, base, weight, &figure);
    if bar.ratio.low < bar.ratio.high {
        let range = format!("{}..{}", number(bar.ratio.low), number(bar.ratio.high));
        text(svg, RIGHT + 82.0, base, RANGE, &range);
    }
}

fn line(svg: &mut String, [x1, x2]: [f64; 2], [y1, y2]: [f64; 2], style: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{INK}\" {style}/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, style: &str, words: &str) {
    let words = words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{words}</text>"
    );
}
