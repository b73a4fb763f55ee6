"""dynamlir's own front door: what the native interpreter needs of torch, and what is done with a captured graph."""
