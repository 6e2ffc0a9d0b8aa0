"""Stan programs to shared libraries, with nothing but pip and a C++ compiler."""

from scorevi.stan.build import compile_stan
from scorevi.stan.toolchain import CompileError

__all__ = ["CompileError", "compile_stan"]
