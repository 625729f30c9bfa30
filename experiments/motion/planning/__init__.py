"""Acting towards goals that another agent has seen, carried by W."""
