//! Decodes, verifies, plans and executes Dala graphs on Burn.
