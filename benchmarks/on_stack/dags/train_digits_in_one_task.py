"""The DAG train_digits of the examples, but for its airflow states: ``states="one"``."""

from __future__ import annotations

from pathlib import Path

_FILE = Path(__file__).parents[3] / "dags" / "train_digits.py"
_CHANGES = {
    'dag_id="train_digits"': 'dag_id="train_digits_in_one_task"',
    "context_dir=TRAINER,": 'context_dir=TRAINER, states="one",',
}

_text = _FILE.read_text(encoding="utf-8")
for _old, _new in _CHANGES.items():
    assert _text.count(_old) == 1, f"{_FILE}: expected {_old} once"
    _text = _text.replace(_old, _new)
# The example finds its trainer beside its own file. Airflow goes by this one's name: it marks a DAG whose
# file is not in the bundle as stale.
_own, __file__ = __file__, str(_FILE)
exec(compile(_text, __file__, "exec"))  # noqa: S102
__file__ = _own
