"""Writes a wheel: the files of FOLDER, the metadata, and the record of their hashes, the same bytes for the same files.

usage: wheel.py FOLDER VERSION PLATFORM OUT
"""

import base64
import hashlib
import os
import pathlib
import sys
import zipfile

folder, version, platform, out = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
info = f"xtrain-{version}.dist-info"
metadata = f"""Metadata-Version: 2.1
Name: xtrain
Version: {version}
Summary: Trains image networks (license plate recognition, classification) on Intel hardware through oneDNN, and runs them
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Description-Content-Type: text/markdown

""" + pathlib.Path("README.md").read_text(encoding="utf-8")
written = {
    "METADATA": metadata,
    "WHEEL": f"Wheel-Version: 1.0\nGenerator: xtrain\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n",
    "entry_points.txt": "[console_scripts]\nxtrain = xtrain.__main__:main\n",
}
for name, text in written.items():
    (folder / info / name).write_text(text, encoding="utf-8")

wheel = out / f"xtrain-{version}-py3-none-{platform}.whl"
record = []
with zipfile.ZipFile(f"{wheel}.part", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

    def put(name: str, data: bytes, executable: bool) -> None:
        entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)

    # The metadata comes last, so that readers find it near the directory.
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    for path in sorted(files, key=lambda path: (info in path.parts, path)):
        data = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        name = path.relative_to(folder).as_posix()
        record.append(f"{name},sha256={digest},{len(data)}\n")
        put(name, data, os.access(path, os.X_OK))
    put(f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]).encode(), False)
os.replace(f"{wheel}.part", wheel)
print(f"{wheel}: {wheel.stat().st_size / 1e6:.0f} MB, for any Linux with glibc {platform.split('_')[1]}.{platform.split('_')[2]} or later and Python 3.9")
