"""M45 to M83: artifacts, packages, construction, matplotlib, the docker tiers."""

import gc
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from unittest import mock

from nsbox import mellea as m
from cases.mellea_case import EXECUTING, Case, execute, folder, policy, warned


class Artifacts(Case):
    MAKE = ("import os\nos.makedirs('sub')\nopen('b.csv', 'w').write('1,2')\n"
            "open('a.png', 'wb').write(b'x')\nopen('sub/c.json', 'w').write('{}')\n"
            "open('d.unknown-kind', 'w')")

    def shapes(self, result, base):
        return [(str(a.path.relative_to(base)), a.size_bytes, a.content_type)
                for a in result.artifacts]

    def test_m45(self):
        """M45 every regular file, recursive, sorted, with size and type"""
        for tier in EXECUTING:
            with folder() as place:
                got = m.python_tool(tier=tier, artifact_dir=Path(place)).run(code=self.MAKE)
                self.assertEqual(self.shapes(got, place), [
                    ("a.png", 1, "image/png"), ("b.csv", 3, "text/csv"),
                    ("d.unknown-kind", 0, None), ("sub/c.json", 2, "application/json")], got)

    def test_m46(self):
        """M46 a failure or a timeout: no artifacts, even if files exist"""
        for tier in EXECUTING:
            with folder() as place:
                tool = m.python_tool(tier=tier, artifact_dir=Path(place), policy=policy(timeout=2)
                                     if tier == "local" else None)
                got = tool.run(code="open('a', 'w'); raise SystemExit(1)")
                self.assertEqual((got.exit_code, got.artifacts), (1, []))
        got = m.python_tool(tier="local", policy=policy(timeout=2)).run(
            code="open('a', 'w').close()\nwhile True: pass")
        self.assertEqual((got.timed_out, got.artifacts), (True, []))

    def test_m47(self):
        """M47 files that were there before; ours: not reported unless they changed"""
        for tier in EXECUTING:
            with folder() as place:
                Path(place, "old").write_text("old")
                Path(place, "touched").write_text("old")
                tool = m.python_tool(tier=tier, artifact_dir=Path(place))
                got = tool.run(code="open('touched', 'a').write('new'); open('new', 'w')")
                self.assertEqual([n for n, _, _ in self.shapes(got, place)], ["new", "touched"], got)
                self.assertEqual(tool.run(code="print(open('old').read())").artifacts, [])

    LINKS = ("import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/no', 'dangling')\n"
             "os.symlink('/etc', 'dir')\nos.mkfifo('fifo')\nopen('f', 'w').write('1')\n"
             "os.link('f', 'hard')\nopen('g', 'w')")

    def test_m48(self):
        """M48 links; ours: no symlink, no second name, no FIFO is an artifact"""
        for tier in EXECUTING:
            with folder() as place:
                got = m.python_tool(tier=tier, artifact_dir=Path(place)).run(code=self.LINKS)
                self.assertEqual(self.shapes(got, place), [("g", 0, None)], got)
            got = m.python_tool(tier=tier).run(code=self.LINKS)
            self.assertEqual([a.path.name for a in got.artifacts], ["g"], got)

    def test_m49(self):
        """M49 the same name in two folders: two artifacts"""
        got = m.python_tool(tier="local").run(
            code="import os\nfor d in 'xy': os.mkdir(d); open(d + '/n', 'w')")
        self.assertEqual([str(a.path)[-3:] for a in got.artifacts], ["x/n", "y/n"])

    def test_m50(self):
        """M50 count, size and depth; ours: 64 files, 32 MiB, 8 levels"""
        many = "for i in range(70): open(f'{i:02}', 'w')"
        deep = ("import os\np = '.'\nfor i in range(10):\n open(p + '/f', 'w'); p += '/d'; "
                "os.mkdir(p)")
        big = "open('a', 'wb').truncate(33 << 20); open('b', 'w')"
        for code, count in ((many, 64), (deep, 8), (big, 1)):
            for tier in EXECUTING:
                got = m.python_tool(tier=tier).run(code=code)
                self.assertEqual(len(got.artifacts), count, (tier, code, got))

    def test_m51(self):
        """M51 without artifact_dir: a folder of 0700 that lives as long as the result"""
        for tier in EXECUTING:
            got = m.python_tool(tier=tier).run(code="open('a', 'w')")
            place = got.artifacts[0].path.parent
            self.assertEqual(place.stat().st_mode & 0o777, 0o700)
            got = None
            gc.collect()
            self.assertFalse(place.exists())
        before = set(os.listdir(tempfile.gettempdir()))
        m.python_tool(tier="local").run(code="print(1)")
        gc.collect()
        left = set(os.listdir(tempfile.gettempdir())) - before
        self.assertEqual({n for n in left if n.startswith("nsbox-")}, set())

    def test_m52(self):
        """M52 artifact_dir is made, with its parents"""
        for tier in EXECUTING:
            with folder() as place:
                target = Path(place, "a", "b")
                got = m.python_tool(tier=tier, artifact_dir=target).run(code="open('f', 'w')")
                self.assertEqual(self.shapes(got, target), [("f", 0, None)])

    def exported(self, code, *paths):
        return m.python_tool(tier="local", policy=policy(
            artifact_export_paths=[Path(p) for p in paths])).run(code=code)

    def test_m53(self):
        """M53 artifact_export_paths; ours: on local too, only those, into a folder of 0700"""
        got = self.exported("open('a', 'w'); open('b', 'w')", "a")
        self.assertEqual([a.path.name for a in got.artifacts], ["a"])
        self.assertEqual(got.artifacts[0].path.parent.stat().st_mode & 0o777, 0o700)
        with self.assertRaisesRegex(ValueError, "outside"):
            self.exported("print(1)", "/etc/passwd").run

    def test_m54(self):
        """M54 a folder as export path: all of it; ours: each file with its size"""
        got = self.exported("import os; os.mkdir('d'); open('d/x', 'w').write('1'); open('y', 'w')",
                            "/workspace/d")
        self.assertEqual([(a.path.name, a.size_bytes) for a in got.artifacts], [("x", 1)])

    def test_m55(self):
        """M55 content types of exported files; ours: as for all others"""
        got = self.exported("open('a.csv', 'w')", "a.csv")
        self.assertEqual(got.artifacts[0].content_type, "text/csv")

    def test_m56(self):
        """M56 a failed run exports nothing"""
        got = self.exported("open('a', 'w'); raise SystemExit(1)", "a")
        self.assertEqual((got.exit_code, got.artifacts), (1, []))

    def test_m57(self):
        """M57 export_dir '' or '.' is none"""
        for given in (Path(""), Path("."), "", None):
            env = m.make_execution_environment("docker", export_dir=given)
            self.assertIsNone(env._export_dir)

    def test_m58(self):
        """M58 an export path that does not exist: no error, no artifact"""
        got = self.exported("print(1)", "missing")
        self.assertEqual((got.success, got.artifacts), (True, []))

    def test_m59(self):
        """M59 a stale file at an export path; ours: not exported again"""
        tool = m.python_tool(tier="local", policy=policy(artifact_export_paths=[Path("a")]))
        self.assertEqual(len(tool.run(code="open('a', 'w')").artifacts), 1)
        self.assertEqual(tool.run(code="print(1)").artifacts, [])

    def test_m60(self):
        """M60 warnings: artifact_dir without export paths; export paths outside of a with block"""
        with warned() as caught, folder() as place:
            m.python_tool(tier="docker", artifact_dir=Path(place))
            execute("docker", "print(1)", policy=policy(artifact_export_paths=[Path("a")]))
        self.assertEqual([w.category for w in caught], [RuntimeWarning, RuntimeWarning])


