//! From words to a tree. The text was taken by the interpreter's parser before, so there is nothing to say about its
//! syntax; only what is wrong with names and macros is found here.

use super::macros;
use super::source::Problem;
use super::token::{Token, Word, words};
use super::tree::{Item, Literal, Tree, What};

/// Words that name nothing.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// The tree of an expression and what is wrong with it. Nothing if it cannot be read here.
pub(super) fn parse(text: &str) -> Option<(Tree, Vec<Problem>)> {
    let mut parser = Parser { tokens: words(text)?, next: 0, problems: Vec::new() };
    let tree = parser.expression()?;
    (*parser.peek(0) == Word::End).then_some((tree, parser.problems))
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    problems: Vec<Problem>,
}

/// Operators between two values, by how tight they bind.
const RELATIONS: [(&str, &str); 6] =
    [("<", "_<_"), ("<=", "_<=_"), (">=", "_>=_"), (">", "_>_"), ("==", "_==_"), ("!=", "_!=_")];
const SUMS: [(&str, &str); 2] = [("+", "_+_"), ("-", "_-_")];
const PRODUCTS: [(&str, &str); 3] = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];

impl Parser {
    fn peek(&self, ahead: usize) -> &Word {
        self.tokens.get(self.next + ahead).map_or(&Word::End, |token| &token.word)
    }

    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(0, |token| token.at)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(0), Word::Symbol(found) if *found == symbol)
    }

    /// Takes a symbol, and says where it stood.
    fn take(&mut self, symbol: &str) -> Option<usize> {
        let at = self.at();
        self.is(symbol).then(|| {
            self.next += 1;
            at
        })
    }

    fn expression(&mut self) -> Option<Tree> {
        let condition = self.alternatives()?;
        let Some(at) = self.take("?") else { return Some(condition) };
        let then = self.alternatives()?;
        self.take(":")?;
        let otherwise = self.expression()?;
        Some(Tree::call(at, "_?_:_", vec![condition, then, otherwise]))
    }

    fn alternatives(&mut self) -> Option<Tree> {
        let mut left = self.conjunction()?;
        while let Some(at) = self.take("||") {
            left = Tree::call(at, "_||_", vec![left, self.conjunction()?]);
        }
        Some(left)
    }

    fn conjunction(&mut self) -> Option<Tree> {
        let mut left = self.relation()?;
        while let Some(at) = self.take("&&") {
            left = Tree::call(at, "_&&_", vec![left, self.relation()?]);
        }
        Some(left)
    }

    fn operator(&mut self, operators: &[(&'static str, &'static str)]) -> Option<(usize, &'static str)> {
        let (at, found) = (self.at(), operators.iter().find(|(symbol, _)| self.is(symbol))?);
        self.next += 1;
        Some((at, found.1))
    }

    fn relation(&mut self) -> Option<Tree> {
        let mut left = self.sum()?;
        loop {
            let at = self.at();
            let name = if matches!(self.peek(0), Word::Name(name) if name == "in") {
                self.next += 1;
                "@in"
            } else if let Some((_, name)) = self.operator(&RELATIONS) {
                name
            } else {
                return Some(left);
            };
            left = Tree::call(at, name, vec![left, self.sum()?]);
        }
    }

    fn sum(&mut self) -> Option<Tree> {
        let mut left = self.product()?;
        while let Some((at, name)) = self.operator(&SUMS) {
            left = Tree::call(at, name, vec![left, self.product()?]);
        }
        Some(left)
    }

    fn product(&mut self) -> Option<Tree> {
        let mut left = self.unary()?;
        while let Some((at, name)) = self.operator(&PRODUCTS) {
            left = Tree::call(at, name, vec![left, self.unary()?]);
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Tree> {
        let at = self.at();
        if self.is_signed() {
            return self.member();
        }
        for (symbol, name) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.take(symbol).is_some() {
                count += 1;
            }
            if count > 0 {
                let operand = self.member()?;
                return Some(if count % 2 == 0 { operand } else { Tree::call(at, name, vec![operand]) });
            }
        }
        self.member()
    }

    fn member(&mut self) -> Option<Tree> {
        let mut tree = self.primary()?;
        loop {
            if let Some(at) = self.take(".") {
                let optional = self.take("?").is_some();
                let field = self.field_name()?;
                if !optional && self.is("(") {
                    let at = self.take("(")?;
                    let args = self.arguments()?;
                    tree = self.expanded(at, field, Some(tree), args);
                } else {
                    tree =
                        Tree::new(at, What::Select { operand: Box::new(tree), field, test: false, optional });
                }
            } else if let Some(at) = self.take("[") {
                let name = if self.take("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.take("]")?;
                tree = Tree::call(at, name, vec![tree, index]);
            } else {
                return Some(tree);
            }
        }
    }

    fn field_name(&mut self) -> Option<String> {
        let (at, word) = (self.at(), self.peek(0).clone());
        self.next += 1;
        match word {
            Word::Name(name) => Some(name),
            Word::Escaped => {
                self.problems.push(Problem::new(at, "unsupported syntax: '`'"));
                Some(String::new())
            }
            _ => None,
        }
    }

    fn expanded(&mut self, at: usize, name: String, target: Option<Tree>, args: Vec<Tree>) -> Tree {
        macros::expand(at, name, target, args).unwrap_or_else(|problem| {
            let at = problem.at;
            self.problems.push(problem);
            Tree::literal(at, Literal::Null)
        })
    }

    /// The arguments of a call, after the opening bracket.
    fn arguments(&mut self) -> Option<Vec<Tree>> {
        let mut args = Vec::new();
        if self.take(")").is_some() {
            return Some(args);
        }
        loop {
            args.push(self.expression()?);
            if self.take(",").is_none() {
                self.take(")")?;
                return Some(args);
            }
        }
    }

    fn primary(&mut self) -> Option<Tree> {
        let at = self.at();
        if let Some(tree) = self.literal() {
            return Some(tree);
        }
        if self.take("(").is_some() {
            let tree = self.expression()?;
            self.take(")")?;
            return Some(tree);
        }
        if self.take("[").is_some() {
            return self.list(at);
        }
        if self.take("{").is_some() {
            return self.map(at);
        }
        let dot = if self.take(".").is_some() { "." } else { "" };
        if let Some(message) = self.message() {
            return Some(message);
        }
        let Word::Name(name) = self.peek(0).clone() else { return None };
        let place = self.at();
        self.next += 1;
        let reserved = RESERVED.contains(&name.as_str());
        if reserved {
            self.problems.push(Problem::new(at, format!("reserved identifier: {name}")));
        }
        let name = format!("{dot}{name}");
        let Some(open) = self.take("(") else {
            return Some(Tree::new(place, What::Name(name)));
        };
        let args = self.arguments()?;
        Some(if reserved {
            Tree::literal(place, Literal::Null)
        } else {
            self.expanded(open, name, None, args)
        })
    }

    /// A sign before a number belongs to it.
    fn is_signed(&self) -> bool {
        self.is("-") && matches!(self.peek(1), Word::Int | Word::Double)
    }

    fn literal(&mut self) -> Option<Tree> {
        let at = self.at();
        self.next += usize::from(self.is_signed());
        let literal = match self.peek(0) {
            Word::Int => Literal::Int,
            Word::Uint => Literal::Uint,
            Word::Double => Literal::Double,
            Word::Text(text) => Literal::Text(text.clone()),
            Word::Bytes => Literal::Bytes,
            Word::Name(name) if name == "true" || name == "false" => Literal::Bool,
            Word::Name(name) if name == "null" => Literal::Null,
            _ => return None,
        };
        self.next += 1;
        Some(Tree::literal(at, literal))
    }

    fn list(&mut self, at: usize) -> Option<Tree> {
        let mut items = Vec::new();
        while self.take("]").is_none() {
            let optional = self.take("?").is_some();
            items.push(Item { optional, value: self.expression()? });
            if self.take(",").is_none() {
                self.take("]")?;
                break;
            }
        }
        Some(Tree::new(at, What::List(items)))
    }

    fn map(&mut self, at: usize) -> Option<Tree> {
        let mut entries = Vec::new();
        while self.take("}").is_none() {
            let optional = self.take("?").is_some();
            let key = self.expression()?;
            self.take(":")?;
            entries.push((key, Item { optional, value: self.expression()? }));
            if self.take(",").is_none() {
                self.take("}")?;
                break;
            }
        }
        Some(Tree::new(at, What::Map(entries)))
    }

    /// `a.b.C{…}`. What is inside is not looked at: no type of a schema can be made.
    fn message(&mut self) -> Option<Tree> {
        let (start, mut name) = (self.next, String::new());
        while let Word::Name(part) = self.peek(0) {
            name.push_str(part);
            self.next += 1;
            if let Some(at) = self.take("{") {
                while self.take("}").is_none() {
                    self.take("?");
                    self.field_name()?;
                    self.take(":")?;
                    self.expression()?;
                    self.take(",");
                }
                return Some(Tree::new(at, What::Message(name)));
            }
            if self.take(".").is_none() {
                break;
            }
            name.push('.');
        }
        self.next = start;
        None
    }
}
