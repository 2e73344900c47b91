//! The items of a file that the rules ask for, collected in one pass over its syntax. Knows no rule.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ImplItem, Item, Meta, Stmt, Type, Visibility};

use crate::families::{self, Blind};
use crate::limits;

/// Items of the product in one file.
#[derive(Default)]
pub(crate) struct Items {
    /// Places of items under `#[cfg(test)]`, with their attributes.
    pub(crate) tests: Vec<Range<usize>>,
    /// Paths of files without `.rs` that are modules of tests.
    pub(crate) test_modules: Vec<String>,
    pub(crate) structs: Vec<Struct>,
    pub(crate) public: Vec<Public>,
    /// Names that the file chooses: of items, fields, variants, parameters and variables.
    pub(crate) names: Vec<(String, usize)>,
    /// Inherent and trait implementations: the type's name and the place.
    pub(crate) implementations: Vec<(String, Range<usize>)>,
    /// Places of `use` declarations that are not private.
    pub(crate) reexports: Vec<Range<usize>>,
    pub(crate) blind: Vec<Blind>,
    /// Constants whose values can be computed here.
    pub(crate) constants: Vec<(String, u128)>,
}

/// A struct and the number of its fields.
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) at: usize,
    pub(crate) fields: usize,
}

/// An item that other crates can name.
pub(crate) struct Public {
    pub(crate) name: String,
    pub(crate) place: Range<usize>,
    /// True if implementations belong to it.
    pub(crate) is_type: bool,
}

/// Collects the items of a file.
pub(crate) fn read(path: &str, file: &syn::File) -> Items {
    let folder = path.strip_suffix(".rs").unwrap_or(path);
    let folder = ["/lib", "/main"]
        .iter()
        .find_map(|root| folder.strip_suffix(root))
        .unwrap_or(folder);
    let mut reader = Reader {
        items: Items::default(),
        folder: folder.to_owned(),
        own: String::new(),
        inherent: true,
    };
    reader.visit_file(file);
    reader.items
}

struct Reader {
    items: Items,
    /// Where the files of submodules are.
    folder: String,
    /// The type of the implementation around, for `Self`.
    own: String,
    /// True if the implementation around is of no trait.
    inherent: bool,
}

impl Reader {
    /// Notes an item under `#[cfg(test)]`. Returns true if it is one.
    fn leaves_out(&mut self, attributes: &[Attribute], span: impl Fn() -> Span) -> bool {
        let test = attributes.iter().any(is_for_tests);
        if test {
            self.items.tests.push(span().byte_range());
        }
        test
    }

    fn name(&mut self, ident: &syn::Ident) {
        let at = ident.span().byte_range().start;
        self.items.names.push((ident.to_string(), at));
    }

    fn public(&mut self, visibility: &Visibility, ident: &syn::Ident, span: Span, is_type: bool) {
        if matches!(visibility, Visibility::Public(_)) {
            self.items.public.push(Public {
                name: ident.to_string(),
                place: span.byte_range(),
                is_type,
            });
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Fn(item) => {
                self.name(&item.sig.ident);
                self.public(&item.vis, &item.sig.ident, item.span(), false);
            }
            Item::Struct(item) => {
                self.name(&item.ident);
                self.public(&item.vis, &item.ident, item.span(), true);
                self.items.structs.push(Struct {
                    name: item.ident.to_string(),
                    at: item.ident.span().byte_range().start,
                    fields: item.fields.len(),
                });
            }
            Item::Enum(item) => {
                self.name(&item.ident);
                self.public(&item.vis, &item.ident, item.span(), true);
            }
            Item::Trait(item) => {
                self.name(&item.ident);
                self.public(&item.vis, &item.ident, item.span(), true);
            }
            Item::Type(item) => {
                self.name(&item.ident);
                self.public(&item.vis, &item.ident, item.span(), true);
            }
            Item::Const(item) => {
                self.name(&item.ident);
                self.public(&item.vis, &item.ident, item.span(), false);
                self.constant(&item.ident, &item.expr);
            }
            Item::Static(item) => self.name(&item.ident),
            Item::Mod(item) => self.name(&item.ident),
            Item::Use(item) if !matches!(item.vis, Visibility::Inherited) => {
                self.items.reexports.push(item.span().byte_range());
            }
            _ => {}
        }
    }

    fn constant(&mut self, ident: &syn::Ident, value: &Expr) {
        let known = |name: &str| {
            let mut constants = self.items.constants.iter();
            constants.find_map(|(known, value)| (known == name).then_some(*value))
        };
        if let Some(value) = limits::value(value, &known) {
            self.items.constants.push((ident.to_string(), value));
        }
    }

