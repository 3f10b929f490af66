//! Jobs from their creation to their end, by every road there is.

mod cleanup;
mod deletion;
mod ends;
mod limits;
mod scaling;
mod suspension;
mod tracking;
