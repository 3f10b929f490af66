//! The type of an expression, and everything that does not fit in it.

use super::literals::{Constant, Formatted, Group, Literals};
use super::source::Problem;
use super::table::{self, Overload};
use super::tree::{Item, Literal, Loop, OptMap, Tree, What};
use super::types::Type;
use super::unify::Bindings;

/// Most problems that are said twice: chains would double them every time.
const MOST_AGAIN: usize = 100;

/// Walks a tree.
pub(super) struct Checker<'n> {
    pub(super) types: Bindings<'n>,
    /// Names in scope, inner ones last.
    pub(super) variables: Vec<(String, Type<'n>)>,
    pub(super) problems: Vec<Problem>,
    /// What is looked at once the types are right.
    pub(super) literals: Literals<'n>,
    /// Calls around this place whose lists may hold different types.
    mixed: usize,
    /// The values of the list that was looked at last.
    last_list: Group<'n>,
}

impl<'n> Checker<'n> {
    pub(super) fn new(variables: Vec<(String, Type<'n>)>) -> Self {
        Self {
            types: Bindings::default(),
            variables,
            problems: Vec::new(),
            literals: Literals::default(),
            mixed: 0,
            last_list: Group::default(),
        }
    }

    fn problem(&mut self, at: usize, message: String) -> Type<'n> {
        self.problems.push(Problem::new(at, message));
        Type::Error
    }

    fn undeclared(&mut self, at: usize, name: &str) -> Type<'n> {
        self.problem(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn mismatch(&mut self, at: usize, expected: &Type<'n>, found: &Type<'n>) -> Type<'n> {
        self.problem(at, format!("expected type '{expected}' but found '{found}'"))
    }

