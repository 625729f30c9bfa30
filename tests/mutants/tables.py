"""All mutants that count."""

from tests.mutants.alignment import ALIGNMENT
from tests.mutants.coupled import COUPLED
from tests.mutants.data import DATA
from tests.mutants.identifiability import IDENTIFIABILITY
from tests.mutants.migration import MIGRATION
from tests.mutants.mutant import Mutant
from tests.mutants.objectives import OBJECTIVES
from tests.mutants.pages import PAGES
from tests.mutants.survivors import SURVIVORS
from tests.mutants.training import TRAINING

TABLES = (
    SURVIVORS,
    ALIGNMENT,
    OBJECTIVES,
    TRAINING,
    DATA,
    PAGES,
    IDENTIFIABILITY,
    MIGRATION,
    COUPLED,
)


def counted() -> tuple[Mutant, ...]:
    """Returns the mutants of all tables."""
    return tuple(mutant for table in TABLES for mutant in table)
