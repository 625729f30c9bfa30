"""Reports: self-contained HTML pages with figures and tables, and the papers' own numbers."""
