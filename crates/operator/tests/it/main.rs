//! The operator on the embedded API server, in virtual time.

#[cfg(test)]
mod lease;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod plane;
