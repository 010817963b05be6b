// Installs packages of npm into /layer. Runs as the program of a box of its own, whose
// network leads to the registries alone. packages_install.c writes the settings in front of
// this text:
//   SPECS    what to install, as npm takes it      CONF    text of an .npmrc, no login in it
//   LOGINS   more lines of it, or ''               CA      CA certificates (PEM), or ''
//   MORE_CA  certificates beside node's own, or ''
//   FORWARD  lines "HOST PORT NAME": registries on the host's loopback, and what this box
//            calls it
//   NPM      npm's program                         PHASE   'install' or 'scripts'
// 'install' fetches and unpacks, and runs nothing of the packages; their install scripts are
// run by 'scripts' in another box, which has no login.
// Must: keep logins out of every argument list and of /layer. Mustn't: trust npm's output
// further than as text to show.
// Prints for the launcher "scripts" when there are some, and, when it fails, one line:
// "failed\tSPEC\tWHY".
'use strict';
const fs = require('fs');
const path = require('path');
const http = require('http');
const { spawn } = require('child_process');

const LAYER = '/layer';
const PRIVATE = '/tmp/nsbox';
const TARGET = LAYER + '/packages';
const OUTPUT_MAX = 1 << 20;
const HIDDEN = TARGET + '/node_modules/.package-lock.json';

function write(name, text) {
	const file = `${PRIVATE}/${name}`;

	fs.writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
	return file;
}

function environment() {
	const env = {};

	fs.mkdirSync(PRIVATE + '/home', { recursive: true, mode: 0o700 });
	for (const [name, value] of Object.entries(process.env))
		if (!/^npm_config_/i.test(name))
			env[name] = value;
	if (CA)
		write('ca.pem', CA);
	if (CA || MORE_CA)
		env.NODE_EXTRA_CA_CERTS = write('more.pem', CA + MORE_CA);
	return Object.assign(env, {
		HOME: PRIVATE + '/home', TMPDIR: LAYER + '/tmp',
		PATH: `${path.dirname(process.execPath)}:${env.PATH || '/usr/bin:/bin'}`,
		npm_config_userconfig: write('npmrc', `${CONF}${CA ? `cafile=${PRIVATE}/ca.pem\n` : ''}${LOGINS}`),
		npm_config_globalconfig: PRIVATE + '/none', npm_config_cache: LAYER + '/tmp/cache',
		npm_config_prefix: PRIVATE + '/home', npm_config_logs_max: '0', npm_config_audit: 'false',
		npm_config_fund: 'false', npm_config_update_notifier: 'false', npm_config_progress: 'false',
		npm_config_color: 'false', npm_config_loglevel: 'error', npm_config_save: 'false',
		npm_config_package_lock: 'false', npm_config_yes: 'false', npm_config_global: 'false',
		npm_config_install_links: 'false',
	});
}

// A request to the registry's own address in this box goes to the host's. The box's network
// looks at the name in it, so that it has to be the one that is allowed.
function pass(request, response, name, port) {
	const headers = { ...request.headers, host: `${name}:${port}`, 'x-forwarded-host': request.headers.host };
	const far = http.request({ host: name, port, method: request.method, path: request.url, headers }, (answer) => {
		response.writeHead(answer.statusCode, answer.headers);
		answer.pipe(response);
		answer.on('error', () => response.destroy());
	});

	far.on('error', () => response.destroy());
	request.pipe(far);
}

function listen(host, port, name) {
	return new Promise((resolve) => {
		const server = http.createServer((request, response) => pass(request, response, name, port));

		server.on('error', resolve); // then npm says that it cannot connect
		server.listen(port, host, resolve);
	});
}

async function forward() {
	for (const line of FORWARD.split('\n').filter(Boolean)) {
		const [host, port, name] = line.split(' ');

		for (const one of host === 'localhost' ? ['127.0.0.1', '::1'] : [host])
			await listen(one, Number(port), name);
	}
}

