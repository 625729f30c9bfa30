"""Changes the code in one place at a time and counts the changes that tests notice.

    python -m tests.mutants.run --out=DIR [--only=NAME,...] [--jobs=2]

Goes on where an earlier call on the same folder stopped: what is already known of a change, its
file and the files of its tests is not measured again. Exits with 0 if at least 95 % are noticed, 1
if fewer are, if a change no longer applies or if tests fail without any.
"""

import argparse
import ast
import contextlib
import json
import pathlib
import queue
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.mutants.mutant import DoesNotApplyError, Mutant
from tests.mutants.tables import counted
from tests.mutants.tree import PACKAGE, Tree

ROOT = pathlib.Path(__file__).parents[2]
LIMIT = 90.0  # seconds for the tests of a mutant
BASELINE_LIMIT = 1800.0  # seconds for the tests of all mutants, without any
ENOUGH = 0.95
KILLED = ("killed", "timeout")


class Results:
    """What is known: a JSON line for each mutant in `results.jsonl`, of which the latest counts.

    Attributes:
        folder: of the files; made if missing.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._path = folder / "results.jsonl"
        lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        self._digests: dict[Mutant, str] = {}
        self._by_digest: dict[str, dict] = {}
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):  # cut short by a kill
                entry = json.loads(line)
                self._by_digest[entry["digest"]] = entry

    def of(self, mutant: Mutant) -> dict | None:
        """Returns the entry of a mutant, or None; an error counts for nothing."""
        entry = self._by_digest.get(self._digest(mutant))
        return None if entry is None or entry["outcome"] == "error" else entry

    def _digest(self, mutant: Mutant) -> str:
        # As of the first question: files may change while mutants run in copies.
        if mutant not in self._digests:
            self._digests[mutant] = mutant.digest(ROOT)
        return self._digests[mutant]

    def add(self, mutant: Mutant, entry: dict) -> None:
        """Appends the entry of a mutant."""
        line = {"name": mutant.name, **entry, "digest": self._digest(mutant)}
        self._by_digest[line["digest"]] = line
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def measure(tree: Tree, mutant: Mutant, results: Results) -> None:
    """Runs the tests of a mutant and notes what came of it."""
    with tree.changed(mutant):
        run = tree.test(mutant.tests, "-x", limit=LIMIT)
    # pytest ends with 1 if a test failed; with another status it could not run the tests.
    outcome = {None: "timeout", 0: "survived", 1: "killed"}.get(run.code, "error")
    first = "".join(run.failures[:1])
    more = {"output": run.output[-2000:]} if outcome == "error" else {"test": first}
    results.add(mutant, {"outcome": outcome, "seconds": round(run.seconds, 1), **more})
    print(f"{outcome:9}{run.seconds:5.0f} s  {mutant.name}  {first}", flush=True)


def baseline(tree: Tree, tests: Sequence[str], folder: pathlib.Path) -> str:
    """Runs tests without a mutant unless they passed before; returns what failed, or nothing."""
    passed = folder / "baseline" / tree.digest
    known = passed.read_text("utf-8").splitlines() if passed.exists() else []
    if not (new := [test for test in tests if test not in known]):
        return ""
    run = tree.test(new, limit=BASELINE_LIMIT, bytecode=True)
    if run.code in (0, 1):  # all tests were run
        passed.parent.mkdir(exist_ok=True)
        with passed.open("a", encoding="utf-8") as file:
            bad = run.failures
            file.writelines(f"{t}\n" for t in new if not any(f.startswith(t) for f in bad))
    return "" if run.code == 0 else f"tests fail without a mutant:\n{run.output[-2000:]}"


def summary(mutants: Sequence[Mutant], results: Results) -> tuple[str, bool]:
    """Returns a table of the outcomes, and whether enough mutants are killed."""
    entries = [
        results.of(mutant) or {"name": mutant.name, "outcome": "error"} for mutant in mutants
    ]
    killed = [entry for entry in entries if entry["outcome"] in KILLED]
    share = len(killed) / max(len(entries), 1)
    lines = [
        f"  {entry['outcome']}: {entry['name']}"
        for entry in entries
        if entry["outcome"] != "killed"
    ]
    lines.append(f"{len(killed)}/{len(entries)} killed ({share:.1%})")
    return "\n".join(lines), share >= ENOUGH


def measure_all(mutants: Sequence[Mutant], results: Results, jobs: int) -> str:
    """Measures mutants in copies of the repository; returns a reason not to, or nothing."""
    with contextlib.ExitStack() as stack:
        folders = [
            stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants_")) for _ in range(jobs)
        ]
        cache = (results.folder / "compiled").resolve()
        trees = [Tree(ROOT, pathlib.Path(folder), cache) for folder in folders]
        if not trees[0].imports_itself():
            return f"{PACKAGE} is imported from elsewhere than the changed copy"
        tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        shares = [tests[i::jobs] for i in range(jobs)]
        checks = pool.map(lambda tree, share: baseline(tree, share, results.folder), trees, shares)
        if failed := "\n".join(filter(None, checks)):
            return failed
        free: queue.Queue[Tree] = queue.Queue()
        for tree in trees:
            free.put(tree)

        def one(mutant: Mutant) -> None:
            tree = free.get()
            try:
                measure(tree, mutant, results)
            finally:
                free.put(tree)

        list(pool.map(one, mutants))
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument("--only", default="", help="names, separated by commas; default all")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    args = parser.parse_args(argv)
    names = [name.strip() for name in args.only.split(",") if name.strip()]
    mutants = [mutant for mutant in counted() if not names or mutant.name in names]
    if unknown := set(names) - {mutant.name for mutant in mutants}:
        parser.error(f"--only: no mutant is called {sorted(unknown)}")
    if args.jobs < 1:
        parser.error(f"--jobs={args.jobs} must be at least 1")
    if args.out.exists() and not args.out.is_dir():
        parser.error(f"--out={args.out} is no folder")
    try:
        for mutant in mutants:
            ast.parse(mutant.applied(ROOT), mutant.name)
    except (DoesNotApplyError, SyntaxError) as error:
        print(error, file=sys.stderr)
        return 1
    results = Results(args.out)
    new = [mutant for mutant in mutants if not results.of(mutant)]
    if new and (reason := measure_all(new, results, args.jobs)):
        print(reason, file=sys.stderr)
        return 1
    text, enough = summary(mutants, results)
    print(text)
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
