"""dynamlir's own front door: what the native interpreter needs from torch, and how captured graphs are compiled."""
