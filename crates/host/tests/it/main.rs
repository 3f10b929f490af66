//! A host as its owner meets it: keys and files on disk, and the API on a socket.

#[cfg(test)]
mod half_open;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod socket;
#[cfg(test)]
mod webhook;
