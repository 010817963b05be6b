# Installs packages into /layer. Runs as the program of a box of its own, whose network
# leads to the indexes alone. packages_install.c writes the settings in front of this text:
#   SPECS      what to install, normal forms of PEP 508
#   CONF       text of a pip.conf       NETRC      logins of the indexes, or ''
#   CERT       CA bundle, or b''        KEY        client certificate and key, or b''
#   CONSTRAINTS  text of a constraints file, or ''
# Must: keep logins out of every argument list and of /layer. Mustn't: trust pip's output
# further than as text to show.
# Prints, when it fails, one line for the launcher: "failed\tSPEC\tWHY".
import os
import re
import subprocess
import sys

LAYER, PRIVATE = '/layer', '/tmp/nsbox'
TARGET, REPORT = LAYER + '/packages', LAYER + '/tmp/report.json'


def write(name, data):
    path = f'{PRIVATE}/{name}'
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 'wb') as f:
        f.write(data if isinstance(data, bytes) else data.encode('utf-8', 'surrogateescape'))
    return path


def environment():
    os.mkdir(PRIVATE, 0o700)
    os.mkdir(PRIVATE + '/home', 0o700)
    env = {k: v for k, v in os.environ.items() if not k.startswith('PIP_')}
    env.update(HOME=PRIVATE + '/home', TMPDIR=LAYER + '/tmp', PIP_NO_INPUT='1', PIP_NO_CACHE_DIR='1',
               PIP_DISABLE_PIP_VERSION_CHECK='1', PIP_ROOT_USER_ACTION='ignore', PIP_NO_COLOR='1',
               PIP_PROGRESS_BAR='off')
    conf = CONF
    for option, name, data in (('cert', 'ca.pem', CERT), ('client-cert', 'client.pem', KEY),
                               ('constraint', 'constraints.txt', CONSTRAINTS)):
        if data:
            conf += f'{option} = {write(name, data)}\n'
    env['PIP_CONFIG_FILE'] = write('pip.conf', conf)
    if NETRC:
        env['NETRC'] = write('netrc', NETRC)
    return env


def pip_command():
    # Distributions leave pip out of the interpreter, and keep a wheel of it for venv.
    code = 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("pip"))'
    if subprocess.run([sys.executable, '-I', '-c', code], check=False).returncode == 0:
        return [sys.executable, '-I', '-m', 'pip']
    places = []
    try:
        import ensurepip
        places.append(os.path.join(os.path.dirname(ensurepip.__file__), '_bundled'))
    except ImportError:
        pass
    for folder in [*places, '/usr/share/python-wheels']:
        names = os.listdir(folder) if os.path.isdir(folder) else []
        for name in sorted(names, reverse=True):
            if re.fullmatch(r'pip-[^/]*\.whl', name):
                return [sys.executable, os.path.join(folder, name, 'pip')]
    return None


def has_report(pip, env):
    # pip says since 22.2 what it chose, with the hash of each file.
    ran = subprocess.run([*pip, 'install', '--help'], env=env, capture_output=True, text=True, check=False)
    return '--report' in ran.stdout


def why(text):
    # pip's last words; in front of them what it says about the spec it stumbled over.
    lines = [re.sub(r'^ERROR: ', '', line).strip() for line in text.splitlines() if line.startswith('ERROR:')]
    if not lines:   # a build script: what it raised, else the last line
        rest = [line.strip(' |\u2502') for line in text.splitlines() if line.strip(' |\u2502')]
        lines = [line for line in rest if re.match(r'[\w.]*(Error|Exception)\b', line)][-1:] or rest[-1:]
    words = re.sub(r'[-_.]+', '-', ' '.join(lines)).lower()
    for spec in SPECS:
        name = re.match(r'[a-z0-9-]+', spec).group().rstrip('-')
        if re.search(r'(?<![a-z0-9-])' + re.escape(name) + r'(?![a-z0-9-])', words):
            break
    else:
        spec = ', '.join(SPECS)
    # An index that could not be asked is no error for pip, but one without packages.
    lines += [line.strip() for line in text.splitlines() if re.match(r'\s*Could not fetch URL|WARNING: Retrying', line)][-1:]
    return spec, '; '.join(line[:400] for line in lines) or 'pip failed without a word'


def fail(spec, reason):
    print('failed', spec, ' '.join(reason.split()), sep='\t', flush=True)
    sys.exit(1)


def names_of(folder):
    import importlib.metadata
    found = set()
    for d in importlib.metadata.distributions(path=[folder]):
        found.add(f"{re.sub(r'[-_.]+', '-', d.metadata['Name']).lower()}=={d.version}")
    return sorted(found)


def hashes():
    # "name==version" -> sha256 of the file it was installed from.
    import json
    try:
        with open(REPORT, encoding='utf-8') as f:
            items = json.load(f)['install']
    except (OSError, ValueError, KeyError):
        return {}
    found = {}
    for item in items:
        meta, archive = item['metadata'], item['download_info'].get('archive_info', {})
        name = f"{re.sub(r'[-_.]+', '-', meta['name']).lower()}=={meta['version']}"
        digest = archive.get('hashes', {}).get('sha256') or archive.get('hash', '')
        if re.fullmatch(r'(sha256=)?[0-9a-f]{64}', digest):
            found[name] = digest[-64:]
    return found


def write_lock():
    known = hashes()
    with open(LAYER + '/lock', 'w', encoding='utf-8') as f:
        for name in names_of(TARGET):
            f.write(name + (f' --hash=sha256:{known[name]}' if name in known else '') + '\n')


def compile_all():
    # The layer never changes: no import has to look whether a source did.
    import compileall
    import py_compile
    compileall.compile_dir(TARGET, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)


def main():
    os.mkdir(LAYER + '/tmp', 0o700)
    os.mkdir(TARGET, 0o755)
    env, pip = environment(), pip_command()
    if not pip:
        fail(', '.join(SPECS), f'{sys.executable} has no pip; install one for it')
    report = ['--report', REPORT] if has_report(pip, env) else []
    ran = subprocess.run([*pip, 'install', '--target', TARGET, '--no-compile', *report, '--', *SPECS],
                         env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                         check=False)
    if ran.returncode:
        fail(*why(ran.stdout))
    compile_all()
    write_lock()


main()
