//! Batches of UDP datagrams.
