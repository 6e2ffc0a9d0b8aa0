"""Targets from Stan programs, through BridgeStan's interface.

The programs are compiled to shared libraries with nothing but pip and a C++ compiler.
"""

from scorevi.targets.stan.build import compile_stan
from scorevi.targets.stan.making import from_stan
from scorevi.targets.stan.target import StanTarget
from scorevi.targets.stan.toolchain import CompileError

__all__ = ["CompileError", "StanTarget", "compile_stan", "from_stan"]
