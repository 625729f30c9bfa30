"""Writes docs/claims.md from the stored files of experiments.

Command: python -m experiments.ledger
Cost: two seconds.
Expected: "docs/claims.md: N claims".
"""

from experiments.ledger import entries, page
from socialjepa_jax.records import write_atomically
from socialjepa_jax.running import launch

PAGE = entries.ROOT / "docs" / "claims.md"


def main() -> None:
    """Writes the page."""
    sources = entries.sources()
    write_atomically(PAGE, page.page(sources).encode())
    count = sum(len(source.entries) for source in sources)
    print(f"{PAGE.relative_to(entries.ROOT)}: {count} claims")


if __name__ == "__main__":
    launch.run(main)
