//! Changing a stack while it runs: another graph, other services, other addresses.

mod common;

mod change {
    mod graph;
    mod operator;
    mod settings;
    mod waiting;
}
