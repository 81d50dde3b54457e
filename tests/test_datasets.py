"""Images of the package, and complete sets from official files, converted files, or a download."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import os
import struct
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pooch  # type: ignore[import-untyped]
import pytest
from numpy.typing import NDArray

from slgh.paper.networks import datasets as module
from slgh.paper.networks.datasets import DATASETS, ImageSet, shipped_images
from slgh.paper.networks.image_files import load_images

every_set = pytest.mark.parametrize("name", ["mnist", "cifar10"])


# Images of the package


@every_set
def test_a_hundred_images_come_with_the_package(name: str) -> None:
    shipped = shipped_images(name)
    assert len(shipped) == 100
    assert shipped.images.shape == (100, *DATASETS[name].shape)
    assert shipped.images.dtype == np.uint8
    assert (np.diff(shipped.ids) > 0).all()
    assert set(shipped.labels) == set(range(10))


def test_the_networks_classify_the_shipped_images_correctly() -> None:
    assert shipped_images("mnist").ids.tolist() == list(range(100))
    wrong = set(range(124)) - set(shipped_images("cifar10").ids.tolist())
    assert len(wrong) == 24
    assert {2, 15, 115} <= wrong


def test_the_labels_are_the_official_ones() -> None:
    """The first ten labels of both test sets, as published."""
    assert shipped_images("mnist").labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    ten = shipped_images("cifar10").take([0, 1, 3, 4, 5, 6, 7, 8, 9])
    seen = [DATASETS["cifar10"].classes[label] for label in ten.labels]
    assert seen == ["cat", "ship", "airplane", "frog", "frog", "automobile", "frog", "cat", "automobile"]


def test_the_channels_come_first_and_in_the_order_red_green_blue() -> None:
    """The ship of image 1 lies in blue water. A digit is bright in the middle and black at the edge."""
    red, _, blue = shipped_images("cifar10").take(1).images[0].astype(float).mean(axis=(1, 2))
    assert blue > red
    digits = shipped_images("mnist").images[:, 0]
    assert digits[:, 10:18, 10:18].mean() > 80
    assert digits[:, :2].max() == 0


def test_the_origin_of_the_images_is_shipped_with_them() -> None:
    text = files("slgh.paper.networks").joinpath("shipped", "README.md").read_text(encoding="utf-8")
    for words in ("LeCun and C. Cortes, CC BY-SA 3.0", "A. Krizhevsky", "2009"):
        assert words in text


# ImageSet


def test_pixels_lie_between_minus_a_half_and_a_half() -> None:
    every = np.resize(np.arange(256, dtype=np.uint8), (1, 1, 28, 28))
    pixels = ImageSet(name="mnist", images=every, labels=np.array([0]), ids=np.array([0])).pixels()
    assert pixels.dtype == np.float32
    assert pixels.shape == (1, 1, 28, 28)
    assert (pixels.min(), pixels.max()) == (-0.5, 0.5)
    assert np.allclose(pixels, every / 255 - 0.5, atol=1e-7)


def test_take_picks_by_id_in_the_order_asked_for() -> None:
    shipped = shipped_images("cifar10")
    taken = shipped.take([39, 3, 104])
    assert taken.ids.tolist() == [39, 3, 104]
    for k, each in enumerate(taken.ids):
        place = shipped.ids.tolist().index(each)
        assert np.array_equal(taken.images[k], shipped.images[place])
        assert taken.labels[k] == shipped.labels[place]
    assert len(shipped.take([])) == 0


def test_take_names_the_ids_that_are_not_there() -> None:
    shipped = shipped_images("cifar10")
    rule = r"`ids` must be among those of these 100 images, which lie between 0 and 123; "
    with pytest.raises(ValueError, match=rule + r"115 is not. `load_images\('cifar10'\)` has the full set"):
        shipped.take([39, 115])
    with pytest.raises(ValueError, match=rule + "2, -1 are not"):
        shipped.take([2, 3, -1])
    with pytest.raises(ValueError, match=rule + r"1000, 1001, .*, 1009, \.\.\. are not"):
        shipped.take(range(1000, 2000))
    with pytest.raises(TypeError, match="`ids` must be integers, got list"):
        shipped.take([1.5])
    with pytest.raises(ValueError, match="`ids` must be distinct"):
        shipped.take([1, 1])


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"name": "imagenet"}, ValueError, "`name` must be one of 'mnist', 'cifar10'"),
        (
            {"images": np.zeros((2, 1, 28, 28), np.float32)},
            TypeError,
            "`images` must be .* uint8, 0 to 255; got float32",
        ),
        ({"images": [[1]]}, TypeError, "`images` must be a NumPy array of uint8.* got list"),
        ({"images": np.zeros((2, 28, 28, 1), np.uint8)}, ValueError, r"\(N, 1, 28, 28\), channels first; got \(2, 28"),
        ({"labels": np.array([0])}, ValueError, r"`labels` must be one per image, shape \(2,\); got \(1,\)"),
        ({"labels": np.array([0, 10])}, ValueError, "`labels` must lie in 0 to 9, got 10"),
        ({"labels": np.array([-1, 0])}, ValueError, "`labels` must lie in 0 to 9, got -1"),
        ({"labels": np.array([0.0, 1.0])}, TypeError, "`labels` must be .* integers; got float64"),
        ({"ids": np.array([3, 3])}, ValueError, "`ids` must be distinct"),
        ({"ids": np.array([-1, 3])}, ValueError, "`ids` must be .* not negative"),
        ({"ids": np.array([3])}, ValueError, "`ids` must be 2 integers"),
    ],
)
def test_an_image_set_checks_what_it_is_given(change: dict[str, Any], error: type[Exception], match: str) -> None:
    good: dict[str, Any] = {
        "name": "mnist",
        "images": np.zeros((2, 1, 28, 28), np.uint8),
        "labels": np.array([0, 9]),
        "ids": np.array([4, 5]),
    }
    ImageSet(**good)
    with pytest.raises(error, match=match):
        ImageSet(**good | change)


# Complete sets. Their files are written here in the official format, with fewer images.

SIZES = {"test": 20, "train": 30}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, dataset in DATASETS.items():
        monkeypatch.setitem(DATASETS, name, replace(dataset, sizes=SIZES))


def made_up(name: str, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    rng = np.random.default_rng(len(name + split))
    n = SIZES[split]
    return rng.integers(0, 256, (n, *DATASETS[name].shape), np.uint8), rng.integers(0, 10, n, np.uint8)


def idx(array: NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def official(name: str, split: str) -> dict[str, bytes]:
    """Return the content of the official files of a split, by name."""
    images, labels = made_up(name, split)
    if name == "mnist":
        stem = "t10k" if split == "test" else "train"
        return {f"{stem}-images-idx3-ubyte": idx(images[:, 0]), f"{stem}-labels-idx1-ubyte": idx(labels)}
    records = np.concatenate([labels[:, None], images.reshape(len(images), -1)], axis=1)
    if split == "test":
        return {"test_batch.bin": records.tobytes()}
    return {f"data_batch_{k + 1}.bin": part.tobytes() for k, part in enumerate(np.split(records, 5))}


def archive(contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for file, content in ({"batches.meta.txt": b"airplane\n"} | contents).items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{file}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def unpacked(folder: Path, name: str, split: str) -> None:
    for file, content in official(name, split).items():
        (folder / file).write_bytes(content)


def packed(folder: Path, name: str, split: str) -> None:
    if name == "mnist":
        for file, content in official(name, split).items():
            (folder / f"{file}.gz").write_bytes(gzip.compress(content))
    else:
        both = official(name, "train") | official(name, "test")
        (folder / "cifar-10-binary.tar.gz").write_bytes(archive(both))


def in_subfolder(folder: Path, name: str, split: str) -> None:
    """Write the files as the archive of CIFAR-10 unpacks."""
    home = folder / "cifar-10-batches-bin" if name == "cifar10" else folder
    home.mkdir(exist_ok=True)
    unpacked(home, name, split)


def npz(folder: Path, name: str, split: str) -> None:
    images, labels = made_up(name, split)
    x = images[:, 0] if name == "mnist" else images.transpose(0, 2, 3, 1)
    np.savez_compressed(folder / f"{name}_{split}.npz", x=x, y=labels)


@every_set
@pytest.mark.parametrize("split", ["test", "train"])
@pytest.mark.parametrize("layout", [unpacked, packed, in_subfolder, npz])
def test_a_folder_is_read_in_every_layout(name: str, split: str, layout: Any, tmp_path: Path, few: None) -> None:
    layout(tmp_path, name, split)
    images, labels = made_up(name, split)
    found = load_images(name, split, tmp_path)
    assert np.array_equal(found.images, images)
    assert np.array_equal(found.labels, labels)
    assert found.ids.tolist() == list(range(SIZES[split]))
    assert found.name == name


@every_set
def test_a_folder_without_the_files_says_which_lack(name: str, tmp_path: Path) -> None:
    lacking = {
        "mnist": r"lacks t10k-images-idx3-ubyte\(.gz\) and t10k-labels-idx1-ubyte\(.gz\)",
        "cifar10": r"lacks cifar-10-binary.tar.gz or test_batch.bin \(the Python version is not read: a pickle\)",
    }
    with pytest.raises(FileNotFoundError, match=r"`folder` must hold the official test files of .*" + lacking[name]):
        load_images(name, "test", tmp_path)
    with pytest.raises(FileNotFoundError, match="`folder` must be a folder"):
        load_images(name, "test", tmp_path / "none")


def test_one_file_of_several_that_lacks_is_named(tmp_path: Path, few: None) -> None:
    unpacked(tmp_path, "mnist", "test")
    unpacked(tmp_path, "cifar10", "train")
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    (tmp_path / "data_batch_4.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks t10k-labels-idx1-ubyte\(.gz\)\."):
        load_images("mnist", "test", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"lacks data_batch_4.bin\."):
        load_images("cifar10", "train", tmp_path)


def test_an_unknown_set_or_split_lists_the_choices() -> None:
    with pytest.raises(ValueError, match="`name` must be one of 'mnist', 'cifar10'"):
        load_images("cifar100")
    with pytest.raises(ValueError, match="`name` must be one of 'mnist', 'cifar10'"):
        shipped_images("cifar100")
    with pytest.raises(ValueError, match="`split` must be one of 'test', 'train'"):
        load_images("mnist", "validation")


@every_set
@pytest.mark.parametrize("layout", [unpacked, packed, npz])
@pytest.mark.parametrize("cut", [0, 3, 0.5, -1])
def test_a_file_that_is_cut_short_is_refused(name: str, layout: Any, cut: float, tmp_path: Path, few: None) -> None:
    layout(tmp_path, name, "test")
    file = sorted(tmp_path.iterdir())[0]
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * cut) if cut == 0.5 else int(cut)])
    with pytest.raises(ValueError, match=rf"`folder` holds a wrong or damaged file, '.*{file.name}"):
        load_images(name, "test", tmp_path)


@every_set
@pytest.mark.parametrize("layout", [unpacked, packed])
def test_a_file_that_is_too_long_is_refused(name: str, layout: Any, tmp_path: Path, few: None) -> None:
    real = official(name, "test")
    longer = {file: content + b"\x00" for file, content in real.items()}
    if layout is unpacked:
        for file, content in longer.items():
            (tmp_path / file).write_bytes(content)
    elif name == "mnist":
        for file, content in longer.items():
            (tmp_path / f"{file}.gz").write_bytes(gzip.compress(content))
    else:
        (tmp_path / "cifar-10-binary.tar.gz").write_bytes(archive(longer))
    with pytest.raises(ValueError, match=r"it must have [\d,]+ bytes unpacked, it has more"):
        load_images(name, "test", tmp_path)


@pytest.mark.parametrize("at", range(16))
def test_no_byte_of_an_idx_header_may_differ(at: int, tmp_path: Path, few: None) -> None:
    unpacked(tmp_path, "mnist", "test")
    file = tmp_path / "t10k-images-idx3-ubyte"
    content = bytearray(file.read_bytes())
    content[at] ^= 255
    file.write_bytes(content)
    with pytest.raises(
        ValueError, match="t10k-images-idx3-ubyte': it must begin with 00000803 00000014 0000001c 0000001c"
    ):
        load_images("mnist", "test", tmp_path)


def test_labels_and_images_that_are_exchanged_are_refused(tmp_path: Path, few: None) -> None:
    unpacked(tmp_path, "mnist", "test")
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes((tmp_path / "t10k-images-idx3-ubyte").read_bytes())
    with pytest.raises(ValueError, match="it must begin with 00000801 00000014, got '00000803 00000014'"):
        load_images("mnist", "test", tmp_path)


@every_set
@pytest.mark.parametrize("layout", [unpacked, npz])
def test_labels_outside_their_range_are_refused(
    name: str, layout: Any, tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, labels = made_up(name, "test")
    labels[7] = 77
    monkeypatch.setitem(globals(), "made_up", lambda name, split: (images, labels))
    layout(tmp_path, name, "test")
    with pytest.raises(ValueError, match=r"holds a wrong test set of .*`labels` must lie in 0 to 9, got 77"):
        load_images(name, "test", tmp_path)


def test_an_archive_without_the_batch_is_refused(tmp_path: Path, few: None) -> None:
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(archive({}))
    with pytest.raises(ValueError, match=r"there is no cifar-10-batches-bin/test_batch.bin in it"):
        load_images("cifar10", "test", tmp_path)


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ({"x": np.zeros((20, 28, 28), np.uint8)}, r"not a complete .npz with x and y \(.*y"),
        ({"x": np.array([None] * 20), "y": np.zeros(20, np.uint8)}, "not a complete .npz with x and y .*allow_pickle"),
        ({"x": np.zeros((20, 784), np.uint8), "y": np.zeros(20, np.uint8)}, r"x has shape \(20, 784\)"),
        ({"x": np.zeros((20, 32, 32), np.uint8), "y": np.zeros(20, np.uint8)}, r"must have shape \(N, 1, 28, 28\)"),
        ({"x": np.zeros((20, 28, 28)), "y": np.zeros(20, np.uint8)}, "`images` must be .* uint8.* got float64"),
        ({"x": np.zeros((20, 28, 28), np.uint8), "y": np.zeros(20)}, "`labels` must be .* integers; got float64"),
        ({"x": np.zeros((20, 28, 28), np.uint8), "y": np.zeros(19, np.uint8)}, r"shape \(20,\); got \(19,\)"),
        ({"x": np.zeros((19, 28, 28), np.uint8), "y": np.zeros(19, np.uint8)}, "must hold all 20 test images.* got 19"),
    ],
)
def test_an_npz_with_other_arrays_is_refused(arrays: dict[str, Any], match: str, tmp_path: Path, few: None) -> None:
    np.savez(tmp_path / "mnist_test.npz", **arrays)
    with pytest.raises(ValueError, match=f"`folder` .*{match}"):
        load_images("mnist", "test", tmp_path)


def test_an_npz_that_promises_more_than_memory_holds_is_refused(tmp_path: Path, few: None) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 1 << 10, 28)}
    )
    with zipfile.ZipFile(tmp_path / "mnist_test.npz", "w") as file:
        file.writestr("x.npy", header.getvalue())
        file.writestr("y.npy", header.getvalue())
    with pytest.raises(ValueError, match="`folder` holds a wrong or damaged file"):
        load_images("mnist", "test", tmp_path)


# Downloads from a local server


@pytest.fixture
def home(tmp_path: Path, few: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder that sets are downloaded from, with the true checksums of the files."""
    served = tmp_path / "served"
    served.mkdir()
    for name, split in (("mnist", "test"), ("cifar10", "test")):
        packed(served, name, split)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=os.fspath(served))

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    for name in DATASETS:
        names = DATASETS[name].downloads["test"]
        digests = {file: hashlib.sha256((served / file).read_bytes()).hexdigest() for file in names}
        monkeypatch.setitem(
            DATASETS,
            name,
            replace(DATASETS[name], home=f"http://127.0.0.1:{server.server_port}/", downloads={"test": digests}),
        )
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


