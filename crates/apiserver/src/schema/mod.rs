//! Structural schemas: prune, default, validate, CEL.
