"""Ends with status 0 if a part of Airflow is well; imports no Airflow, for speed."""

import json
import socket
import sys
import urllib.request
from pathlib import Path

part = sys.argv[1]
if part == "worker":
    from celery import Celery

    app = Celery(broker=Path("/run/secrets/airflow-broker-url").read_text())
    sys.exit(not app.control.ping(destination=[f"celery@{socket.gethostname()}"], timeout=20))
with urllib.request.urlopen("http://api-server:8080/api/v2/monitor/health", timeout=20) as answer:
    sys.exit(json.load(answer)[part]["status"] != "healthy")
