"""Writes docs/claims.md from the stored files of experiments.

A claim whose number or verdict changed, or that went, is added to the retired ones with its reason.

Command: python -m experiments.ledger [--why="the grid was run whole"]
Cost: two seconds.
Expected: "docs/claims.md: N claims, R retired".
"""

from absl import flags

from experiments.ledger import entries, page, retired
from socialjepa_jax.records import write_atomically
from socialjepa_jax.running import launch

PAGE = entries.ROOT / "docs" / "claims.md"


def main() -> None:
    """Writes the page, and the retired claims if there are more."""
    sources, known = entries.sources(), retired.read()
    known += retired.replaced(PAGE.read_text("utf-8"), page.page(sources, known), flags.FLAGS.why)
    retired.write(known)
    write_atomically(PAGE, page.page(sources, known).encode())
    count = sum(len(source.entries) for source in sources)
    print(f"{PAGE.relative_to(entries.ROOT)}: {count} claims, {len(known)} retired")


def define_flags() -> None:
    """Defines the command's flags; importing the module defines none."""
    flags.DEFINE_string("why", "", "Reason of all claims that changed or went.")


if __name__ == "__main__":
    define_flags()
    launch.run(main)
