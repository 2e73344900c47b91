//! No arm that takes every other family or every other kind of fact: a new one must be decided everywhere (`house.md`, 2.7). Knows
//! matches and their patterns.

use syn::Pat;
use syn::visit::{self, Visit};

use crate::ratchet::{self, Found};
use crate::source::Source;
use crate::tree;

/// Types of which each value is decided by name.
const CLOSED: [&str; 2] = ["FactKey", "Family"];

/// A match over one of the types with an arm for all other values.
pub(crate) struct Blind {
    pub(crate) over: &'static str,
    pub(crate) at: usize,
}

#[test]
fn no_arm_takes_every_other_family_or_fact() {
    let rule =
        "no `_ =>` over `Family` or `FactKey`: name each value, so that a new one must be decided";
    ratchet::check("wildcards", rule, &found(tree::product()));
}

fn found<'a>(sources: impl Iterator<Item = &'a Source>) -> Found {
    let mut found = Found::default();
    for source in sources {
        for blind in &source.items.blind {
            let key = format!("{} {}", source.path, blind.over);
            found.add(&key, source.place(blind.at));
        }
    }
    found
}

/// Returns the type that the arms name values of, if another arm takes all others. `own` is the type that `Self` means.
pub(crate) fn blind(arms: &[syn::Arm], own: &str) -> Option<&'static str> {
    let mut names = Names { own, over: None };
    for arm in arms {
        names.visit_pat(&arm.pat);
    }
    let blind = |arm: &syn::Arm| arm.guard.is_none() && takes_all(&arm.pat);
    names.over.filter(|_| arms.iter().any(blind))
}

/// Finds `Family::..` in a pattern.
struct Names<'a> {
    own: &'a str,
    over: Option<&'static str>,
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        let before_last = path.segments.iter().rev().nth(1);
        if let Some(segment) = before_last {
            let named = match segment.ident.to_string() {
                name if name == "Self" => self.own.to_owned(),
                name => name,
            };
            let closed = CLOSED.iter().find(|closed| **closed == named);
            self.over = self.over.or_else(|| closed.copied());
        }
        visit::visit_path(self, path);
    }
}

fn takes_all(pattern: &Pat) -> bool {
    match pattern {
        Pat::Wild(_) => true,
        // A constant is in capitals.
        Pat::Ident(ident) => {
            ident.subpat.is_none() && ident.ident.to_string().starts_with(char::is_lowercase)
        }
        Pat::Or(or) => or.cases.iter().any(takes_all),
        Pat::Paren(paren) => takes_all(&paren.pat),
        Pat::Reference(reference) => takes_all(&reference.pat),
        Pat::Tuple(tuple) => tuple.elems.iter().all(takes_all),
        _ => false,
    }
}

#[test]
fn a_wildcard_and_a_name_that_take_all_others_are_found() {
    let text = "
        fn a(f: Family) { match f { Family::RTC => 1, _ => 2 }; }
        fn b(k: FactKey) { match (k, 1) { (ledger::FactKey::Peer { .. }, _) => 1, (other, _) => 2 }; }
        impl Family { fn c(self) { match self { Self::RTC | Self::IPV4 => 1, evpn => 2 }; } }
        impl Other { fn d(self) { match self { Self::A => 1, _ => 2 }; } }
        fn e(f: Family) { match f { Family::RTC => 1, Family::IPV4 => 2, _ if x => 3 }; }
        #[cfg(test)] fn g(f: Family) { match f { Family::RTC => 1, _ => 2 }; }
        fn h(f: Option<Family>) { match f { Some(Family::RTC) => 1, None => 2, Some(Family::IPV4) => 3 }; }";
    let source = Source::read("controller/src/x.rs", text);
    let found = found([&source].into_iter());
    let counts: Vec<_> = found.counts().iter().collect();
    assert_eq!(
        counts,
        [
            (&"controller/src/x.rs FactKey".to_owned(), &1),
            (&"controller/src/x.rs Family".to_owned(), &2)
        ]
    );
}
