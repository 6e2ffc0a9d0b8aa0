"""Many fits, as tasks on a Dask cluster: what is finished is on disk, and never computed again."""

from scorevi.many.fits import Fits
from scorevi.many.running import fit_many

__all__ = ["Fits", "fit_many"]