def make_wheel(place, name, version="1.0", body="value = 7\n"):
    """A wheel of one module, so that installing needs no index."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(os.path.join(place, f"{name}-{version}-py3-none-any.whl"), "w") as out:
        out.writestr(f"{name}.py", body)
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\n"
                     f"Version: {version}\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
                     "Root-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n"
                     f"{info}/RECORD,,\n")


class Packages(Case):
    @classmethod
    def setUpClass(cls):
        cls.wheels = folder()
        os.chmod(cls.wheels.name, 0o755)
        make_wheel(cls.wheels.name, "nsboxprobe")
        make_wheel(cls.wheels.name, "nsboxother")
        cls.cache = folder()
        cls.environ = mock.patch.dict(os.environ, PIP_NO_INDEX="1",
                                      PIP_FIND_LINKS=cls.wheels.name, XDG_CACHE_HOME=cls.cache.name)
        cls.environ.start()

    @classmethod
    def tearDownClass(cls):
        cls.environ.stop()
        cls.wheels.cleanup()
        cls.cache.cleanup()

    def test_m61(self):
        """M61 an empty or flag-style specifier: ValueError"""
        for wrong in ("", "   "):
            with self.assertRaisesRegex(ValueError, "non-empty"):
                m.python_tool(tier="local", packages=[wrong])
        for wrong in ("-r x", "  --index-url=http://x"):
            with self.assertRaisesRegex(ValueError, "flag-style"):
                m.python_tool(tier="local", packages=[wrong])

    def test_m62(self):
        """M62 newlines, shell, paths; ours: refused, never handed to an installer"""
        with self.assertRaises(ValueError):
            m.python_tool(tier="local", packages=["a\n-r x"])
        for wrong in ("a; rm -rf", ".", "/etc", "../x"):
            got = m.python_tool(tier="local", packages=[wrong]).run(code="print(1)")
            self.skipped(got)

    def test_m63(self):
        """M63 packages=[] is None"""
        got = m.python_tool(tier="local", packages=[]).run(code="print(1)")
        self.assertEqual((got.stdout, got.execution_mode), ("1", "local"))

    def test_m64(self):
        """M64 packages join the policy's, each once, in order, installing allowed"""
        from nsbox.mellea.policy import with_packages
        with warned() as caught:
            got = with_packages(policy(packages=["b", "a"], timeout=9), ["a", "c"])
        self.assertEqual((got.packages, got.package_installation, got.timeout),
                         (["b", "a", "c"], True, 9))
        self.assertEqual(caught, [])

    def test_m65(self):
        """M65 the caller's own interpreter; ours: never installed into"""
        tool = m.python_tool(tier="local", packages=["nsboxprobe"])
        self.assertEqual(tool.run(code="import nsboxprobe; print(nsboxprobe.value)").stdout, "7")
        ran = subprocess.run([sys.executable, "-c", "import nsboxprobe"], capture_output=True,
                             timeout=60)
        self.assertIn(b"ModuleNotFoundError", ran.stderr)

    def test_m66(self):
        """M66 pip or uv; ours: whichever the box finds, the result is the same"""
        tool = m.python_tool(tier="local", packages=["nsboxprobe==1.0", "nsboxother"])
        got = tool.run(code="import nsboxprobe, nsboxother; print(nsboxother.value)")
        self.assertEqual(got.stdout, "7", got)

    def test_m67(self):
        """M67 success marks all as installed; a failure marks all as failed, with the prefix"""
        done, failed = set(), set()
        env = m.make_execution_environment("local", policy=policy(
            packages=["nsboxprobe"], package_installation=True), _install_cache=done,
            _failed_cache=failed)
        self.assertTrue(env.execute("print(1)").success)
        self.assertEqual((done, failed), ({"nsboxprobe"}, set()))
        env = m.make_execution_environment("local", policy=policy(
            packages=["nsboxprobe", "nsboxmissing"], package_installation=True),
            _install_cache=done, _failed_cache=failed)
        got = env.execute("print(1)")
        self.skipped(got)
        self.assertTrue(got.skip_message.startswith("Package installation failed: "), got)
        self.assertIn("nsboxmissing", got.skip_message)
        self.assertEqual(failed, {"nsboxprobe", "nsboxmissing"})

    def test_m68(self):
        """M68 the next call after a failure; ours: the code does not run either"""
        tool = m.python_tool(tier="local", packages=["nsboxmissing2"])
        for _ in range(2):
            got = tool.run(code="print('ran')")
            self.skipped(got)
            self.assertTrue(got.skip_message.startswith("Package installation failed: "), got)

    def test_m69(self):
        """M69 caches of docker's one-shot runs; ours: no engine, so nothing is marked"""
        done, failed = set(), set()
        got = m.make_execution_environment("docker", policy=policy(packages=["nsboxprobe"]),
                                           _install_cache=done, _failed_cache=failed).execute("1")
        self.skipped(got)
        self.assertEqual((done, failed), (set(), set()))

    def test_m70(self):
        """M70 the message names what failed; ours: that alone, not all that was asked"""
        got = m.python_tool(tier="local", packages=["nsboxprobe", "nsboxmissing3"]).run(code="1")
        self.assertIn("nsboxmissing3", got.skip_message)
        self.assertNotIn("nsboxprobe", got.skip_message)

    def test_m71(self):
        """M71 two first runs at once; ours: both have the package"""
        make_wheel(self.wheels.name, "nsboxrace")
        tool = m.python_tool(tier="local", packages=["nsboxrace"])
        got = []
        threads = [threading.Thread(target=lambda: got.append(
            tool.run(code="import nsboxrace; print(nsboxrace.value)"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual([r.stdout for r in got], ["7", "7"], got)


class Construction(Case):
    def test_m72(self):
        """M72 no tier: one UserWarning with local_unsafe; a tier: none"""
        with warned() as caught:
            tool = m.python_tool()
        self.assertEqual([w.category for w in caught], [UserWarning])
        self.assertIn("tier", str(caught[0].message))
        self.assertIn("local_unsafe", str(caught[0].message))
        self.assertEqual(caught[0].filename, __file__)
        self.assertEqual(tool.run(code="print(1)").execution_mode, "local_unsafe")
        with warned() as caught:
            m.python_tool(tier="local_unsafe")
        self.assertEqual(caught, [])

    def test_m73(self):
        """M73 a policy that forbids, on local_unsafe: one UserWarning; ours on local: enforced"""
        given = m.CapabilityPolicy()
        with warned() as caught:
            tool = m.python_tool(tier="local_unsafe", policy=given)
        self.assertEqual([w.category for w in caught], [UserWarning])
        self.assertIn("network_access=False", str(caught[0].message))
        with warned() as caught:
            tool.run(code="print(1)")
            for tier in ("local", "docker", "docker_unsafe"):
                m.python_tool(tier=tier, policy=given)
            m.python_tool(tier="local_unsafe")
        self.assertEqual(caught, [])

    def test_m74(self):
        """M74 roots in a policy; ours: enforced, so no warning, also when packages join it"""
        with warned() as caught:
            given = policy(filesystem_read_roots=[Path("/etc")])
            m.python_tool(tier="local", policy=given, packages=["six"])
        self.assertEqual(caught, [])

    def test_m75(self):
        """M75 the name of the tool: python, or the one given"""
        self.assertEqual(m.python_tool(tier="local").name, "python")
        tool = m.python_tool(tier="local", name="snake")
        self.assertEqual(tool.name, "snake")
        schema = tool.as_json_tool["function"]
        self.assertEqual((schema["name"], schema["parameters"]["required"],
                          schema["parameters"]["properties"]["code"]["type"]),
                         ("snake", ["code"], "string"))


class Matplotlib(Case):
    def backend(self, code="", **how):
        return m.python_tool(tier="local", **how).run(
            code=code + "import os; print(os.environ.get('MPLBACKEND'))")

    def test_m76(self):
        """M76 matplotlib draws to files; ours: by MPLBACKEND, which suppress_agg takes away"""
        self.assertEqual(self.backend().stdout, "Agg")
        self.assertEqual(self.backend(suppress_agg=True).stdout, "")

    def test_m77(self):
        """M77 seaborn, pylab, dynamic imports; ours: the variable holds for all"""
        got = m.python_tool(tier="local").run(
            code="exec(\"import os; print(os.environ['MPLBACKEND'])\")")
        self.assertEqual(got.stdout, "Agg")

    def test_m78(self):
        """M78 __future__, line numbers, docstrings; ours: the source is not touched"""
        got = self.backend("'doc'\nfrom __future__ import annotations\n"
                           "if 0: import matplotlib\nprint(__doc__)\n")
        self.assertEqual(got.stdout, "doc\nAgg")
        got = m.python_tool(tier="local").run(code="if 0: import matplotlib\n1/0")
        self.assertIn("line 2", got.stderr)


class Docker(Case):
    def test_m79(self):
        """M79 docker without a network mode or limits; ours: refused until it enforces"""
        for tier in ("docker", "docker_unsafe"):
            got = execute(tier, "print(1)")
            self.skipped(got)
            self.assertIn("not built yet", got.skip_message)
            self.assertIn("local", got.skip_message)

    def test_m80(self):
        """M80 docker timeouts; ours: nothing ran, so nothing timed out"""
        self.assertFalse(execute("docker", "while True: pass", timeout=1).timed_out)

    def test_m81(self):
        """M81 the engine is missing: a skipped result; entering raises ImportError"""
        self.skipped(execute("docker", "print(1)"))
        with self.assertRaisesRegex(ImportError, "tier='local'"):
            m.make_execution_environment("docker").__enter__()

    def test_m82(self):
        """M82 docker copy_in and copy_out outside of a with block: RuntimeError"""
        env = m.make_execution_environment("docker")
        with self.assertRaises(RuntimeError):
            env.copy_in(Path("/etc/passwd"), "/x")
        with self.assertRaises(RuntimeError):
            env.copy_out("/x", Path("/tmp/x"))

    def test_m83(self):
        """M83 docker with export paths opens at construction: its error comes there"""
        with self.assertRaises(ImportError):
            m.python_tool(tier="docker", policy=policy(artifact_export_paths=[Path("a")]))

    def test_deprecated(self):
        """the two old functions warn and name python_tool"""
        with warned() as caught:
            self.skipped(m.code_interpreter("print(1)"))
            self.assertEqual(m.local_code_interpreter("print(1)").stdout, "1")
        self.assertEqual([w.category for w in caught], [DeprecationWarning] * 2)
        self.assertTrue(all("python_tool" in str(w.message) for w in caught))

    def test_reason(self):
        """to_validationresult_reason: skip message, else stdout or stderr"""
        self.assertEqual(execute("local", "print(5)").to_validationresult_reason(), "5")
        got = execute("local", "raise SystemExit('why')")
        self.assertEqual(got.to_validationresult_reason(), "why")
        got = execute("docker", "print(1)")
        self.assertEqual(got.to_validationresult_reason(), got.skip_message)
