"""One module for each table or figure of the papers, and for what they leave open."""
