"""Prints what the compiled kernels cost, as a table, at the end of the run."""

import pytest

ROWS = pytest.StashKey[list[str]]()


@pytest.fixture
def table(request: pytest.FixtureRequest) -> list[str]:
    """Lines of the resource table; a test adds its own."""
    return request.config.stash.setdefault(ROWS, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table."""
    rows = terminalreporter.config.stash.get(ROWS, [])
    if rows:
        terminalreporter.section("registers a thread, spilled bytes, shared memory a block")
        for row in sorted(rows):
            terminalreporter.write_line(row)
