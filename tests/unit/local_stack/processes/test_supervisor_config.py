import shlex
from pathlib import Path

import pytest
from supervisor.options import ServerOptions

from local_stack.errors import LocalStackError
from local_stack.processes.supervisor_config import OWNER_VARIABLE, Program, render_main, render_program


def read_back(state_dir: Path, *programs: Program) -> ServerOptions:
    """Let supervisord's own reader read what we wrote."""
    (state_dir / "programs").mkdir(parents=True)
    (state_dir / "logs").mkdir()
    for program in programs:
        text = render_program(program, log=state_dir / "logs" / f"{program.name}.log", owner=state_dir)
        (state_dir / "programs" / f"{program.name}.conf").write_text(text)
    config = state_dir / "supervisord.conf"
    config.write_text(
        render_main(state_dir=state_dir, socket=state_dir / "s.sock", log_dir=state_dir / "logs")
    )
    options = ServerOptions()
    options.realize(["--configuration", str(config)])
    return options


def test_supervisord_reads_back_what_was_written(tmp_path: Path) -> None:
    state_dir = tmp_path / "a folder"
    program = Program(
        name="training",
        command=("/bin/echo", "100%", "two words", "it's"),
        environment={"JSON": '{"url":"http://host:9023","share":"50%"}', "PLAIN": "a,b=c d", "EMPTY": ""},
        directory=tmp_path,
        stop_signal="INT",
        stop_wait_seconds=7,
        start_retries=2,
        umask=0o077,
    )

    options = read_back(state_dir, program)

    (group,) = options.process_group_configs
    (config,) = group.process_configs
    assert shlex.split(config.command) == ["/bin/echo", "100%", "two words", "it's"]
    assert config.environment == {**program.environment, OWNER_VARIABLE: str(state_dir)}
    assert config.directory == str(tmp_path)
    assert config.stdout_logfile == str(state_dir / "logs" / "training.log")
    assert (config.stopsignal, config.stopwaitsecs, config.startretries) == (2, 7, 2)
    assert config.umask == 0o077
    assert not config.autostart


def test_the_control_socket_is_for_its_owner_only(tmp_path: Path) -> None:
    options = read_back(tmp_path / "state")

    (server,) = options.server_configs
    assert server["file"] == str(tmp_path / "state" / "s.sock")
    assert server["chmod"] == 0o700


@pytest.mark.parametrize(
    "value", ["both ' and \"", "'quoted'", 'ends with "', "two\nlines", "a ; comment", "a # comment"]
)
def test_a_value_that_supervisord_would_change_is_refused_without_being_shown(value: str) -> None:
    program = Program(name="p", command=("true",), environment={"SECRET": value})

    with pytest.raises(LocalStackError, match="SECRET must not") as refused:
        render_program(program, log=Path("/l"), owner=Path("/o"))

    assert value not in str(refused.value)
