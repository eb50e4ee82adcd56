"""A program that runs out of memory in a way that every engine sees."""

from __future__ import annotations

#: A child fills the memory, and the program ends with its status, 137, two seconds later. A kill of a
#: container's only process is not always seen: containerd drops the kernel's notice if the container's
#: control group is gone by then [containerd: pkg/oom/v1, process]. That was 1 of 120 containers beside 16
#: busy processes on two cores (Engine 20.10.24), and none of 360 with this program.
FULL_MEMORY = """
import subprocess, sys, time
fill = "held = [bytearray(16 << 20) for _ in range(128)]"
killed = subprocess.run([sys.executable, "-c", fill])
time.sleep(2)
sys.exit(128 - killed.returncode)
"""
