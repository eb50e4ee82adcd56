"""The process leaves in time, also where the service does not stop."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.support.speed import scaled
from tests.support.waiting import wait_until

HANGS = """
import threading
import uvicorn
from training_service import stopping

stopping.LEAVE_SECONDS = 0.5
never = threading.Event()

async def app(scope, receive, send):
    while True:
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            never.wait()
        await send({"type": f"{message['type']}.complete"})

threading.Thread(target=never.wait).start()
print("starts", flush=True)
config = uvicorn.Config(app, port=0, log_level="info")
stopping.StoppableServer(config).run_until_told()
"""


def test_a_process_whose_shutdown_hangs_leaves_when_its_time_is_over() -> None:
    with subprocess.Popen([sys.executable, "-c", HANGS], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        wait_until(lambda: "running on" in process.stderr.readline(), "it serves")  # type: ignore[union-attr]

        process.send_signal(signal.SIGTERM)

        assert process.wait(scaled(60)) == 0
