"""Libraries with thread pools of their own are held to one thread, on every thread of ours."""

from __future__ import annotations

import subprocess
import sys

ASK = """
import threading
import node.faiss_index, faiss
found = []
for _ in range(2):
    t = threading.Thread(target=lambda: found.append(faiss.omp_get_max_threads()))
    t.start(); t.join()
print(found)
"""


def test_faiss_searches_with_one_thread_on_any_thread() -> None:
    out = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[1, 1]"
