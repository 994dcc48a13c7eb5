//! Keeps a policy satisfied: search, watch and filters as one loop over what is steered.
#![forbid(unsafe_code)]
