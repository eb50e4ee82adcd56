"""
Run many gcloud command lines in one process, with gcloud's own Python.

Starting gcloud takes longer than all of them.

Reads a JSON list of word lists from standard input; writes a line ``::STATUS`` after what each of them
printed.
"""

import json
import sys

import gcloud  # of the SDK's lib folder: puts the SDK's own libraries in front
from googlecloudsdk.gcloud_main import CreateCLI

if __name__ == "__main__":
    gcloud._fix_google_module()
    cli = CreateCLI([])
    for words in json.load(sys.stdin):
        status = 0
        try:
            cli.Execute(words)
        except SystemExit as ended:
            status = int(ended.code or 0)
        print(f"\n::{status}", flush=True)
