//! Finding out types that are not written down: what a type variable stands for.
//!
//! The rules are those of the real server's checker: a value of unknown type goes with everything, and the more
//! general of two types that go together is kept.

use super::types::Type;

/// Steps after which nothing is checked any more. Types can share parts and be far larger than the text they come from;
/// a rule that is too much work to check is taken as it is.
const MOST_STEPS: usize = 200_000;

/// What the type variables stand for.
#[derive(Debug, Default)]
pub(super) struct Bindings<'n> {
    bound: Vec<Option<Type<'n>>>,
    /// What was there before, to undo what was tried in vain.
    trail: Vec<(usize, Option<Type<'n>>)>,
    steps: usize,
}

impl<'n> Bindings<'n> {
    pub(super) fn fresh(&mut self) -> Type<'n> {
        self.bound.push(None);
        Type::Variable(self.bound.len() - 1)
    }

    /// Whether checking this became too much work.
    pub(super) fn exhausted(&self) -> bool {
        self.steps >= MOST_STEPS
    }

    fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_add(1);
        !self.exhausted()
    }

    /// Whether every type goes with the other at its place. Remembers what variables stand for if so.
    pub(super) fn assignable_all(&mut self, from: &[Type<'n>], to: &[Type<'n>]) -> bool {
        let mark = self.trail.len();
        let fits = from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fits(from, to));
        if !fits {
            while self.trail.len() > mark {
                let Some((variable, before)) = self.trail.pop() else { break };
                if let Some(bound) = self.bound.get_mut(variable) {
                    *bound = before;
                }
            }
        }
        fits
    }

    pub(super) fn assignable(&mut self, from: &Type<'n>, to: &Type<'n>) -> bool {
        self.assignable_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    fn fits(&mut self, one: &Type<'n>, two: &Type<'n>) -> bool {
        if !self.step() {
            return true;
        }
        if let Type::Variable(variable) = two {
            match self.stands_for(*variable, one) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let Type::Variable(variable) = one {
            return self.stands_for(*variable, two).0;
        }
        if one.is_wild() || two.is_wild() {
            return true;
        }
        match (one, two) {
            (Type::Null, other) | (other, Type::Null) => other.is_nullable(),
            (Type::Meta(_), Type::Meta(_)) => true,
            _ => {
                one.same_sort(two)
                    && one.parts().into_iter().zip(two.parts()).all(|pair| match pair {
                        (Some(one), Some(two)) => self.fits(one, two),
                        _ => true,
                    })
            }
        }
    }

    /// Whether a variable can stand for a type, and whether it stood for something before.
    fn stands_for(&mut self, variable: usize, other: &Type<'n>) -> (bool, bool) {
        if matches!(other, Type::Variable(same) if *same == variable) {
            return (true, true);
        }
        match self.bound.get(variable).cloned().flatten() {
            Some(known) => {
                if !self.fits(other, &known) {
                    return (false, true);
                }
                let general = if self.is_general(other, &known) { other.clone() } else { known };
                if !self.occurs(variable, &general) {
                    self.bind(variable, general);
                }
                (true, true)
            }
            None if self.occurs(variable, other) => (false, false),
            None => {
                self.bind(variable, other.clone());
                (true, false)
            }
        }
    }

    fn bind(&mut self, variable: usize, to: Type<'n>) {
        if let Some(bound) = self.bound.get_mut(variable) {
            self.trail.push((variable, bound.replace(to)));
        }
    }

    /// Whether the first type is as general as the second, or more.
    fn is_general(&mut self, one: &Type<'n>, two: &Type<'n>) -> bool {
        if !self.step() || matches!(one, Type::Dyn | Type::Variable(_)) {
            return true;
        }
        if matches!(two, Type::Dyn | Type::Variable(_)) {
            return false;
        }
        matches!((one, two), (Type::Meta(_), Type::Meta(_)))
            || one.same_sort(two)
                && one.parts().into_iter().zip(two.parts()).all(|pair| match pair {
                    (Some(one), Some(two)) => self.is_general(one, two),
                    _ => true,
                })
    }

    fn occurs(&mut self, variable: usize, within: &Type<'n>) -> bool {
        if !self.step() {
            return true;
        }
        match within {
            Type::Variable(other) if *other == variable => true,
            Type::Variable(other) => match self.bound.get(*other).cloned().flatten() {
                Some(bound) => self.occurs(variable, &bound),
                None => false,
            },
            other => other.parts().into_iter().flatten().any(|part| self.occurs(variable, part)),
        }
    }

    /// The more general of two types that go together.
    pub(super) fn join(&mut self, one: Type<'n>, two: &Type<'n>) -> Type<'n> {
        if !self.assignable(&one, two) {
            return Type::Dyn;
        }
        if self.is_general(&one, two) { one } else { two.clone() }
    }

    /// A type with its variables replaced by what they stand for.
    pub(super) fn known(&mut self, of: &Type<'n>) -> Type<'n> {
        self.replace(of, false)
    }

    /// The same, with everything else of an unknown type.
    pub(super) fn settled(&mut self, of: &Type<'n>) -> Type<'n> {
        self.replace(of, true)
    }

    fn replace(&mut self, of: &Type<'n>, settle: bool) -> Type<'n> {
        if !self.step() {
            return Type::Dyn;
        }
        match of {
            Type::Variable(variable) => match self.bound.get(*variable).cloned().flatten() {
                Some(bound) => self.replace(&bound, settle),
                None if settle => Type::Dyn,
                None => of.clone(),
            },
            other => other.with_parts(|part| self.replace(part, settle)),
        }
    }

    /// Whether two types are the same to the last part.
    pub(super) fn same(&mut self, one: &Type<'n>, two: &Type<'n>) -> bool {
        !self.step()
            || one.same_sort(two)
                && one.parts().into_iter().zip(two.parts()).all(|pair| match pair {
                    (Some(one), Some(two)) => self.same(one, two),
                    (None, None) => true,
                    _ => false,
                })
    }
}
