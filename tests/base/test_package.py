"""What is released installs and runs where there is nothing else."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPORT = (
    "import scorevi; fit = scorevi.fit(scorevi.examples.eight_schools()); "
    "print(fit.report('report.html').stat().st_size, scorevi.__file__)"
)


def run(*command, folder):
    """Run a command that sees nothing of this checkout; returns what it prints."""
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_wheel_and_sdist_install_and_run_the_demo_in_a_clean_environment(tmp_path):
    pytest.importorskip("build")
    # The wheel is built from the sdist, as a stranger would.
    run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", ROOT, folder=tmp_path)
    [wheel], [sdist] = ([*(tmp_path / "dist").glob(f"*{end}")] for end in (".whl", ".tar.gz"))
    venv.create(tmp_path / "new", with_pip=True)
    binaries = tmp_path / "new" / ("Scripts" if os.name == "nt" else "bin")
    pip = (binaries / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    for package, options in ((wheel, ()), (sdist, ("--no-deps", "--force-reinstall"))):
        run(*pip, *options, package, folder=tmp_path)
        told = json.loads(run(binaries / "scorevi", "demo", "--json", folder=tmp_path))
        assert told["status"] == "converged"
        assert [row["name"] for row in told["parameters"]][:2] == ["mu", "tau"]
        size, place = run(binaries / "python", "-c", REPORT, folder=tmp_path).split()
        assert int(size) > 20_000  # its style and scripts came along
        assert (tmp_path / "new").resolve() in Path(place).resolve().parents
