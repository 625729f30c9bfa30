"""Moving a search index to another encoder: queries, their ceilings, and the decision."""
