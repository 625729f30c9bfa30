"""W without one pair of observations, from actions that both agents know."""
