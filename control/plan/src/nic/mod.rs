//! NIC models as the search sees them, extracted from graphs.
