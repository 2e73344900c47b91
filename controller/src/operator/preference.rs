//! Weights that a client gives to kinds of an answer, in Accept and Accept-Encoding (RFC 9110 §12.4.2). Knows no kind.

use axum::http::{HeaderMap, HeaderName};

/// Weight of one kind, as a header gives it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    /// In thousandths; 0: the client does not take the kind.
    pub(super) thousandths: u16,
    /// True if the header names the kind itself, and no range that the kind is in.
    pub(super) named: bool,
}

impl Weight {
    /// Returns the weight of `kind`, such as "gzip" or "text/plain". The most specific range that the kind is in counts, and
    /// of several the one with the highest weight (RFC 9110 §12.5.1).
    pub(super) fn of(kind: &str, headers: &HeaderMap, header: &HeaderName) -> Self {
        let lines = headers.get_all(header).iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let ranges = lines.flat_map(|line| line.split(','));
        let ranges = ranges.filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let range = parts.next()?.to_ascii_lowercase();
            let specific = specificity(&range, kind)?;
            Some((specific, parts.find_map(quality).unwrap_or(1_000)))
        });
        let best = ranges.max();
        best.map_or_else(Self::default, |(specific, thousandths)| Self {
            thousandths,
            named: specific == NAMED,
        })
    }

    /// True if the client takes the kind.
    pub(super) fn is_taken(self) -> bool {
        self.thousandths > 0
    }
}

/// Returns how precisely a range describes a kind; None if the kind is not in it.
fn specificity(range: &str, kind: &str) -> Option<u8> {
    let of_type = range.strip_suffix("/*");
    match range {
        _ if range == kind => Some(NAMED),
        "*" | "*/*" => Some(0),
        _ if of_type.is_some() && of_type == kind.split_once('/').map(|it| it.0) => Some(1),
        _ => None,
    }
}

/// Reads `q=0.5` as thousandths; None if the parameter is another one. A weight that cannot be read refuses nothing.
fn quality(parameter: &str) -> Option<u16> {
    let (name, weight) = parameter.split_once('=')?;
    if !name.trim().eq_ignore_ascii_case("q") {
        return None;
    }
    let weight: f32 = weight.trim().parse().unwrap_or(1.0);
    // A cast of a float saturates, and makes 0 of NaN.
    Some((weight.clamp(0.0, 1.0) * 1_000.0).round() as u16)
}

/// Specificity of the kind itself.
const NAMED: u8 = 2;

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn the_most_specific_range_counts_and_a_weight_of_zero_refuses() {
        let gzip = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::ACCEPT_ENCODING, line.parse().unwrap());
            }
            let weight = Weight::of("gzip", &headers, &header::ACCEPT_ENCODING);
            (weight.thousandths, weight.named)
        };
        for (lines, expected) in [
            (&[][..], (0, false)),
            (&["br"], (0, false)),
            (&["br, gzip"], (1_000, true)),
            (&["br", "GZIP ; Q=0.5"], (500, true)),
            (&["gzip;q=0.001"], (1, true)),
            (&["gzip;q=0"], (0, true)),
            (&["*, gzip;q=0.000"], (0, true)),
            (&["gzip;q=0.2, gzip;level=9;q=0.3"], (300, true)),
            (&["br;q=1, *;q=0.1"], (100, false)),
            (&["gzip;q=x"], (1_000, true)),
            (&["xgzip, gzipx"], (0, false)),
        ] {
            assert_eq!(gzip(lines), expected, "{lines:?}");
        }
        let plain = |line: &str| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, line.parse().unwrap())]);
            Weight::of("text/plain", &headers, &header::ACCEPT).thousandths
        };
        assert_eq!(plain("*/*;q=0.1, text/*;q=0.2, text/plain;q=0.3"), 300);
        assert_eq!(plain("*/*, text/*;q=0.2, text/html"), 200);
        assert_eq!(plain("image/*, */*;q=0.1"), 100);
    }
}
