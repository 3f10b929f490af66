//! The operator on the embedded API server, in virtual time.

#[cfg(test)]
mod half_open;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod plane;
#[cfg(test)]
mod refused;
