"""Stan programs to shared libraries, with nothing but pip and a C++ compiler."""

from scorevi.targets.stan.build import compile_stan
from scorevi.targets.stan.toolchain import CompileError

__all__ = ["CompileError", "compile_stan"]