    /// Returns the module that a file of tests is.
    fn test_module(&mut self, item: &Item) {
        if let Item::Mod(module) = item
            && module.content.is_none()
        {
            let module = format!("{}/{}", self.folder, module.ident);
            self.items.test_modules.push(module);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if self.leaves_out(item_attributes(item), || item.span()) {
            self.test_module(item);
            return;
        }
        self.item(item);
        match item {
            Item::Impl(block) => {
                let name = type_name(&block.self_ty);
                let place = block.span().byte_range();
                self.items.implementations.push((name.clone(), place));
                let own = std::mem::replace(&mut self.own, name);
                let inherent = std::mem::replace(&mut self.inherent, block.trait_.is_none());
                visit::visit_item(self, item);
                (self.own, self.inherent) = (own, inherent);
            }
            Item::Mod(module) if module.content.is_some() => {
                let inner = format!("{}/{}", self.folder, module.ident);
                let around = std::mem::replace(&mut self.folder, inner);
                visit::visit_item(self, item);
                self.folder = around;
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => return,
        };
        if self.leaves_out(attributes, || item.span()) {
            return;
        }
        // The names of a trait's items are the trait's.
        if self.inherent {
            match item {
                ImplItem::Const(item) => {
                    self.name(&item.ident);
                    self.public(&item.vis, &item.ident, item.span(), false);
                    self.constant(&item.ident, &item.expr);
                }
                ImplItem::Fn(item) => {
                    self.name(&item.sig.ident);
                    self.public(&item.vis, &item.sig.ident, item.span(), false);
                }
                _ => {}
            }
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if !self.leaves_out(&item.attrs, || item.span()) {
            self.name(&item.sig.ident);
            visit::visit_trait_item_fn(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if self.leaves_out(&field.attrs, || field.span()) {
            return;
        }
        if let Some(ident) = &field.ident {
            self.name(ident);
        }
        visit::visit_field(self, field);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        if !self.leaves_out(&variant.attrs, || variant.span()) {
            self.name(&variant.ident);
            visit::visit_variant(self, variant);
        }
    }

    fn visit_field_value(&mut self, value: &'ast syn::FieldValue) {
        if !self.leaves_out(&value.attrs, || value.span()) {
            visit::visit_field_value(self, value);
        }
    }

    fn visit_field_pat(&mut self, pattern: &'ast syn::FieldPat) {
        // The struct has named a field that is taken by its name.
        if !self.leaves_out(&pattern.attrs, || pattern.span()) && pattern.colon_token.is_some() {
            visit::visit_field_pat(self, pattern);
        }
    }

    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        self.name(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let attributes: &[Attribute] = match statement {
            Stmt::Local(local) => &local.attrs,
            Stmt::Macro(call) => &call.attrs,
            Stmt::Expr(expression, _) => expression_attributes(expression),
            Stmt::Item(_) => &[],
        };
        if !self.leaves_out(attributes, || statement.span()) {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !self.leaves_out(&arm.attrs, || arm.span()) {
            visit::visit_arm(self, arm);
        }
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        if let Some(over) = families::blind(&expression.arms, &self.own) {
            let at = expression.match_token.span.byte_range().start;
            self.items.blind.push(Blind { over, at });
        }
        visit::visit_expr_match(self, expression);
    }
}

/// Returns true for `cfg(test)` and for `cfg(all(test, ..))`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    let condition = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg") && (condition == "test" || condition.starts_with("all(test,"))
}

/// Returns the name of an implementation's type, and an empty one for a type without a name.
fn type_name(of: &Type) -> String {
    let Type::Path(path) = of else {
        return String::new();
    };
    let last = path.path.segments.last();
    last.map(|segment| segment.ident.to_string())
        .unwrap_or_default()
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the attributes of an expression that stands as a statement.
fn expression_attributes(expression: &Expr) -> &[Attribute] {
    match expression {
        Expr::Assign(expression) => expression_attributes(&expression.left),
        Expr::Await(expression) => &expression.attrs,
        Expr::Block(expression) => &expression.attrs,
        Expr::Call(expression) => &expression.attrs,
        Expr::Field(expression) => &expression.attrs,
        Expr::ForLoop(expression) => &expression.attrs,
        Expr::If(expression) => &expression.attrs,
        Expr::Macro(expression) => &expression.attrs,
        Expr::Match(expression) => &expression.attrs,
        Expr::MethodCall(expression) => &expression.attrs,
        Expr::Path(expression) => &expression.attrs,
        Expr::Try(expression) => &expression.attrs,
        _ => &[],
    }
}

#[cfg(test)]
fn items(path: &str, text: &str) -> Items {
    read(path, &syn::parse_file(text).expect("a file of Rust"))
}

#[test]
fn everything_under_cfg_test_is_left_out() {
    let text = "
        #[cfg(test)] mod tests;
        #[cfg(all(test, unix))] mod x { pub struct A; }
        mod inner { #[cfg(test)] mod deep; }
        struct S { a: u8, #[cfg(test)] told: u8 }
        impl S {
            #[cfg(test)] pub fn f() {}
            fn g() { #[cfg(test)] let wish = 1; #[cfg(test)] tests::f(); match 1 { #[cfg(test)] turn => {} _ => {} } }
        }
        #[cfg(unix)] pub fn kept() {}";
    let items = items("a/src/b.rs", text);
    assert_eq!(items.test_modules, ["a/src/b/tests", "a/src/b/inner/deep"]);
    assert_eq!(items.tests.len(), 8);
    let public: Vec<_> = items.public.iter().map(|item| &item.name).collect();
    assert_eq!(public, ["kept"]);
    let names: Vec<_> = items.names.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["inner", "S", "a", "g", "kept"]);
}
