"""A tuning job's trials as a person sees them: one row each, the best one marked."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from training_api.command_line.cells import STATE_STYLES, duration_text
from training_api.job.results import StudyResult, TrialRow


def trials_table(study: StudyResult) -> Table:
    """Return the table; the trials come in the order of their numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("TRIAL", "STATE", study.metric_tag.upper(), "STEP", "TOOK"):
        table.add_column(column, no_wrap=True, justify="right" if column != "STATE" else "left")
    table.add_column("HYPERPARAMETERS", overflow="fold")
    best = study.best.trial_id if study.best else ""
    for row in study.trials:
        table.add_row(*_cells(row), style="bold" if row.trial_id == best else "")
    return table


def _cells(row: TrialRow) -> tuple[str | Text, ...]:
    stopped = " (stopped early)" if row.is_stopped_early else ""
    return (
        row.trial_id,
        Text(f"{row.state.value}{stopped}", style=STATE_STYLES.get(row.state, "")),
        "" if row.objective is None else f"{row.objective:.6g}",
        "" if row.step is None else str(row.step),
        "" if row.seconds is None else duration_text(row.seconds),
        " ".join(f"{name}={value}" for name, value in row.hyperparameters.items()),
    )
