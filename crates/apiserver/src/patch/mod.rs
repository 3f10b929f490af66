//! Patches: JSON (RFC 6902), merge (RFC 7396) and strategic merge.
