"""Pages of the alignment tool."""