    pub(super) fn infer(&mut self, tree: &Tree) -> Type<'n> {
        match &tree.what {
            What::Literal(literal) => of_literal(literal),
            What::Name(name) => self.named(tree.at, name),
            What::Select { operand, field, test, optional } => {
                if let Some(found) = tree.qualified().and_then(|name| self.type_name(&name)) {
                    return found;
                }
                let found = self.select(tree.at, operand, field, *optional);
                if *test { Type::Bool } else { self.types.known(&found) }
            }
            What::Call { name, target, args } => self.call(tree.at, name, target.as_deref(), args),
            What::List(items) => self.list(items),
            What::Map(entries) => self.map(entries),
            What::Message(name) if table::is_message(name) => Type::Dyn,
            What::Message(name) => match table::type_named(name) {
                Some(_) => self.problem(tree.at, format!("'{name}' is not a message type")),
                None => self.undeclared(tree.at, name),
            },
            What::Loop(looped) => self.looped(looped),
            What::OptMap(mapped) => self.opt_map(tree.at, mapped),
        }
    }

    fn named(&mut self, at: usize, name: &str) -> Type<'n> {
        let plain = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, found)) = self.variables.iter().rev().find(|(known, _)| known == plain) {
            return found.clone();
        }
        match self.type_name(plain) {
            Some(found) => found,
            None => self.undeclared(at, name),
        }
    }

    fn type_name(&self, name: &str) -> Option<Type<'n>> {
        table::type_named(name).map(|named| Type::Meta(Some(named.into())))
    }

    fn select(&mut self, at: usize, operand: &Tree, field: &str, optional: bool) -> Type<'n> {
        let operand = self.infer(operand);
        let operand = self.types.known(&operand);
        let (target, unwrapped) = operand.unwrapped();
        let found = match target {
            Type::Map(_, value) => value.as_ref().clone(),
            Type::Object(object) => match object.field(field) {
                Some(found) => found,
                None => self.problem(at, format!("undefined field '{field}'")),
            },
            Type::Variable(_) => {
                self.types.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            wild if wild.is_wild() => Type::Dyn,
            Type::Named(name) if name.starts_with("kubernetes.") => {
                self.problem(at, format!("unexpected failed resolution of '{name}'"))
            }
            other => {
                self.problem(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if unwrapped || optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, at: usize, name: &str, target: Option<&Tree>, args: &[Tree]) -> Type<'n> {
        let mixed = usize::from(target.is_some() && name == "format");
        self.mixed += mixed;
        let mut types: Vec<Type<'n>> = args.iter().map(|argument| self.infer(argument)).collect();
        let list = matches!(args, [Tree { what: What::List(_), .. }]).then(|| self.last_list.clone());
        let space = target.and_then(Tree::qualified).map(|space| format!("{space}.{name}"));
        let function = space.as_deref().and_then(table::function);
        let found = match (target, function) {
            (None, _) if matches!(name, "_&&_" | "_||_") => self.logical(args, &types),
            (Some(_), Some(overloads)) => {
                self.resolve(at, &space.unwrap_or_default(), overloads, false, &types)
            }
            (target, _) => {
                if let Some(target) = target {
                    types.insert(0, self.infer(target));
                }
                self.apply(at, name, target.is_some(), &types)
            }
        };
        self.mixed -= mixed;
        self.remember(at, name, target, args, list);
        found
    }

    /// Calls a function by its name.
    fn apply(&mut self, at: usize, name: &str, method: bool, args: &[Type<'n>]) -> Type<'n> {
        match table::function(name) {
            Some(overloads) => self.resolve(at, name, overloads, method, args),
            None => self.undeclared(at, name),
        }
    }

    fn logical(&mut self, args: &[Tree], types: &[Type<'n>]) -> Type<'n> {
        let mut result = Type::Bool;
        for (argument, found) in args.iter().zip(types) {
            if !self.types.assignable(found, &Type::Bool) {
                result = self.mismatch(argument.at, &Type::Bool, found);
            }
        }
        result
    }

    fn resolve(
        &mut self,
        at: usize,
        name: &str,
        overloads: &'static [Overload],
        method: bool,
        args: &[Type<'n>],
    ) -> Type<'n> {
        let mut result: Option<Type<'n>> = None;
        for overload in overloads.iter().filter(|overload| overload.method == method) {
            let mut parameters = Vec::new();
            let wanted: Vec<Type<'n>> =
                overload.args.iter().map(|wanted| self.instance(wanted, &mut parameters)).collect();
            let gives = self.instance(&overload.result, &mut parameters);
            if !self.types.assignable_all(args, &wanted) {
                continue;
            }
            let gives = self.types.known(&gives);
            result = Some(match result {
                None => gives,
                Some(Type::Dyn) => Type::Dyn,
                Some(before) if self.types.same(&before, &gives) => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return result;
        }
        let mut shown: Vec<String> = args.iter().map(|found| self.types.settled(found).to_string()).collect();
        let receiver =
            if method && !shown.is_empty() { format!("{}.", shown.remove(0)) } else { String::new() };
        let shown = shown.join(", ");
        self.problem(at, format!("found no matching overload for '{name}' applied to '{receiver}({shown})'"))
    }

    /// A declared type with a variable of its own for every parameter.
    fn instance(&mut self, declared: &Type<'static>, parameters: &mut Vec<(char, Type<'n>)>) -> Type<'n> {
        if let Type::Parameter(letter) = declared {
            if let Some((_, known)) = parameters.iter().find(|(known, _)| known == letter) {
                return known.clone();
            }
            let fresh = self.types.fresh();
            parameters.push((*letter, fresh.clone()));
            return fresh;
        }
        match declared {
            Type::List(item) => Type::list(self.instance(item, parameters)),
            Type::Optional(inner) => Type::optional(self.instance(inner, parameters)),
            Type::Meta(Some(inner)) => Type::Meta(Some(self.instance(inner, parameters).into())),
            Type::Map(key, value) => {
                Type::map(self.instance(key, parameters), self.instance(value, parameters))
            }
            other => other.clone(),
        }
    }

    fn list(&mut self, items: &[Item]) -> Type<'n> {
        let mut group = Group::default();
        let mut common: Option<Type<'n>> = None;
        for item in items {
            let found = self.item(item);
            group.0.push((item.value.at, found.clone()));
            common = Some(match common {
                None => found,
                Some(before) => self.types.join(before, &found),
            });
        }
        if self.mixed == 0 {
            self.literals.lists.push(group.clone());
        }
        self.last_list = group;
        Type::list(common.unwrap_or_else(|| self.types.fresh()))
    }

    /// The type of one value of a list or a map.
    fn item(&mut self, item: &Item) -> Type<'n> {
        let found = self.infer(&item.value);
        if !item.optional {
            return found;
        }
        let (inner, optional) = found.unwrapped();
        if !optional && !matches!(inner, Type::Dyn) {
            let expected = Type::optional(inner.clone());
            self.mismatch(item.value.at, &expected, &found);
        }
        inner.clone()
    }

    fn map(&mut self, entries: &[(Tree, Item)]) -> Type<'n> {
        let (mut keys, mut values) = (Group::default(), Group::default());
        let mut common: Option<(Type<'n>, Type<'n>)> = None;
        for (key, item) in entries {
            let found_key = self.infer(key);
            let found = self.item(item);
            keys.0.push((key.at, found_key.clone()));
            values.0.push((item.value.at, found.clone()));
            common = Some(match common {
                None => (found_key, found),
                Some((before_key, before)) => {
                    (self.types.join(before_key, &found_key), self.types.join(before, &found))
                }
            });
        }
        if self.mixed == 0 {
            self.literals.maps.extend([keys, values]);
        }
        let (key, value) = common.unwrap_or_else(|| (self.types.fresh(), self.types.fresh()));
        Type::map(key, value)
    }

    fn looped(&mut self, looped: &Loop) -> Type<'n> {
        let range = self.infer(&looped.range);
        let start = self.infer(&looped.start);
        let range = self.types.known(&range);
        let outside = self.variables.len();
        self.variables.push((looped.result_name.clone(), start.clone()));
        let (first, second) = match &range {
            Type::List(item) => (Type::Int, item.as_ref().clone()),
            Type::Map(key, value) => (key.as_ref().clone(), value.as_ref().clone()),
            Type::Dyn | Type::Error | Type::Variable(_) => {
                self.types.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.problem(looped.range.at, message);
                (Type::Error, Type::Error)
            }
        };
        let inside = self.variables.len();
        match (&looped.second, &range) {
            (Some(name), _) => {
                self.variables.push((looped.variable.clone(), first));
                self.variables.push((name.clone(), second));
            }
            // One variable stands for the items of a list, and for the keys of a map.
            (None, Type::List(_)) => self.variables.push((looped.variable.clone(), second)),
            (None, _) => self.variables.push((looped.variable.clone(), first)),
        }
        self.expect(&looped.condition, &Type::Bool);
        self.expect(&looped.step, &start);
        self.variables.truncate(inside);
        let result = self.infer(&looped.result);
        self.variables.truncate(outside);
        self.types.known(&result)
    }

    fn expect(&mut self, tree: &Tree, expected: &Type<'n>) {
        let found = self.infer(tree);
        if !self.types.assignable(expected, &found) {
            self.mismatch(tree.at, expected, &found);
        }
    }

    /// `target.hasValue() ? optional.of(body) : optional.none()`, with a name for `target.value()` in the body.
    fn opt_map(&mut self, at: usize, mapped: &OptMap) -> Type<'n> {
        let before = self.problems.len();
        let target = [self.infer(&mapped.target)];
        // A real server has the target twice in its tree, and says twice what is wrong with it.
        let again: Vec<Problem> = self.problems.iter().skip(before).take(MOST_AGAIN).cloned().collect();
        self.problems.extend(again);
        let present = self.apply(at, "hasValue", true, &target);
        let value = self.apply(at, "value", true, &target);
        self.variables.push((mapped.name.clone(), value));
        let body = self.infer(&mapped.body);
        self.variables.pop();
        let body = if mapped.flat { body } else { self.apply(at, "optional.of", false, &[body]) };
        let none = self.apply(at, "optional.none", false, &[]);
        self.apply(at, "_?_:_", false, &[present, body, none])
    }

    /// Keeps what can only be judged by its text.
    fn remember(
        &mut self,
        at: usize,
        name: &str,
        target: Option<&Tree>,
        args: &[Tree],
        list: Option<Group<'n>>,
    ) {
        if let (Some(constant), Some(Tree { at, what: What::Literal(Literal::Text(text)) })) =
            (Constant::of(name), args.first())
        {
            self.literals.constants.push((constant, *at, text.clone()));
        }
        if let ("format", Some(Tree { what: What::Literal(Literal::Text(text)), .. }), Some(args)) =
            (name, target, list)
        {
            self.literals.formatted.push(Formatted { at, text: text.clone(), args });
        }
    }
}

fn of_literal<'n>(literal: &Literal) -> Type<'n> {
    match literal {
        Literal::Bool => Type::Bool,
        Literal::Int => Type::Int,
        Literal::Uint => Type::Uint,
        Literal::Double => Type::Double,
        Literal::Text(_) => Type::String,
        Literal::Bytes => Type::Bytes,
        Literal::Null => Type::Null,
    }
}
