"""The parts of the documentation that are made from the code: each stands on its page between two marks."""

from __future__ import annotations

import re
import runpy
from typing import TYPE_CHECKING, Any

import accuracy
import astra_sim
import trn3_over_trn2 as chips
from console import REPOSITORY
from mutations import MUTATIONS

import trnsim
from trnsim import documents
from trnsim.hardware import StarScaleUp, SwitchedScaleUp, TorusScaleUp, load_chip, load_family, load_server, names
from trnsim.hardware.software import REGIMES
from trnsim.results import PART_NAMES
from trnsim.scenario import json_schema
from trnsim.scenario.imports import format_names, vocabulary_of
from trnsim.study.measured_memory import CONVENTIONS, check_memory_rows
from trnsim.study.validation.groups import groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from trnsim.hardware import LinkClass, Server


def marked(name: str) -> re.Pattern[str]:
    """Return the pattern of a part with its marks; the group is what stands between them."""
    return re.compile(rf"(?<=<!-- generated: {name} -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a Markdown table."""
    columns = list(head)
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def scenarios() -> str:
    """Write what each scenario asks and answers, as its header has it."""
    folder = documents.data_folder("scenarios")
    rows = []
    for name in documents.names("scenarios"):
        header = read_header((folder / f"{name}.yaml").read_text(encoding="utf-8"))
        rows.append([f"`{name}`", header["Question"], f"{trnsim.load(name).cluster.chips:,}", header["Answer"]])
    return table(["scenario", "question", "chips", "answer"], rows)


def read_header(text: str) -> dict[str, str]:
    """Read the comment at the top of a scenario: words with a colon, and what follows them over several lines."""
    found: dict[str, str] = {}
    word = ""
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if match := re.match(r"# ([A-Z]\w+): (.*)", line):
            word, found[match[1]] = match[1], match[2]
        elif word:
            found[word] += " " + line.lstrip("# ")
    return found


def scenario_keys() -> str:
    """Write the keys of a scenario file, table by table."""
    schema = json_schema()
    head = ["key", "values", "default", "meaning"]
    top = {key: field for key, field in schema["properties"].items() if _table_of(field) is None}
    parts = [f"### At the top\n\n{table(head, _key_rows('', top, schema['required']))}"]
    for key, field in schema["properties"].items():
        if (name := _table_of(field)) is not None:
            inner = schema["$defs"][name]
            rows = _key_rows(
                f"{key}{'.' if '$ref' in field else '[].'}", inner["properties"], inner.get("required", ())
            )
            parts.append(f"### {key}\n\n{inner['description']}\n\n{table(head, rows)}")
    return "\n".join(parts)


def _table_of(field: dict[str, Any]) -> str | None:
    """Return the name of the table that a key holds, alone or in a list."""
    lists = (choice.get("items", {}) for choice in field.get("anyOf", ()))
    found = next((each["$ref"] for each in (field, *lists) if "$ref" in each), None)
    return None if found is None else str(found).rpartition("/")[2]


def _key_rows(prefix: str, fields: dict[str, Any], required: Iterable[str]) -> Iterator[list[str]]:
    due = set(required)
    for key, field in fields.items():
        default = "due" if key in due else _written(field.get("default", "auto"))  # made anew: no default in the schema
        yield [f"`{prefix}{key}`", _values(field), default, field["description"]]


def _values(field: dict[str, Any]) -> str:
    """Write what a key may be."""
    if "enum" in field:
        return ", ".join(_written(value) for value in field["enum"])
    if "const" in field:
        return _written(field["const"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(_values(each) for each in field["anyOf"] if each.get("type") != "null"))
    if field.get("type") == "array":
        return f"list of {_values(field['items'])}" if "enum" not in field["items"] else "list of axes"
    types = field.get("type", "text")
    words = {"integer": "whole number", "boolean": "true, false", "string": "text", "object": "table"}
    return " or ".join(words.get(each, each) for each in ([types] if isinstance(types, str) else types))


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)


def imports() -> str:
    """Write what the keys of other tools mean, format by format."""
    parts = []
    for name in format_names():
        keys = vocabulary_of(name)
        rows = ([f"`{key}`", f"`{known.to}`" if known.to else ""] for key, known in keys.keys.items())
        left_out = ([f"`{key}`", what] for key, what in sorted(keys.not_modelled.items()))
        parts.append(
            f"### {name}\n\n{table(['key', 'scenario key'], rows)}\nUnderstood and left out, with all keys that begin so:"
            f"\n\n{table(['key', 'what is not modelled'], left_out)}"
        )
    return "\n".join(parts)


def families() -> str:
    """Write the constants of the software families that a run computes with."""
    head = [
        "family",
        "GEMM efficiency",
        "attention time",
        "backward",
        "HBM efficiency",
        "bytes",
        "host",
        "collective skew",
        "scale skew j",
        "interference",
        "overlap",
    ]
    rows = []
    for name in names("families"):
        family = load_family(name)
        rows.append(
            [
                f"`{name}`",
                f"{family.gemm_efficiency.value:g} ({family.gemm_efficiency.kind})",
                f"{family.attention_time_ratio.value:g}",
                f"{family.attention_backward_ratio.value:g}" if family.attention_backward_ratio else "",
                f"{family.memory_efficiency.value:g}",
                family.byte_term,
                f"{family.host_layer_s.value * 1e3:g} ms",
                f"{family.collective_skew_s.value * 1e6:g} us",
                f"{family.scale_skew_fraction.value:g}",
                f"{family.interference_fraction.value:g}" if family.interference_fraction else "",
                family.data_parallel_overlap,
            ]
        )
    return table(head, rows)


def fits() -> str:
    """Write what was fitted of each software family, to how many rows, and how far off its steps are."""
    rows = []
    for family in map(load_family, names("families")):
        errors = (f"{regime} {100 * error.value:.1f} %" for regime, error in family.errors.items())
        rows.append([f"`{family.name}`", ", ".join(family.fitted), str(family.measured_rows), "; ".join(errors)])
    return table(["family", "fitted", "measured rows", "mean error by regime"], rows)


def catalog_chips() -> str:
    """Write the chips of the catalog."""
    head = ["chip", "maker", "bf16, TFLOP/s", "fp8, TFLOP/s", "HBM, GiB", "HBM, TB/s", "default family"]
    rows = []
    for name in names("chips"):
        chip = load_chip(name)
        fp8 = chip.peak_flops_per_s.get("fp8")
        rows.append(
            [
                f"`{name}`",
                chip.maker,
                f"{chip.peak_flops_per_s['bf16'].value / 1e12:,g}",
                f"{fp8.value / 1e12:,g}" if fp8 else "",
                f"{chip.memory_bytes.value / 2**30:.3g}",
                f"{chip.memory_bandwidth_bytes_per_s.value / 1e12:.3g}",
                f"`{chip.software_family}`",
            ]
        )
    return table(head, rows)


def catalog_servers() -> str:
    """Write the servers of the catalog; bandwidths are a chip's, per direction, as on the datasheet."""
    head = ["server", "chips", "scale-up", "links, GB/s", "achieved", "chips a host", "scale-out a chip"]
    rows = []
    for name in names("servers"):
        server, out = load_server(name), load_server(name).scale_out
        links = dict.fromkeys(_link_classes(server))
        way_out = (
            f"{out.kind}, {out.bandwidth_bytes_per_s.value * 8 / 1e9:g} Gbit/s x {out.achieved_fraction.value:g}"
            if out
            else ""
        )
        rows.append(
            [
                f"`{name}`",
                f"{server.chips} x `{server.chip.name}`",
                type(server.scale_up).__name__.removesuffix("ScaleUp").lower(),
                ", ".join(f"{link.bandwidth_bytes_per_s.value / 1e9:g}" for link in links),
                ", ".join(dict.fromkeys(f"{link.achieved_fraction.value:g}" for link in links)),
                f"{server.chips_per_host}",
                way_out,
            ]
        )
    return table(head, rows)


def _link_classes(server: Server) -> tuple[LinkClass, ...]:
    match server.scale_up:
        case TorusScaleUp(links=links):
            return links
        case SwitchedScaleUp(sled=sled, rack=rack, cross=cross):
            return (sled, rack, cross)
        case StarScaleUp(switch=switch):
            return (switch,)
        case _:
            return ()


def inputs() -> str:
    """Write in which numbers the two clusters differ."""
    trn2, trn3 = (chips.load(name, "bf16").cluster for name in ("trn2-cluster", "trn3-cluster"))
    rows = [
        ["UltraServers x chips", *(f"{each.servers} x {each.server.chips}" for each in (trn2, trn3)), ""],
        _input("bf16 peak, TFLOP/s", [each.server.chip.peak_flops_per_s["bf16"].value / 1e12 for each in (trn2, trn3)]),
        _input("fp8 peak, TFLOP/s", [each.server.chip.peak_flops_per_s["fp8"].value / 1e12 for each in (trn2, trn3)]),
        _input("HBM, TB/s", [each.server.chip.memory_bandwidth_bytes_per_s.value / 1e12 for each in (trn2, trn3)]),
        _input("HBM, GiB", [each.server.chip.memory_bytes.value / 2**30 for each in (trn2, trn3)]),
        ["NeuronLink, GB/s a link and direction", *(_links(each.server) for each in (trn2, trn3)), ""],
        _input("hosts", [float(each.hosts) for each in (trn2, trn3)]),
        _input("GEMM efficiency", [each.software.gemm_efficiency.value for each in (trn2, trn3)]),
    ]
    return table(["", "Trainium2", "Trainium3", "ratio"], rows)


def _input(name: str, values: list[float]) -> list[str]:
    return [name, *(f"{value:,g}" for value in values), f"{values[1] / values[0]:.3f}"]


def _links(server: Server) -> str:
    scale_up: Any = server.scale_up
    links = (
        dict.fromkeys(scale_up.links) if hasattr(scale_up, "links") else (scale_up.sled, scale_up.rack, scale_up.cross)
    )
    return ", ".join(f"{link.kind} {link.bandwidth_bytes_per_s.value / 1e9:g}" for link in links)


def causes() -> str:
    """Write what each cause does to tokens per second and chip."""
    columns = (f"{p}, {column}" for p in chips.PRECISIONS for column in ("tokens/s per chip", "factor"))
    head = ["Trainium2 cluster, with in addition", *columns]
    rates = {p: [r.step.tokens_per_s / r.cluster.chips for r in chips.chain(p)] for p in chips.PRECISIONS}
    gains = {p: ("", *(f"x {factor:.4f}" for factor in chips.factors(p))) for p in chips.PRECISIONS}
    rows = [
        [cause, *(cell for p in chips.PRECISIONS for cell in (f"{rates[p][number]:.2f}", gains[p][number]))]
        for number, cause in enumerate(chips.CAUSES)
    ]
    whole = ["all of it: `trn3-cluster` over `trn2-cluster`"]
    whole += [cell for p in chips.PRECISIONS for cell in ("", f"**x {chips.speedup(p):.4f}**")]
    return table(head, [*rows, whole])


def parts() -> str:
    """Write the parts of the step on both clusters."""
    head = ["part", *(f"{p}, {column}" for p in chips.PRECISIONS for column in ("Trn2", "Trn3", "ratio"))]
    found = {
        p: [chips.simulate(name, p).step.breakdown_s.parts() for name in ("trn2-cluster", "trn3-cluster")]
        for p in chips.PRECISIONS
    }
    rows = [
        [word, *(cell for p in chips.PRECISIONS for cell in _part(*(each[part] for each in found[p])))]
        for part, word in PART_NAMES.items()
        if any(each[part] for p in chips.PRECISIONS for each in found[p])
    ]
    whole = [[sum(each.values()) for each in found[p]] for p in chips.PRECISIONS]
    return table(head, [*rows, ["**step**", *(cell for each in whole for cell in _part(*each))]])


def _part(trn2_s: float, trn3_s: float) -> tuple[str, str, str]:
    return f"{trn2_s:.3f} s", f"{trn3_s:.3f} s", f"{trn3_s / trn2_s:.3f}" if trn2_s else ""


def collectives() -> str:
    """Write how the tensor-parallel collectives are done."""
    head = ["cluster", "collective", "algorithm", "buffer", "time alone", "bus bandwidth", "times a step"]
    rows = [
        [
            name,
            use.op,
            use.algorithm,
            f"{use.bytes / 2**20:.0f} MiB",
            f"{use.time_s * 1e6:,.0f} us",
            f"{use.busbw_bytes_per_s / 1e9:.0f} GB/s",
            f"{use.count:,}",
        ]
        for name, cluster in (("Trn2", "trn2-cluster"), ("Trn3", "trn3-cluster"))
        for use in chips.simulate(cluster, "bf16").collectives
        if use.axis == "tp"
    ]
    return table(head, rows)


def what_ifs() -> str:
    """Write the ratio under other assumptions."""
    cases: list[tuple[str, tuple[str, ...], bool]] = [
        ("as above", (), True),
        ("no skew on either (`--set run.skew=off`)", ("run.skew=off",), True),
        (
            "Trainium3 with the lower link rates (`cluster.server=trn3-gen2-ultraserver@pessimistic`)",
            ("cluster.server=trn3-gen2-ultraserver@pessimistic",),
            False,
        ),
        (
            "Trainium3 with `training.recompute=selective`, for which Trainium2 has too little memory",
            ("training.recompute=selective",),
            False,
        ),
    ]
    rows = [
        [words, *(f"{chips.speedup(p, *overrides, of_both=both):.3f}" for p in chips.PRECISIONS)]
        for words, overrides, both in cases
    ]
    return table(["tokens/s per chip, Trainium3 over Trainium2", *chips.PRECISIONS], rows)


def astra_sim_table() -> str:
    """Write what ASTRA-sim answers to a ring, what its formula says, and what the links allow."""
    head = ["ranks", "ASTRA-sim", "its formula", "trnsim, same links", "ASTRA-sim's wall time", "its memory"]
    rows = [
        [
            f"{answer.ranks:,}",
            f"{answer.time_s * 1e3:.3f} ms",
            f"{astra_sim.formula_s(answer.ranks) * 1e3:.3f} ms",
            f"{astra_sim.trnsim_s(answer.ranks) * 1e3:.3f} ms",
            f"{answer.wall_s:g} s",
            f"{answer.memory_mb} MB",
        ]
        for answer in astra_sim.ANSWERS
    ]
    return table(head, rows)


def measured_sets() -> str:
    """Write the errors of measured steps, set by set, beside the baseline and what others state."""
    head = ["set", "rows", "simulated", "mean", "median", "max", "bias", "baseline", "peers"]
    return table(head, [_set_cells(name, found) for name, found in accuracy.stated("whole").items()])


def _set_cells(name: str, found: dict[str, Any]) -> list[str]:
    group = groups().get(name)
    peers = ", ".join(f"{peer} {its.mape_percent:g}" for peer, its in group.peers.items()) if group else ""
    baseline = found["baseline_mape_percent"]
    errors = [f"{found[f'{each}_percent']:.1f}" for each in ("mape", "median", "max")]
    ends = [f"{found['bias_percent']:+.1f}", "-" if baseline is None else f"{baseline:.1f}", peers]
    return [name, f"{found['rows']}", f"{found['simulated']}", *errors, *ends]


def measured_regimes() -> str:
    """Write the mean error of each set by regime, and its rows."""
    rows = [
        [
            name,
            *("{1:.1f} ({0})".format(*found["regimes"][each]) if each in found["regimes"] else "" for each in REGIMES),
        ]
        for name, found in accuracy.stated("whole").items()
    ]
    return table(["set", *REGIMES], rows)


def measured_collectives() -> str:
    """Write how far off measured collectives are, network by network."""
    benchmark = runpy.run_path(str(REPOSITORY / "benchmarks" / "collectives.py"))
    return str(benchmark["summary"](benchmark["check"](benchmark["rows"]())))


def measured_memory() -> str:
    """Write how far off measured memory is, set by set, and under which convention."""
    head = ["set", "rows", "mean error", "worst", "convention"]
    checked = check_memory_rows()
    rows = [
        [name, *_errors([each.error for each in checked if each.row.group == name]), convention.words]
        for name, convention in CONVENTIONS.items()
    ]
    return table(head, [*rows, ["all", *_errors([each.error for each in checked]), ""]])


def _errors(errors: list[float]) -> tuple[str, str, str]:
    mean = sum(map(abs, errors)) / len(errors)
    return f"{len(errors)}", f"{mean * 100:.1f} %", f"{max(errors, key=abs) * 100:+.1f} %"


def mutations() -> str:
    """Write what is broken on purpose, and which test notices."""
    rows = ([each.breaks, f"`{each.file}`", f"`{each.test.partition('::')[2]}`"] for each in MUTATIONS)
    return table(["what is broken", "in trnsim/", "which test fails"], rows)


SECTIONS: dict[tuple[str, str], Callable[[], str]] = {
    ("docs/scenarios.md", "scenarios"): scenarios,
    ("docs/scenario-files.md", "keys"): scenario_keys,
    ("docs/importing.md", "imports"): imports,
    ("docs/model.md", "families"): families,
    ("docs/machines.md", "chips"): catalog_chips,
    ("docs/machines.md", "servers"): catalog_servers,
    ("docs/collectives.md", "astra-sim"): astra_sim_table,
    ("docs/accuracy.md", "sets"): measured_sets,
    ("docs/accuracy.md", "regimes"): measured_regimes,
    ("docs/accuracy.md", "fits"): fits,
    ("docs/accuracy.md", "collectives"): measured_collectives,
    ("docs/accuracy.md", "memory"): measured_memory,
    ("docs/proofs.md", "mutations"): mutations,
    ("docs/trn2-against-trn3.md", "inputs"): inputs,
    ("docs/trn2-against-trn3.md", "causes"): causes,
    ("docs/trn2-against-trn3.md", "parts"): parts,
    ("docs/trn2-against-trn3.md", "collectives"): collectives,
    ("docs/trn2-against-trn3.md", "what-ifs"): what_ifs,
}
"""Page and name of each generated part, and the function that writes it."""


def page_of(page: str) -> Path:
    """Return the file of a page."""
    return REPOSITORY / page
