"""What users call keeps its names and arguments, wherever it is kept inside.

A change that is meant goes into ``public_names.json``, with
``python tests/base/test_public_names.py > tests/base/public_names.json``, and into CHANGELOG.md.
"""

import inspect
import json
from pathlib import Path

import scorevi

KEPT = Path(__file__).with_name("public_names.json")


def public():
    """Return the public names, each with its arguments, or with what it is if it has none."""
    fit = scorevi.fit(scorevi.Gaussian.standard(2), "gsm", max_gradients=20)
    found = {name: told(getattr(scorevi, name)) for name in scorevi.__all__}
    users_do_not_make = ("Fit", "FitWarning", "Fits", "Sample", "Status", "Step", "Trace")
    found |= dict.fromkeys(users_do_not_make, "class")
    for name in ("examples", "plots"):
        module = getattr(scorevi, name)
        members = getattr(module, "__all__", None) or [
            member
            for member, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__
        ]
        found |= {f"{name}.{m}": told(getattr(module, m)) for m in members if m[0] != "_"}
    things = {
        "Fit": fit,
        "Sample": scorevi.sample(fit, 100, ess=20),
        "Gaussian": fit.q,
        "Mixture": scorevi.Mixture([1.0], [fit.q]),
        "Status": fit.status,
        "Trace": fit.trace,
        "Verdict": fit.check(),
        "GSM": scorevi.GSM(),
        "BaM": scorevi.BaM(),
        "BBVI": scorevi.BBVI(),
        "Replay": scorevi.Replay(),
        "LowRank": scorevi.LowRank.standard(2),
        "LowRankReplay": scorevi.LowRankReplay(),
    }
    for name, thing in things.items():
        inherited = {m for base in type(thing).__mro__ if not ours(base) for m in dir(base)}
        own = set(getattr(type(thing), "_fields", ())) | set(dir(thing)) - inherited
        # What `Fit.load` hands to the constructor is no member for users.
        own -= {member for member in own if member.startswith(("_", "saved_"))}
        found |= {f"{name}.{member}": told(getattr(thing, member)) for member in own}
    return dict(sorted(found.items()))


def ours(cls):
    return cls.__module__.startswith("scorevi")


def told(thing):
    """Return the arguments of what can be called, without types."""
    if inspect.ismodule(thing):
        return "module"
    if not (inspect.isroutine(thing) or (inspect.isclass(thing) and ours(thing))):
        return "attribute"
    try:
        signature = inspect.signature(thing)
    except ValueError:  # made by C, without arguments of its own
        return "class"
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def test_public_names_and_arguments_are_those_of_before():
    kept = json.loads(KEPT.read_text())
    found = public()
    assert sorted(set(kept) - set(found)) == [], "gone"
    new = [name for name in set(found) - set(kept) if "." not in name]
    assert new == [], "new; see the top of this file"
    changed = {name: (kept[name], found[name]) for name in kept if kept[name] != found[name]}
    assert changed == {}


if __name__ == "__main__":
    print(json.dumps(public(), indent=1))
