"""The peer process: log, projections, index, embedder, service, command line."""

import os

# One thread for matrix products, before numpy is loaded.  They are small, and a pool that spins beside the
# model's own made a product of 64 x 100 x 384 take 16 ms instead of 0.2 on two busy cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# The same for FAISS.  `faiss.omp_set_num_threads` counts for the thread that calls it alone: on a reading thread
# an exact search of 10,000 vectors took 2.2 ms instead of 0.3.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# ONNX Runtime would otherwise write a device id and a database below the user's cache when it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
