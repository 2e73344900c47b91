//! The files of the page, as the build took them from `controller/web`: from memory, packed for clients that unpack. Knows no
//! call.

use std::hash::Hasher;
use std::io::Write;
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::preference::Weight;

/// A file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    octets: &'static [u8],
    packed: Bytes,
    /// Other content has another one.
    etag: HeaderValue,
}

macro_rules! files {
    ($($path:literal $name:literal $kind:expr;)*) => {
        [$(($path, $kind, include_bytes!(concat!("../../../web/", $name)).as_slice())),*]
    };
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const IMAGE: &str = "image/svg+xml";

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let files = files! {
        "/" "index.html" HTML;
        "/style.css" "style.css" STYLE;
        "/icon.svg" "icon.svg" IMAGE;
        "/api.js" "api.js" SCRIPT;
        "/app.js" "app.js" SCRIPT;
        "/glass.js" "glass.js" SCRIPT;
        "/jobs.js" "jobs.js" SCRIPT;
        "/lit-html.js" "lit-html.js" SCRIPT;
        "/map.js" "map.js" SCRIPT;
        "/model.js" "model.js" SCRIPT;
        "/parts.js" "parts.js" SCRIPT;
        "/peers.js" "peers.js" SCRIPT;
        "/plan.js" "plan.js" SCRIPT;
        "/status.js" "status.js" SCRIPT;
        "/vnis.js" "vnis.js" SCRIPT;
    };
    let file = |(path, kind, octets)| File {
        path,
        kind,
        octets,
        packed: packed(octets),
        etag: etag(octets),
    };
    files.into_iter().map(file).collect()
});

/// The file at a path, if there is one.
pub(super) fn file(path: &str, asked: &HeaderMap) -> Option<Response<Body>> {
    let file = FILES.iter().find(|file| file.path == path)?;
    let known = is_known(&file.etag, asked);
    let unpacks = Weight::of("gzip", asked, &header::ACCEPT_ENCODING).is_taken();
    let body = match (known, unpacks) {
        (true, _) => Body::empty(),
        (false, true) => Body::from(file.packed.clone()),
        (false, false) => Body::from(file.octets),
    };
    let mut answer = Response::new(body);
    if known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = answer.headers_mut();
    if unpacks && !known {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(header::ETAG, file.etag.clone());
    for (name, value) in [
        (header::CONTENT_TYPE, file.kind),
        (header::VARY, "accept-encoding"),
        (header::CACHE_CONTROL, "no-cache"),
        // Nothing of the page comes from elsewhere, and nothing that a peer says runs.
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Some(answer)
}

/// Returns true if the client has the content with this tag. The weak comparison holds, for a proxy that packs a file may have
/// made its tag a weak one (RFC 9110 §13.1.2).
fn is_known(etag: &HeaderValue, asked: &HeaderMap) -> bool {
    let lines = asked.get_all(header::IF_NONE_MATCH).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',').map(str::trim));
    tags.any(|tag| tag == "*" || tag.trim_start_matches("W/") == etag)
}

fn packed(octets: &[u8]) -> Bytes {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let written = packer.write_all(octets).and_then(|()| packer.finish());
    written.map(Bytes::from).unwrap_or_default()
}

fn etag(octets: &[u8]) -> HeaderValue {
    let mut hash = fnv::FnvHasher::default();
    hash.write(octets);
    let text = format!("\"{:016x}\"", hash.finish());
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

/// What the page takes over the wire at most.
#[cfg(test)]
const OCTETS_MAX: usize = 60_000;
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served_and_they_are_small() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let files = std::fs::read_dir(directory).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let names = names.filter(|it| it.ends_with(".js") || it.ends_with(".css"));
        let names: BTreeSet<_> = names
            .filter(|it| !it.ends_with(".test.js"))
            .map(|it| format!("/{it}"))
            .collect();
        let served = FILES
            .iter()
            .filter(|it| it.kind != HTML && it.kind != IMAGE);
        let served: BTreeSet<_> = served.map(|it| it.path.to_owned()).collect();
        assert_eq!(served, names);
        let octets: usize = FILES.iter().map(|it| it.packed.len()).sum();
        assert!((1..=OCTETS_MAX).contains(&octets), "{octets}");
    }

    #[test]
    fn nothing_of_the_page_stands_in_its_markup_or_comes_from_elsewhere() {
        for file in FILES.iter() {
            let text = std::str::from_utf8(file.octets).unwrap();
            let ours = file.path != "/lit-html.js" && file.path != "/icon.svg";
            if ours {
                assert!(!text.contains("://"), "{}", file.path);
                assert!(!text.contains("style=\""), "{}", file.path);
                assert!(!text.contains("unsafeHTML"), "{}", file.path);
            }
        }
    }

    #[test]
    fn what_a_client_has_is_not_sent_again() {
        let mut asked = HeaderMap::new();
        asked.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("br, gzip;q=1"),
        );
        let first = file("/", &asked).unwrap();
        assert_eq!(first.headers()[header::CONTENT_ENCODING], "gzip");
        assert_eq!(first.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
        asked.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        let again = file("/", &asked).unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        let weak = format!(
            "\"0\", W/{}",
            first.headers()[header::ETAG].to_str().unwrap()
        );
        asked.insert(header::IF_NONE_MATCH, weak.parse().unwrap());
        let again = file("/", &asked).unwrap();
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert!(file("/../Cargo.toml", &asked).is_none());
    }

    #[test]
    fn a_client_that_refuses_gzip_gets_octets() {
        for (asked, packed) in [
            ("gzip;q=0", false),
            ("*;q=0.5, gzip;q=0", false),
            ("GZIP", true),
            ("*", true),
        ] {
            let asked = HeaderMap::from_iter([(header::ACCEPT_ENCODING, asked.parse().unwrap())]);
            let file = file("/", &asked).unwrap();
            let is_packed = file.headers().contains_key(header::CONTENT_ENCODING);
            assert_eq!(is_packed, packed, "{asked:?}");
        }
    }
}
