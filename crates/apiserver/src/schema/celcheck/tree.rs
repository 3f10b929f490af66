//! An expression as a tree whose nodes know where they stand in the text.
//!
//! The tree of the interpreter's parser forgets the places once it is built, and errors are told at places.

/// A node. Its place is where the real server's parser puts it: at the operator, the dot or the opening bracket.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) at: usize,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Literal(Literal),
    Name(String),
    Select {
        operand: Box<Tree>,
        field: String,
        /// `has(…)`: only whether it is there.
        test: bool,
        /// `.?`: an optional of it.
        optional: bool,
    },
    Call {
        name: String,
        target: Option<Box<Tree>>,
        args: Vec<Tree>,
    },
    List(Vec<Item>),
    Map(Vec<(Tree, Item)>),
    /// A message: its name.
    Message(String),
    Loop(Box<Loop>),
    OptMap(Box<OptMap>),
}

/// One value of a list or a map; optional ones are left out when they are none.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) optional: bool,
    pub(super) value: Tree,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Bool,
    Int,
    Uint,
    Double,
    Text(String),
    Bytes,
    Null,
}

/// What a macro over a list or a map stands for.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) range: Tree,
    pub(super) variable: String,
    pub(super) second: Option<String>,
    pub(super) result_name: String,
    pub(super) start: Tree,
    pub(super) condition: Tree,
    pub(super) step: Tree,
    pub(super) result: Tree,
}

/// `target.optMap(name, body)`, or `optFlatMap`.
#[derive(Debug)]
pub(super) struct OptMap {
    pub(super) target: Tree,
    pub(super) name: String,
    pub(super) body: Tree,
    pub(super) flat: bool,
}

impl Tree {
    pub(super) fn new(at: usize, what: What) -> Self {
        Self { at, what }
    }

    pub(super) fn name(at: usize, name: &str) -> Self {
        Self::new(at, What::Name(name.to_owned()))
    }

    pub(super) fn literal(at: usize, literal: Literal) -> Self {
        Self::new(at, What::Literal(literal))
    }

    pub(super) fn call(at: usize, name: &str, args: Vec<Self>) -> Self {
        Self::new(at, What::Call { name: name.to_owned(), target: None, args })
    }

    pub(super) fn list(at: usize, values: Vec<Self>) -> Self {
        let items = values.into_iter().map(|value| Item { optional: false, value }).collect();
        Self::new(at, What::List(items))
    }

    /// `a.b.c`, when it is nothing but names.
    pub(super) fn qualified(&self) -> Option<String> {
        match &self.what {
            What::Name(name) => Some(name.clone()),
            What::Select { operand, field, test: false, optional: false } => {
                Some(format!("{}.{field}", operand.qualified()?))
            }
            _ => None,
        }
    }
}
