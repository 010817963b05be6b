// Starts a snippet. Runs in the box, as the payload, before any line of the user's.
// lang.c writes the settings in front of this text: SOURCE, the file that holds
// the snippet, and PACKAGES and PROJECT, folders whose packages it may import, or null.
// Must: run CommonJS and ES modules alike, call both "<code>" in stack traces.
// Mustn't: be on the stack when the user's code runs: it is called from the tick
// queue, bound, so that a stack trace ends in the user's own frames.
'use strict';
const fs = require('fs');
const Module = require('module');
const path = require('path');
const url = require('url');
const vm = require('vm');

const NAME = '<code>';
const HERE = path.join(process.cwd(), NAME);
const WRAPPER = ['exports', 'require', 'module', '__filename', '__dirname'];
// What V8 says about a source that is a module and not a script.
const IS_MODULE = new RegExp([
	'Cannot use import statement outside a module',
	"Unexpected token 'export'",
	"Cannot use 'import.meta' outside a module",
	'await is only valid in async functions and the top level bodies of modules',
	"Identifier '(?:" + WRAPPER.join('|') + ")' has already been declared",
].join('|'));

// import() as seen from a folder: resolution starts there.
function importer(folder) {
	const m = new Module(NAME);

	m.filename = path.join(folder, NAME);
	m.paths = Module._nodeModulePaths(folder);
	m._compile('module.exports = (s, o) => import(s, o)', m.filename);
	return m.exports;
}

const importers = [process.cwd(), PACKAGES, PROJECT].filter(Boolean).map(importer);

// Our own frames out of an error that passed through async functions of ours.
function forget(error) {
	if (error && typeof error.stack === 'string')
		error.stack = error.stack.split('\n')
			.filter((line) => !line.includes(__filename)).join('\n');
	return error;
}

async function load(specifier, attributes) {
	const options = attributes && Object.keys(attributes).length ?
		{ with: { ...attributes } } : undefined;

	for (const importFrom of importers)
		try {
			return await importFrom(specifier, options);
		} catch (e) {
			if (importFrom === importers.at(-1) || e.code !== 'ERR_MODULE_NOT_FOUND' ||
			    /^[./]|^file:/.test(specifier))
				throw forget(e);
		}
}

// The folder of a snippet is the current one; its file is a real one, so that
// new Worker(__filename), fork(__filename) and cluster find it.
function runScript(run) {
	const m = new Module('.');
	const require = (id) => m.require(id);

	m.filename = HERE;
	m.paths = Module._nodeModulePaths(process.cwd());
	process.mainModule = m;
	require.resolve = (id, options) =>
		Module._resolveFilename(id, m, false, options);
	require.resolve.paths = (id) => Module._resolveLookupPaths(id, m);
	require.main = m;
	require.extensions = Module._extensions;
	require.cache = Module._cache;
	process.nextTick(run.bind(m.exports, m.exports, require, m, SOURCE,
		process.cwd()));
}

async function link(specifier, referrer, extra) {
	const ns = await load(specifier, extra && (extra.attributes || extra.assert));
	const names = Object.keys(ns);

	return new vm.SyntheticModule(names, function () {
		for (const name of names)
			this.setExport(name, ns[name]);
	}, { identifier: specifier });
}

function describeModule(meta) {
	meta.dirname = process.cwd();
	meta.filename = HERE;
	meta.resolve = (specifier) => {
		const found = Module.createRequire(HERE).resolve(specifier);

		return path.isAbsolute(found) ? url.pathToFileURL(found).href :
			'node:' + found.replace(/^node:/, '');
	};
	meta.url = url.pathToFileURL(HERE).href;
}

// "VM Modules is an experimental feature": true, and of no use to the user.
function quietly(make) {
	const emit = process.emitWarning;

	process.emitWarning = () => {};
	try {
		return make();
	} finally {
		process.emitWarning = emit;
	}
}

function runModule(source) {
	const m = quietly(() => new vm.SourceTextModule(source, {
		identifier: NAME,
		initializeImportMeta: describeModule,
		importModuleDynamically: (s, script, attributes) =>
			load(s, attributes),
	}));
	let settled = false;

	// As node does when the event loop is empty and a top-level await still waits.
	process.on('exit', (code) => {
		if (!settled && code === 0 && process.exitCode === undefined)
			process.exitCode = 13;
	});
	m.link(link).then(m.evaluate.bind(m)).then(() => { settled = true; });
}

function fail(error) {
	if (error instanceof SyntaxError)
		error.stack = String(error.stack).replace(/\n {4}at [^]*$/, '');
	process.nextTick(() => { throw error; });
}

function start() {
	const source = fs.readFileSync(SOURCE, 'utf8').replace(/^\uFEFF/, '')
		.replace(/^#!/, '//');

	process.argv[1] = SOURCE;
	try {
		runScript(vm.compileFunction(source, WRAPPER, {
			filename: NAME,
			importModuleDynamically: (s, f, attributes) =>
				load(s, attributes),
		}));
	} catch (e) {
		if (!IS_MODULE.test(e.message))
			throw e;
		runModule(source);
	}
}

try {
	start();
} catch (e) {
	fail(e);
}