async function npm(args) {
	const env = environment();

	await forward();
	return new Promise((resolve) => {
		const child = spawn(process.execPath, [NPM, ...args],
			{ cwd: TARGET, env, stdio: ['ignore', 'pipe', 'pipe'] });
		const ran = { said: '' };
		const take = (text) => { ran.said = (ran.said + text).slice(-OUTPUT_MAX); };

		child.stdout.setEncoding('utf8').on('data', take);
		child.stderr.setEncoding('utf8').on('data', take);
		child.on('error', (error) => resolve({ said: error.message, status: 1 }));
		child.on('close', (status) => resolve({ ...ran, status }));
	});
}

// npm's last words, and the spec that they are about. Each line of an error begins with its
// code; most of the rest is advice.
function why(ran) {
	const said = ran.said.split('\n').map((line) => line.trim()).filter(Boolean);
	const lines = said.filter((line) => /^npm (ERR!|error)/.test(line))
		.map((line) => line.replace(/^npm (ERR!|error)\s*/, ''))
		.map((line) => line.replace(/^(code \w+$|\d{3}\b|[a-z]+(?= [A-Z]))\s*/, ''))
		.filter((line) => line && !/^(In most cases|Note that|tarball, folder|A complete log|Log files|This is not a bug|path \/|errno |syscall )/.test(line));
	const words = lines.length ? lines.slice(0, 5) : said.slice(-1);
	const name = (spec) => spec.slice(0, spec.lastIndexOf('@') > 0 ? spec.lastIndexOf('@') : undefined);
	const is = (c) => c !== undefined && /[A-Za-z0-9._~-]/.test(c);
	const text = words.join(' ');
	const about = SPECS.find((spec) => {
		for (let at = text.indexOf(name(spec)); at >= 0; at = text.indexOf(name(spec), at + 1))
			if (!is(text[at - 1]) && !(is(text[at + name(spec).length]) && text[at + name(spec).length] !== '.'))
				return true;
		return text.includes(encodeURIComponent(name(spec)).replace('%40', '@'));
	});

	return [about || SPECS.join(', '), words.map((line) => line.slice(0, 400)).join('; ') ||
		'npm failed without a word'];
}

function fail(spec, reason) {
	console.log(['failed', spec, reason.replace(/\s+/g, ' ')].join('\t'));
	process.exit(1);
}

// What npm unpacked: [folder, what its own list of them says].
function installed() {
	let list;

	try {
		list = JSON.parse(fs.readFileSync(HIDDEN, 'utf8')).packages;
	} catch {
		fail(SPECS.join(', '), 'this npm keeps no list of what it installed; npm 7 and later do');
	}
	return Object.entries(list).filter(([folder, entry]) => folder && !entry.link);
}

function nameOf(folder, entry) {
	return entry.name || folder.slice(folder.lastIndexOf('node_modules/') + 13);
}

function writeLock(list) {
	const lines = new Set();

	for (const [folder, entry] of list)
		lines.add(`${nameOf(folder, entry)}@${entry.version}` +
			(entry.integrity ? ` --integrity=${entry.integrity.split(' ')[0]}` : '') + '\n');
	fs.writeFileSync(LAYER + '/lock', [...lines].sort().join(''));
}

function hasScript([folder, entry]) {
	if (entry.hasInstallScript || fs.existsSync(`${TARGET}/${folder}/binding.gyp`))
		return true;
	try {
		const { scripts } = JSON.parse(fs.readFileSync(`${TARGET}/${folder}/package.json`, 'utf8'));

		return ['preinstall', 'install', 'postinstall'].some((name) => scripts && scripts[name]);
	} catch {
		return false;
	}
}

async function install() {
	fs.mkdirSync(LAYER + '/tmp', { mode: 0o700 });
	fs.mkdirSync(TARGET, { mode: 0o755 });
	const ran = await npm(['install', '--prefix', TARGET, '--ignore-scripts', '--', ...SPECS]);

	if (ran.status !== 0)
		fail(...why(ran));
	const list = installed();

	writeLock(list);
	fs.rmSync(LAYER + '/tmp/cache', { recursive: true, force: true });
	if (list.some(hasScript))
		console.log('scripts');
	process.exit(0);
}

async function runScripts() {
	const ran = await npm(['rebuild', '--prefix', TARGET]);

	if (ran.status !== 0)
		fail(...why(ran));
	process.exit(0);
}

if (PHASE === 'install')
	install();
else
	runScripts();
