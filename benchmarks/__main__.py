"""Run all benchmarks, or those named on the command line.

One thread is set here, before NumPy is loaded.
"""

import os
import sys

for variable in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{variable}_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

from benchmarks import (  # noqa: E402
    beside,
    compiled_chains,
    faults,
    gsm,
    hand_over,
    hierarchies,
    large,
    many,
    numpyro,
    nuts,
    own_time,
    pymc,
    readme,
    report,
    sampling,
    shards,
    solvers,
    stan,
    stopping,
)

BENCHMARKS = {
    "speed": gsm.speed,
    "growth": gsm.growth,
    "memory": gsm.memory,
    "gradients": gsm.gradients,
    "solvers": solvers.table,
    "later": solvers.later,
    "clock": solvers.clock,
    "settle": solvers.settle,
    "faults": faults.table,
    "hierarchies": hierarchies.suite,
    "beside": beside.beside,
    "raw-units": hierarchies.raw_units,
    "starts": hierarchies.starts,
    "hierarchies-others": hierarchies.others,
    "stopping": stopping.stopping,
    "own-time": own_time.few_dimensions,
    "many-dimensions": own_time.many_dimensions,
    "large": large.large,
    "against-nuts": nuts.against_nuts,
    "sampling": sampling.sampling,
    "sampling-quick": sampling.sampling_quick,
    "sampling-accuracy": sampling.sampling_accuracy,
    "sampling-hard": sampling.sampling_hard,
    "compiled-chains": compiled_chains.compiled_chains,
    "hand-over": hand_over.hand_over,
    "stan": stan.overhead,
    "stan-compile": stan.compiling,
    "numpyro": numpyro.overhead,
    "pymc": pymc.pymc_overhead,
    "readme": readme.readme,
    "report": report.opening,
    "shards": shards.shards,
    "shards-overhead": shards.overhead,
    "many-fits": many.many_fits,
    "restarts": many.restarts,
}


def main() -> None:
    """Run what was asked for."""
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    for name in names:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main()
