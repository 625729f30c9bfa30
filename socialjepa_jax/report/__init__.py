"""Reports: self-contained HTML pages with figures and tables, and the papers' own numbers."""

from socialjepa_jax.report.run_page import write_run_report

__all__ = ["write_run_report"]