@every_set
def test_without_a_folder_the_set_is_downloaded_once(name: str, home: Path) -> None:
    first = load_images(name)
    assert np.array_equal(first.images, made_up(name, "test")[0])
    for file in home.iterdir():
        file.unlink()
    assert np.array_equal(load_images(name).images, first.images)


@every_set
def test_a_download_with_another_checksum_is_refused_and_not_kept(name: str, home: Path, tmp_path: Path) -> None:
    file = next(iter(DATASETS[name].downloads["test"]))
    (home / file).write_bytes(b"something else")
    with pytest.raises(
        OSError, match=rf"`load_images` could not get .*{file} \(SHA256 hash of downloaded file .* pass its"
    ):
        load_images(name)
    assert not (tmp_path / "cache" / "slgh" / file).exists()


def test_a_download_that_fails_names_the_address_and_the_way_out(home: Path) -> None:
    (home / "cifar-10-binary.tar.gz").unlink()
    with pytest.raises(OSError, match=r"`load_images` could not get CIFAR-10 from http.* pass its `folder`"):
        load_images("cifar10")


def test_without_pooch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'pip install "slgh\[attack\]", or pass `folder`'):
        load_images("mnist")


def test_the_public_homes_are_secure_and_have_checksums() -> None:
    for dataset in module.DATASETS.values():
        assert dataset.home.startswith("https://")
        for split in module.SPLITS:
            assert all(len(bytes.fromhex(digest)) == 32 for digest in dataset.downloads[split].values())
