"""Exported queries: any solver can read them, and answers as ours did."""

from __future__ import annotations

from pathlib import Path

import pytest
import z3

import optimus
import verify.prover.task
from tests import small
from verify import prove
from verify.proof import prove_case, prove_general
from verify.prover.solve import confirm
from verify.smtlib import Export, ExportError, Query, asked_for, record, recording
from verify.subject import PatternSubject
from verify.verdict import Proved, Refuted, Unknown, explain


@pytest.fixture
def small_pattern(tmp_path, monkeypatch):
    """Makes the small pattern, with another rewrite."""
    (tmp_path / "code").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    return lambda rewrite="pass": small.write(tmp_path / "code", rewrite=rewrite).Twice()


def queries(folder: Path) -> list[Path]:
    """All files below a folder, which must be queries."""
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    assert all(p.suffix == ".smt2" for p in found)
    return found


def asked(file: Path) -> z3.CheckSatResult:
    """What z3 says of a file."""
    solver = z3.Solver()
    solver.add(z3.parse_smt2_file(str(file)))
    return solver.check()


def test_both_solvers_read_every_query_and_confirm_it(tmp_path):
    name, folder = "remove_split_with_size_one_pass", tmp_path / "deep" / "queries"
    report = prove(optimus.patterns()[name], smt2=folder, edges=False)
    assert isinstance(report.verdict, Proved)
    files = queries(folder)
    assert len(files) == report.verdict.queries == report.verdict.confirmed
    fired = [p.case.name for p in report.parts if p.case.must_fire]
    at_aten = [f"{name}_ATen_{way}" for name in fired for way in ("forward", "backward")]
    assert {f.parent.name for f in files} == {"general", *fired, *at_aten}
    for file in files:
        text = file.read_text()
        assert asked(file) == z3.unsat, file
        assert confirm(text, 20.0) is True, file
        assert f"; rewrite: {name}\n; part: {file.parent.name.replace('_ATen_', ', ATen ')}\n; query: {int(file.stem)}\n; goal: " in text
        assert "; expected: unsat, that is, the goals follow from the premises\n" in text
        assert f"z3 {z3.get_version_string()}, cvc5 " in text
        assert text.count("(set-logic ALL)") == text.count("(set-info :status unsat)") == text.count("(check-sat)") == 1


@pytest.mark.parametrize("name", ["merge_splits_pass", "batch_linear_lhs", "einsum_to_pointwise_pass"])
def test_sums_and_general_rules_are_read_and_confirmed(name, tmp_path):
    subject = PatternSubject(optimus.patterns()[name])
    with recording() as found:
        verdicts = [*prove_case(subject, subject.cases[-1]).verdicts, prove_general(subject)]
    assert all(isinstance(v, Proved) for v in verdicts)
    files = Export(tmp_path, {}).write(name, found)
    assert len(files) == sum(v.queries for v in verdicts)
    for file in files:
        assert asked(file) == z3.unsat, file
        assert confirm(file.read_text(), 20.0) is True, file


def test_sizes_0_and_1_are_exported_under_their_own_names(small_pattern, tmp_path):
    report = prove(small_pattern(), smt2=tmp_path / "q")
    assert isinstance(report.verdict, Proved)
    files = queries(tmp_path / "q")
    assert len(files) == report.verdict.queries
    assert "there_and_back_n=0" in {f.parent.name for f in files}
    assert all(asked(f) == z3.unsat for f in files)


def test_a_refutation_is_exported_as_satisfiable(small_pattern, tmp_path):
    report = prove(small_pattern("found = tx.call(torch.neg, found)"), smt2=tmp_path / "q")
    assert isinstance(report.verdict, Refuted)
    (wrong,) = [f for f in queries(tmp_path / "q" / "twice" / "there_and_back") if "(set-info :status sat)" in f.read_text()]
    assert "; expected: sat, that is, some sizes and elements break a goal" in wrong.read_text()
    assert asked(wrong) == z3.sat
    assert confirm(wrong.read_text(), 20.0) is False


def test_a_disagreement_is_exported_and_says_which_query(small_pattern, tmp_path, monkeypatch):
    monkeypatch.setattr(verify.prover.task, "confirm", lambda text, timeout_s: "(declare-sort T" not in text)
    report = prove(small_pattern(), smt2=tmp_path / "q")
    assert report.parts[0].verdict == Unknown("output 0: the solvers disagree on query 1: cvc5 finds a model where z3 finds none")
    assert "(set-info :status unknown)" in (tmp_path / "q" / "twice" / "there_and_back" / "01.smt2").read_text()


def test_a_second_export_takes_the_place_of_the_first(small_pattern, tmp_path):
    pattern = small_pattern()
    prove(pattern, smt2=tmp_path / "q", edges=False)
    first = {f: f.read_text() for f in queries(tmp_path / "q")}
    (tmp_path / "q" / "twice" / "there_and_back" / "77.smt2").write_text("left from another time")
    prove(pattern, smt2=tmp_path / "q", edges=False)
    assert {f: f.read_text() for f in queries(tmp_path / "q")} == first
    assert [p.name for p in (tmp_path / "q").iterdir()] == ["twice"]


def test_files_that_are_no_queries_are_never_touched(small_pattern, tmp_path):
    mine = tmp_path / "q" / "twice" / "thesis.tex"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(ExportError, match=r"thesis.tex is no query; accepted for .*twice is nothing, or a folder of an earlier export"):
        prove(small_pattern(), smt2=tmp_path / "q")
    assert [p for p in (tmp_path / "q").rglob("*") if p.is_file()] == [mine]


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_proved(small_pattern, tmp_path, folder):
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match=rf"{folder}: cannot be written \((File exists|Not a directory)\); accepted is a folder"):
        prove(small_pattern(), smt2=tmp_path / folder)
    assert (tmp_path / "file").read_text() == ""


def test_what_cannot_be_written_whole_is_not_written(tmp_path, monkeypatch):
    export = Export(tmp_path / "q", {})
    query = Query("case", ("goal",), "unsat", "(check-sat)")
    export.write("rule", [query])
    before = {f: f.read_text() for f in queries(tmp_path / "q")}
    plain = Path.write_text

    def full(path, text):
        if path.name == "02.smt2":
            raise OSError(28, "No space left on device")
        return plain(path, text)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ExportError, match=r"rule: cannot be written \(No space left on device\)"):
        export.write("rule", [Query("case", ("other goal",), "unsat", "(check-sat)")] * 2)
    assert {f: f.read_text() for f in queries(tmp_path / "q")} == before
    assert [p.name for p in (tmp_path / "q").iterdir()] == ["rule"]


def test_names_become_files_anywhere_and_headers_stay_comments(tmp_path):
    with recording() as found:
        for part in ("../../up", "a b", "a_b", "A_B", "", ".hidden", "two\nlines"):
            with asked_for(part):
                record(["first\n(assert false)", "second"], "sat", "(declare-sort T 0)\n(check-sat)\n")
    assert [q.part for q in found][:2] == ["../../up", "a b"]
    files = Export(tmp_path / "q", {"z3": "5"}).write("/etc/\npasswd", found)
    assert len({str(f).lower() for f in files}) == 7
    for file in files:
        assert tmp_path / "q" / "_etc_passwd" == file.parent.parent
        assert confirm(file.read_text(), 5.0) is False
        assert file.read_text().count("; goal: ") == 2
    assert files[0].parent.parent.stat().st_mode == (tmp_path / "q").stat().st_mode


def test_a_proof_without_a_query_says_so():
    assert explain(prove_general(PatternSubject(optimus.patterns()["batch_relu"]))) == "proved (E0), the same term without a query"
