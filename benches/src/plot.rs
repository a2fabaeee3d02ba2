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
const PALE: &str = "#5b6472";

/// All panels, one below the other.
pub(crate) fn plot(panels: &[Panel], subtitle: &str) -> String {
    let height = HEADER
        + panels
            .iter()
            .map(|panel| TITLE + LINE * panel.bars.len() as f64 + GAP)
            .sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    text(
        &mut svg,
        MARGIN,
        32.0,
        "font-size=\"18\" font-weight=\"bold\"",
        INK,
        "What each way of locking costs, side by side",
    );
    let note = format!(
        "{subtitle}. Dashed: 1. Thin line: minimum and maximum of the rounds, of contests the quartiles."
    );
    text(&mut svg, MARGIN, 56.0, "font-size=\"12\"", PALE, &note);
    let mut top = HEADER;
    for panel in panels {
        top = draw(&mut svg, panel, top);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Draws a panel; returns where the next one begins.
fn draw(svg: &mut String, panel: &Panel, top: f64) -> f64 {
    text(
        svg,
        MARGIN,
        top + 18.0,
        "font-weight=\"bold\"",
        INK,
        &panel.title,
    );
    let medians = panel.bars.iter().map(|bar| bar.ratio.median);
    // The scale ends a little above the largest median; a larger maximum is cut off.
    let full = 1.15 * medians.fold(1.0, f64::max);
    let position = |ratio: f64| LEFT + (RIGHT - LEFT) * (ratio / full).min(1.0);
    let bottom = top + TITLE + LINE * panel.bars.len() as f64;
    let one = position(1.0);
    for (number, bar) in panel.bars.iter().enumerate() {
        row(svg, bar, top + TITLE + LINE * number as f64, &position);
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{one:.1}\" y1=\"{:.1}\" x2=\"{one:.1}\" y2=\"{bottom:.1}\" stroke=\"{INK}\" \
         stroke-dasharray=\"3 3\"/>",
        top + TITLE - 6.0
    );
    bottom + GAP
}

fn row(svg: &mut String, bar: &Bar, top: f64, position: &impl Fn(f64) -> f64) {
    let colour = if bar.ours { OURS } else { THEIRS };
    let base = top + BAR - 3.0;
    let right = format!("text-anchor=\"end\" {}", weight(bar));
    text(svg, LEFT - 10.0, base, &right, INK, &bar.name);
    let end = position(bar.ratio.median);
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>",
        end - LEFT
    );
    let middle = top + BAR / 2.0;
    let (low, high) = (position(bar.ratio.low), position(bar.ratio.high));
    let _ = writeln!(
        svg,
        "<line x1=\"{low:.1}\" y1=\"{middle:.1}\" x2=\"{high:.1}\" y2=\"{middle:.1}\" \
         stroke=\"{INK}\"/>"
    );
    let figure = format!("{} ×", number(bar.ratio.median));
    text(svg, RIGHT + 12.0, base, weight(bar), INK, &figure);
    if bar.ratio.low < bar.ratio.high {
        let range = format!("{}..{}", number(bar.ratio.low), number(bar.ratio.high));
        text(svg, RIGHT + 82.0, base, "font-size=\"11\"", PALE, &range);
    }
}

fn weight(bar: &Bar) -> &'static str {
    if bar.ours { "font-weight=\"bold\"" } else { "" }
}

fn text(svg: &mut String, x: f64, y: f64, style: &str, colour: &str, words: &str) {
    let words = words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{colour}\" {style}>{words}</text>"
    );
}
