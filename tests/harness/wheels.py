"""Wheels and source packages for Python, made here."""

import io
import os
import tarfile
import textwrap
import zipfile


def wheel(folder, name, version="1.0", files=None, requires=(), scripts=""):
    """A wheel of these files ({path: text}) in a folder; its file name."""
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as z:
        for path, text in (files or {f"{plain}.py": f"WORD = {name!r}\n"}).items():
            z.writestr(path, text)
        z.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" +
                   "".join(f"Requires-Dist: {r}\n" for r in requires))
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        if scripts:
            z.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{scripts}\n")
        z.writestr(f"{info}/RECORD", "")
    os.makedirs(folder, exist_ok=True)
    file = f"{plain}-{version}-py3-none-any.whl"
    with open(os.path.join(folder, file), "wb") as f:
        f.write(data.getvalue())
    return file


def source(folder, name, act):
    """A source package whose build script, which needs nothing else, does @act; what it puts
    into `said` is <name>.SAID in the end."""
    backend = textwrap.dedent("""\
        import os, zipfile
        def build_wheel(folder, config_settings=None, metadata_directory=None):
            said = []
        %s
            file = 'NAME-1.0-py3-none-any.whl'
            with zipfile.ZipFile(os.path.join(folder, file), 'w') as z:
                z.writestr('NAME.py', 'SAID = %%r' %% (said,))
                z.writestr('NAME-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: NAME\\nVersion: 1.0\\n')
                z.writestr('NAME-1.0.dist-info/WHEEL',
                           'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
                z.writestr('NAME-1.0.dist-info/RECORD', '')
            return file
        """) % textwrap.indent(textwrap.dedent(act), "    ")
    parts = {"own.py": backend.replace("NAME", name),
             "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n',
             "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"}
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(os.path.join(folder, f"{name}-1.0.tar.gz"), "w:gz") as tar:
        for path, text in parts.items():
            item = tarfile.TarInfo(f"{name}-1.0/{path}")
            item.size = len(text)
            tar.addfile(item, io.BytesIO(text.encode()))
