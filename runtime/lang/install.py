# Installs packages into /layer. Runs as the program of a box of its own, whose network
# leads to the indexes alone. packages_install.c writes the settings in front of this text:
#   SPECS      what to install, normal forms of PEP 508
#   UV         path of uv in this box, or '' for the interpreter's own pip
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
    env = {k: v for k, v in os.environ.items() if not k.startswith(('PIP_', 'UV_'))}
    env.update(HOME=PRIVATE + '/home', TMPDIR=LAYER + '/tmp')
    if NETRC:
        env['NETRC'] = write('netrc', NETRC)
    return env


def pip_environment():
    env = environment()
    env.update(PIP_NO_INPUT='1', PIP_NO_CACHE_DIR='1', PIP_DISABLE_PIP_VERSION_CHECK='1',
               PIP_ROOT_USER_ACTION='ignore', PIP_NO_COLOR='1', PIP_PROGRESS_BAR='off')
    conf = CONF
    for option, name, data in (('cert', 'ca.pem', CERT), ('client-cert', 'client.pem', KEY),
                               ('constraint', 'constraints.txt', CONSTRAINTS)):
        if data:
            conf += f'{option} = {write(name, data)}\n'
    env['PIP_CONFIG_FILE'] = write('pip.conf', conf)
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


def uv_environment(settings):
    env = environment()
    env.update(UV_NO_CONFIG='1', UV_NO_CACHE='1', UV_PYTHON_DOWNLOADS='never', UV_LINK_MODE='copy',
               UV_NO_PROGRESS='1', NO_COLOR='1')
    # The host's own certificates count for pip as well; the variable was renamed.
    env.update(UV_NATIVE_TLS='1', UV_SYSTEM_CERTS='1')
    if CERT:
        env['SSL_CERT_FILE'] = write('ca.pem', CERT)
    if KEY:
        env['SSL_CLIENT_CERT'] = write('client.pem', KEY)
    for variable, keys in (('UV_HTTP_TIMEOUT', ('timeout', 'default-timeout')), ('UV_HTTP_RETRIES', ('retries',))):
        number = next((settings[k] for k in keys if k in settings), '')
        if re.fullmatch(r'\d+(\.\d+)?', number):
            env[variable] = str(int(float(number)))
    return env


def uv_arguments(settings):
    # What pip's settings mean to uv. pip takes the best version of all its indexes.
    args = ['--index-strategy', 'unsafe-best-match']
    for key, option in (('index-url', '--index-url'), ('extra-index-url', '--extra-index-url'),
                        ('find-links', '--find-links'), ('trusted-host', '--allow-insecure-host')):
        for value in settings.get(key, '').split():
            args += [option, value]
    for key, option in (('no-index', '--no-index'), ('no-deps', '--no-deps'), ('pre', '--prerelease=allow')):
        if settings.get(key, '').lower() in ('1', 'y', 'yes', 't', 'true', 'on'):
            args.append(option)
    for key in ('only-binary', 'no-binary'):
        for value in re.split(r'[,\s]+', settings.get(key, '')):
            args += [f'--{key}', value] if value else []
    if CONSTRAINTS:
        args += ['--constraints', write('constraints.txt', CONSTRAINTS)]
    return args


def uv_install():
    import configparser
    conf = configparser.RawConfigParser(strict=False)
    conf.read_string(CONF)
    settings = dict(conf['global'])
    env = uv_environment(settings)
    return subprocess.run([UV, 'pip', 'install', '--target', TARGET, '--python', sys.executable,
                           *uv_arguments(settings), '--', *SPECS],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace', check=False)


def uv_why(text):
    # "  \u00d7 No solution found when resolving dependencies:", and a tree of reasons below.
    lines = [line.strip(' \u00d7\u2570\u2500\u25b6\u251c\u2502\u256d').strip() for line in text.splitlines()]
    at = next((n for n, line in enumerate(text.splitlines()) if re.match(r'\s*(\u00d7|error:)', line)), 0)
    return ' '.join(re.sub(r'^error: ', '', line) for line in lines[at:] if line and not line.startswith('hint:'))


def spec_of(text):
    words = re.sub(r'[-_.]+', '-', text).lower()
    for spec in SPECS:
        name = re.match(r'[a-z0-9-]+', spec).group().rstrip('-')
        if re.search(r'(?<![a-z0-9-])' + re.escape(name) + r'(?![a-z0-9-])', words):
            return spec
    return ', '.join(SPECS)


def why(text):
    if UV:
        reason = uv_why(text)
        return spec_of(reason), reason or 'uv failed without a word'
    # pip's last words; in front of them what it says about the spec it stumbled over.
    lines = [re.sub(r'^ERROR: ', '', line).strip() for line in text.splitlines() if line.startswith('ERROR:')]
    if not lines:   # a build script: what it raised, else the last line
        rest = [line.strip(' |\u2502') for line in text.splitlines() if line.strip(' |\u2502')]
        lines = [line for line in rest if re.match(r'[\w.]*(Error|Exception)\b', line)][-1:] or rest[-1:]
    spec = spec_of(' '.join(lines))
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


def pip_install():
    env, pip = pip_environment(), pip_command()
    if not pip:
        fail(', '.join(SPECS), f'{sys.executable} has no pip; install one for it, or uv')
    report = ['--report', REPORT] if has_report(pip, env) else []
    return subprocess.run([*pip, 'install', '--target', TARGET, '--no-compile', *report, '--', *SPECS],
                          env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                          check=False)


def main():
    os.mkdir(LAYER + '/tmp', 0o700)
    os.mkdir(TARGET, 0o755)
    ran = uv_install() if UV else pip_install()
    if ran.returncode:
        fail(*why(ran.stdout))
    compile_all()
    write_lock()


main()
