//! What bodies cost, by their length. A binary of its own, because it counts the processor time of the whole process.

#[cfg(test)]
mod bodies;
