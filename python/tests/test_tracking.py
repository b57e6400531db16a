"""Callbacks that keep numbers where other programs show them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from conftest import QUICK

import fedsim
from fedsim import tracking


def events_of(path: Path) -> "list[bytes]":
    """Read the records of a TFRecord file: length, its checksum, the data, their checksum."""
    out, b = [], path.read_bytes()
    while b:
        (n,) = struct.unpack("<Q", b[:8])
        assert struct.unpack("<I", b[8:12])[0] == tracking._masked(b[:8]) and struct.unpack("<I", b[12 + n : 16 + n])[0] == tracking._masked(b[12 : 12 + n])
        out.append(b[12 : 12 + n])
        b = b[16 + n :]
    return out


def test_the_checksum_is_that_of_the_standard() -> None:
    # RFC 3720, B.4: the CRC-32C of 32 bytes of zeros is aa 36 91 8a; TFRecord rotates it by 15 bits and adds 0xa282ead8.
    crc = int.from_bytes(bytes.fromhex("aa36918a"), "little")
    assert tracking._masked(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_tensorboard(ratings: dict, tmp_path: Path) -> None:
    r = fedsim.run(ratings, "private-item-bias", 5, out=tmp_path, callbacks=[tracking.TensorBoard(tmp_path / "log")], **QUICK)
    (path,) = (tmp_path / "log").iterdir()
    found = events_of(path)
    assert found[0][9:] == b"\x1a\x0dbrain.Event:2"  # file_version
    assert b"epsilon: 5" in found[1]
    last = struct.pack("<f", r.metrics["test_rmse"])
    assert sum(b"rmse\x15" in e for e in found) == r.summary["rounds"] + 1 and b"test_rmse\x15" + last in found[-1]


def test_tensorboard_reads_the_file(ratings: dict, tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    r = fedsim.run(ratings, "private-item-bias", 5, out=tmp_path, callbacks=[tracking.TensorBoard(tmp_path / "log")], **QUICK)
    log = reader.EventAccumulator(str(tmp_path / "log")).Reload()
    assert log.Scalars("test_rmse")[-1].value == pytest.approx(r.metrics["test_rmse"], rel=1e-6)


def test_mlflow(ratings: dict, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    r = fedsim.run(ratings, "private-item-bias", 5, out=tmp_path, callbacks=[tracking.MLflow(run_name="mine")], **QUICK)
    kept = mlflow.search_runs(output_format="list")[0].data
    assert kept.metrics["test_rmse"] == r.metrics["test_rmse"] and kept.params["epsilon"] == "5"


def test_wandb(ratings: dict, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    fedsim.run(ratings, "private-item-bias", 5, out=tmp_path, callbacks=[tracking.WandB(project="fedsim", mode="offline", dir=str(tmp_path))], **QUICK)
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(fedsim.UsageError, match=r"pip install fedsim\[mlflow\]"):
        tracking.MLflow()


def test_a_callback_is_closed_after_an_error(tmp_path: Path) -> None:
    log = tracking.TensorBoard(tmp_path / "log")
    with pytest.raises(fedsim.UsageError):
        fedsim.run("synthetic:small", epsilon=-1, out=tmp_path, callbacks=[log])
    assert log._file is None


def test_notebooks_show_tables(result: fedsim.Result) -> None:
    plan = fedsim.plan("synthetic:small", "private-item-bias", 5)
    for shown in (result, result.model, plan, fedsim.Sweep("runs", [result])):
        assert shown._repr_html_().startswith("<table>") and "fedsim " in shown._repr_html_()
    assert "<script>" not in fedsim._html.description("x", {"<script>": "<script>"})


@pytest.mark.parametrize("call", [
    lambda x: fedsim.run(x, settings={"epsilon": 1}, epsilon=2), lambda x: fedsim.plan(x, settings={"epsilon": 1}, epsilon=2),
    lambda x: fedsim.sweep(x, settings={"epsilon": 1}, epsilon=[1, 2]), lambda x: fedsim.audit(settings={"epsilon": 1}, epsilon=2),
    lambda x: fedsim.run(x, settings={"seed": 1}, seed=2), lambda x: fedsim.run(x, out="a", settings={"out": "b"}), lambda x: fedsim.run(x, settings={"data": "b"}),
    lambda x: fedsim.run(x, "ssp-c", settings={"algorithm": "ease"}), lambda x: fedsim.sweep(x, seeds=[1, 2], seed=3),
])
def test_two_values_are_an_error(call: object, ratings: dict) -> None:
    with pytest.raises(fedsim.UsageError, match="two values") as e:
        call(ratings)  # type: ignore[operator]
    assert e.value.key in ("epsilon", "seed", "out", "data", "algorithm")


def test_settings_of_a_configuration_take_effect(ratings: dict, tmp_path: Path) -> None:
    r = fedsim.run(ratings, settings={"algorithm": "private-item-bias", "epsilon": 1, "split": {"seed": 3}}, out=tmp_path, **QUICK)
    assert r.summary["algorithm"] == "private-item-bias" and r.epsilon == pytest.approx(1, abs=1e-3)
    s = fedsim.sweep(ratings, settings={"algorithm": ["private-item-bias"], "epsilon": [1, 2]}, out=tmp_path / "s", **QUICK)
    assert [round(x.epsilon) for x in s.results] == [1, 2]
