"""What the page says without a script: the verdict, facts, the ledger, how to make it again."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Mixture
from scorevi.results.page.data import number
from scorevi.results.saving import known_summary
from scorevi.results.structure import found_in
from scorevi.results.table import HEADINGS, cells, text_of

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_WITHOUT_SCRIPT = 100
_MOST_ENTRIES = 8
_LEVEL_WORDS = {"fail": "against it", "warn": "with care", "undecided": "undecided"}


def sections_of(fit: Fit) -> dict[str, str]:
    """Return the parts of the page that are markup already, by their place in the template."""
    return {
        "word": escape(_word(fit)),
        "verdict": _verdict(fit),
        "facts": _facts(fit),
        "notes": _notes(fit),
        "static_table": _static_table(fit),
        "components": _components(fit),
        "bad_scores": _bad_scores(fit),
        "restarts": _restarts(fit),
        "again": _again(fit),
        "version": escape(fit.version),
    }


def _word(fit: Fit) -> str:
    if not fit.status.ok or fit.num_updates == 0:
        return "fail"
    return "unchecked" if fit.verdict is None else str(fit.verdict)


def _verdict(fit: Fit) -> str:
    word, verdict = _word(fit), fit.verdict
    if verdict is None:
        said = {
            "fail": f"Nothing was fitted. {fit.status.explain()}",
            "unchecked": "Nobody has asked whether to believe this fit. fit.check() does, and so "
            "does scorevi fit unless told not to.",
        }[word]
        return f'<p class="meaning">{escape(said)}</p>'
    reasons = "".join(
        f'<li class="{escape(reason.level)}"><span class="level">'
        f"{escape(_LEVEL_WORDS.get(reason.level, reason.level))}</span> "
        f"<strong>{escape(reason.text)}.</strong> {escape(reason.advice)}</li>"
        for reason in verdict.reasons
    )
    listed = f'<ul class="reasons">{reasons}</ul>' if reasons else ""
    meaning = f'<p class="meaning">{escape(verdict.meaning)}</p>'
    return f'{meaning}{listed}<p class="figures">{_figures(fit)}</p>'


def _figures(fit: Fit) -> str:
    verdict = fit.verdict
    assert verdict is not None
    parts = [f"It cost {verdict.num_evaluations} evaluations of the model."]
    if verdict.khat == -math.inf:
        parts.append("All importance weights are the same.")
    elif not math.isnan(verdict.khat):
        meaning = (
            "that of a few stray draws; others, from wider than the fit, leave no large weight"
            if verdict.is_stray
            else "the tail of the importance weights; below 0.7 they can be relied on"
        )
        parts.append(
            f"<b>k-hat {verdict.khat:.2f}</b>: {meaning}. <b>ESS {verdict.ess:.0%}</b>: so many "
            "of the draws are worth independent ones of the posterior."
        )
    return " ".join(parts)


def _facts(fit: Fit) -> str:
    elbo, error, fisher = fit.quality.elbo, fit.quality.elbo_error, fit.quality.fisher
    facts = {
        "status": f"{fit.status}: {fit.status.cause}",
        "solver": fit.solver,
        "dimensions": f"{fit.dim:,}",
        "cost": f"{fit.num_gradients:,} gradients, {fit.num_updates:,} updates, "
        f"{fit.seconds:.2g} s",
    }
    if found := found_in(fit.q, fit.labels):
        facts["shape"] = found
    if not math.isnan(elbo):
        facts["ELBO"] = f"{elbo:.3f} ± {error:.2g}"
    if fit.quality.known:
        facts["Fisher residual"] = f"{fisher:.3g}, zero where q is the posterior"
    if fit.bad_scores.total:
        facts["bad scores"] = fit.bad_scores.describe()
    return _definitions(facts)


def _notes(fit: Fit) -> str:
    if not fit.notes:
        return ""
    return f'<ul class="notes">{"".join(f"<li>{escape(note)}</li>" for note in fit.notes)}</ul>'


def _static_table(fit: Fit) -> str:
    """Return the first rows, for a browser without scripts."""
    rows = known_summary(fit)[:_WITHOUT_SCRIPT]
    return _table(("parameter", *HEADINGS), [(row.name, *map(text_of, cells(row))) for row in rows])


def _components(fit: Fit) -> str:
    if not isinstance(fit.q, Mixture) or len(fit.q.components) < 2:
        return ""
    order = np.argsort(-fit.q.weights)
    share = [(f"{place + 1}", f"{fit.q.weights[k]:.1%}") for place, k in enumerate(order)]
    return _section(
        "components",
        "Components",
        f"<p>{escape(found_in(fit.q, fit.labels))}. On the unconstrained scale:</p>"
        '<div id="components-pictures" class="two"></div>'
        + _details("weights of the components", _table(("component", "weight"), share)),
    )


def _bad_scores(fit: Fit) -> str:
    bad = fit.bad_scores
    if not bad.total:
        body = "<p>None: every evaluation gave a usable score.</p>"
    else:
        share = bad.total / max(1, fit.num_gradients)
        counts = [(cause, f"{count:,}") for cause, count in bad.counts.most_common()]
        rows = [(one.cause, one.detail, _point(fit.labels, one.point)) for one in bad.examples]
        body = (
            f"<p>{bad.total:,} of {fit.num_gradients:,} evaluations, {share:.1%}, gave no usable "
            "score; they were dropped, counted and drawn again.</p>"
            + _table(("cause", "how often"), counts)
            + _details("the first of them, with their points", _table(("cause", "detail", "point"),
                                                                     rows, "wide"))
        )  # fmt: skip
    return _section("bad-scores", "Ledger of bad scores", body)


def _point(labels: Sequence[str], point: Array) -> str:
    entries = [f"{name} = {value:.4g}" for name, value in zip(labels, point, strict=False)]
    more = f", … {len(entries) - _MOST_ENTRIES} more" if len(entries) > _MOST_ENTRIES else ""
    return ", ".join(entries[:_MOST_ENTRIES]) + more


def _restarts(fit: Fit) -> str:
    if not fit.restarts:
        return ""
    rows = []
    for one in fit.restarts:
        away = float(np.max(np.abs(one.mean - fit.q.mean) / fit.q.sd))
        rows.append((str(one.seed), one.status, text_of(number(one.elbo)), f"{away:.2g} sd"))
    headings = ("seed", "status", "ELBO", "largest distance of a mean")
    return _section("restarts", "Fits from other starts", _table(headings, rows))


def _again(fit: Fit) -> str:
    origin = fit.origin
    parts = []
    if origin.command:
        parts.append(f"<p>On the command line:</p><pre><code>{escape(origin.command)}</code></pre>")
    if origin.call:
        parts.append(f"<p>In Python:</p><pre><code>{escape(origin.call)}</code></pre>")
    facts = {"seed": str(fit.seed), "scorevi": fit.version} | (
        {"made": origin.made} if origin.made else {}
    )
    parts.append(_definitions(facts))
    settings = {name: json.dumps(value) for name, value in origin.settings.items()}
    for heading, told in (("all settings", settings), ("versions", origin.versions)):
        if told:
            parts.append(_details(heading, _definitions(told)))
    if origin.source:
        source = f'<pre class="source"><code>{escape(origin.source)}</code></pre>'
        parts.append(_details("the model", source, open_=True))
    return _section("again", "To make it again", "".join(parts))


def _section(name: str, heading: str, body: str) -> str:
    return f'<section id="{name}"><h2>{escape(heading)}</h2>{body}</section>'


def _details(heading: str, body: str, *, open_: bool = False) -> str:
    state = " open" if open_ else ""
    return f"<details{state}><summary>{escape(heading)}</summary>{body}</details>"


def _definitions(facts: Mapping[str, Any]) -> str:
    entries = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(str(fact))}</dd></div>"
        for name, fact in facts.items()
    )
    return f"<dl>{entries}</dl>"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows
    )
    table = f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'
