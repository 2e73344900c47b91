//! Loads of links as a picture: a bar for each direction of a link, the fullest first. Knows no call.

use std::fmt::Write;

use weft_proto::v1::LinkLoad;

use super::simulation::percent;

/// The picture, SVG 1.1. What does not fit is counted at its end.
pub(super) fn draw(loads: &[LinkLoad]) -> String {
    let shown = &loads[..loads.len().min(BARS_MAX)];
    let fullest = shown.iter().map(|load| load.share).fold(1.0, f64::max);
    // A share that is no number has no bar.
    let width = |share: f64| (share / fullest * BAR_WIDTH).clamp(0.0, BAR_WIDTH);
    let height = (shown.len() + 3) * ROW;
    let mut svg = String::new();
    let mut put = |line: String| {
        svg.push_str(&line);
        svg.push('\n');
    };
    put(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">"
    ));
    put(format!(
        "<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>"
    ));
    put(text(8.0, ROW, "Load of links, of their capacity"));
    for (at, load) in shown.iter().enumerate() {
        let below = (at + 2) * ROW;
        let name = format!(
            "{} to {}, {}",
            load.source_switch_name, load.destination_switch_name, load.link_name
        );
        let colour = if load.share > FULL { OVER } else { WITHIN };
        put(text(8.0, below, &name));
        put(format!(
            "<rect x=\"{LEFT}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\"/>",
            below - ROW * 2 / 3,
            width(load.share),
            ROW * 2 / 3
        ));
        put(text(LEFT + BAR_WIDTH + 8.0, below, &percent(load.share)));
    }
    let full = LEFT + width(1.0);
    put(format!(
        "<line x1=\"{full:.1}\" y1=\"{}\" x2=\"{full:.1}\" y2=\"{}\" stroke=\"black\"/>",
        ROW * 5 / 4,
        (shown.len() + 1) * ROW + ROW / 4
    ));
    if loads.len() > shown.len() {
        let more = format!("and {} more", loads.len() - shown.len());
        put(text(8.0, (shown.len() + 2) * ROW, &more));
    }
    put("</svg>".to_owned());
    svg
}

fn text(x: f64, y: usize, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y}\">{}</text>", escaped(words))
}

/// As text of XML 1.0: markup and what XML has no character for stand for themselves no more.
fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                // A string takes everything.
                let _ = write!(text, "\\u{{{:x}}}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text
}

/// Pixels.
const ROW: usize = 20;
const WIDTH: usize = 960;
const LEFT: f64 = 480.0;
const BAR_WIDTH: f64 = 400.0;
/// More than anybody looks at; a browser draws them in no time.
const BARS_MAX: usize = 1_000;
const FULL: f64 = 1.000_001;
const WITHIN: &str = "steelblue";
const OVER: &str = "firebrick";

#[cfg(test)]
mod tests {
    use super::*;

    fn load(link: &str, share: f64) -> LinkLoad {
        LinkLoad {
            link_name: link.to_owned(),
            source_switch_name: "leaf1".to_owned(),
            destination_switch_name: "spine1".to_owned(),
            load_bps: 0,
            share,
        }
    }

    #[test]
    fn each_direction_has_a_bar_and_what_is_over_is_marked() {
        let svg = draw(&[load("a", 2.0), load("b", 1.0), load("c", f64::NAN)]);
        assert_eq!(svg.matches(WITHIN).count(), 2);
        assert_eq!(svg.matches(OVER).count(), 1);
        // The line of a full link is in the middle of the bar that is twice as long.
        assert!(svg.contains("width=\"400.0\""), "{svg}");
        assert!(svg.contains("<line x1=\"680.0\""), "{svg}");
        assert!(svg.contains(">200.0%</text>"), "{svg}");
    }

    #[test]
    fn a_name_is_no_markup() {
        let svg = draw(&[load("<script>&\"'\u{1}", 0.5)]);
        let expected = "leaf1 to spine1, &lt;script&gt;&amp;&quot;&#39;\\u{1}</text>";
        assert!(svg.contains(expected), "{svg}");
        assert!(!svg.contains("<script"));
    }

    #[test]
    fn what_is_not_drawn_is_counted() {
        let loads = vec![load("a", 0.5); BARS_MAX + 7];
        let svg = draw(&loads);
        assert_eq!(svg.matches(WITHIN).count(), BARS_MAX);
        assert!(svg.contains("and 7 more"), "the rest is not counted");
        assert!(draw(&[]).ends_with("</svg>\n"));
    }
}
