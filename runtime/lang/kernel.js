// The interpreter that stays: runs one cell after another in node's own REPL, so that
// const and let live on and await works at the top. Run in the box, as the payload.
// Speaks with the library by descriptor 3: frames of 4 bytes length (big-endian) and
// JSON, one request at a time. lang_kernel.c puts kernel_types.js in front, and
// PROJECT: a folder whose packages a cell may import, or null.
// Must: turn what a cell does into its event "done", or die. What process.exit() ends,
// the library starts anew.
// Mustn't: end because a callback of the user's threw.
const fs = require('fs');
const net = require('net');
const path = require('path');
const repl = require('repl');
const stream = require('stream');
const util = require('util');
const vm = require('vm');
const inspectValue = util.inspect;
const { O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK } = fs.constants;

const FRAME_MAX = 64 << 20;
const GET_MAX = 45 << 20;
const ENTRIES_MAX = 100000;
const FORMS = Symbol.for('Jupyter.display');

const channel = new net.Socket({ fd: 3, readable: true, writable: true });
let current = null;	// the request in hand: its id, and what ends it
let count = 0;
let lastCall = 0;
let hasHeard = false;	// of an interrupt, since it was settled last
const nothing = new vm.Script('Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)');
const calls = new Map();

function send(message) {
	// A cell that gave all objects toJSON() did not mean ours.
	const plain = 'toJSON' in [] ? function (key) { return this[key]; } : undefined;
	const body = Buffer.from(JSON.stringify(message, plain));
	const head = Buffer.alloc(4);

	if (body.length > FRAME_MAX - 65536)
		throw new Untransferable('the message is too large');
	head.writeUInt32BE(body.length);
	channel.write(Buffer.concat([head, body]));
}

// ------------------------------------------------------------------ imports

// Runs in node's own thread for such hooks. What import() finds from the current folder, as
// the REPL has it, goes before what the project has.
const RESOLVE = (from) => `export async function resolve(specifier, context, next) {
	try {
		return await next(specifier, context);
	} catch (error) {
		if (error.code !== 'ERR_MODULE_NOT_FOUND' || /^[./#]|^[a-z]+:/i.test(specifier))
			throw error;
		return next(specifier, { ...context, parentURL: ${JSON.stringify(from)} })
			.catch(() => { throw error; });
	}
}`;

// require() has NODE_PATH, which import() ignores. Node has such hooks since 18.19.
function importFromProject() {
	const { register } = require('module');
	const from = require('url').pathToFileURL(path.join(PROJECT, '/')).href;

	if (register)
		register(`data:text/javascript,${encodeURIComponent(RESOLVE(from))}`);
}

// ------------------------------------------------------------------- errors

function describeError(error) {
	const isError = util.types.isNativeError(error);
	const name = isError ? String(error.name) : typeof error;
	const text = isError ? String(error.message) : inspect(error);
	const stack = isError && typeof error.stack === 'string' ? error.stack.split('\n') : [];
	// Down to the last line of a cell; below is the REPL.
	const last = stack.findLastIndex((line) => line.includes('<cell '));
	const lines = last < 0 ? stack.filter((line) => !/^ {4}at /.test(line)) :
		stack.slice(0, last + 1).filter((line) => !/\(?node:(vm|repl|domain)\b/.test(line));

	return { name: clean(name), value: clean(cutText(text, 65536)),
		traceback: lines.slice(0, 500).map((line) => clean(cutText(line, 16384))) };
}

function guarded(work, otherwise) {
	try {
		return work();
	} catch {
		return otherwise;
	}
}

// -------------------------------------------------------------------- cells

class FinalAnswer {
	constructor(value) {
		this.value = value;
	}
}

const server = repl.start({
	prompt: '', terminal: false, useGlobal: true, breakEvalOnSigint: true,
	input: new stream.Readable({ read() {} }),
	output: new stream.Writable({ write(chunk, encoding, done) { done(); } }),
});

server.removeAllListeners('SIGINT'); // it would close after the second

// What a cell throws goes to the REPL's domain, where it has one, and not to its callback.
let thrown = () => {};
if (server._domain) {
	server._domain.removeAllListeners('error');
	server._domain.on('error', (error) => thrown(error));
}

function asSyntax(error) {
	return error instanceof repl.Recoverable ? error.err : error;
}

// An import statement, which the REPL does not take, as import().
function asDynamic(source) {
	return source.replace(
		/^([ \t]*)import\s+(?:([\w$*{}\s,]+?)\s*from\s*)?(['"][^'"\n]+['"])[ \t]*(?:;|$)/gm,
		(all, indent, what, from) => `${indent}${importNames(what, from)};`);
}

function importNames(what, from) {
	const target = `await import(${from})`;

	if (!what)
		return target;
	const [, first, rest] = /^([\w$]+)?\s*,?\s*([\s\S]*)$/.exec(what.trim());
	const star = /^\*\s*as\s+([\w$]+)$/.exec(rest);
	const names = star ? [] : rest.replace(/^\{|\}$/g, '').split(',')
		.map((n) => n.trim()).filter(Boolean).map((n) => n.replace(/\s+as\s+/, ': '));

	if (first)
		names.unshift(`default: ${first}`);
	if (!star)
		return `var { ${names.join(', ')} } = ${target}`;
	return `var ${star[1]} = ${target}` +
		(first ? `; var { default: ${first} } = ${star[1]}` : '');
}

async function evaluate(source, name) {
	const over = new Promise((resolve, reject) => {
		thrown = (error) => reject(asSyntax(error));
		// While a script runs, the REPL's own watchdog has the signal, which a
		// listener of ours would take away from it.
		process.removeAllListeners('SIGINT');
		server.eval(`${source}\n`, server.context, name, (error, value) => {
			if (error)
				reject(asSyntax(error));
			else
				resolve({ value }); // boxed: a promise is a value
		});
		process.on('SIGINT', interrupted);
	});

	try {
		return await over;
	} finally {
		thrown = loose;
	}
}

// What V8 and the REPL's own parser say of an import statement. A cell that has run, and threw
// a SyntaxError itself, runs no second time.
const WANTS_IMPORT = /outside a module|only valid in async functions|may (?:only appear|appear only)/;

async function runSource(source, name) {
	try {
		return await evaluate(source, name);
	} catch (e) {
		const changed = asDynamic(source);

		if (!(e instanceof SyntaxError) || changed === source || !WANTS_IMPORT.test(e.message))
			throw e;
		return evaluate(changed, name);
	}
}

// By await, and not by then(), which a cell may have changed.
async function pass(work, resolve, reject) {
	try {
		resolve(await work());
	} catch (e) {
		reject(e);
	}
}

// What ends a cell: its own end, an interrupt, or an error that a callback of its threw.
function inHand(work) {
	return new Promise((resolve, reject) => {
		current.fail = reject;
		pass(work, resolve, reject);
	});
}

function wasInterrupted(error) {
	return Boolean(error) && error.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED';
}

function failed(error) {
	if (error instanceof FinalAnswer)
		return { status: 'final', value: toJson(error.value), repr: inspect(error.value) };
	hasHeard = hasHeard || wasInterrupted(error);
	return { status: wasInterrupted(error) ? 'interrupted' : 'error',
		error: guarded(() => describeError(error),
			{ name: 'Error', value: '', traceback: [] }) };
}

function richForms(value, text) {
	return guarded(() => {
		const forms = value && typeof value[FORMS] === 'function' ? value[FORMS]() : null;

		return !forms || typeof forms !== 'object' ? null :
			{ 'text/plain': text, ...JSON.parse(JSON.stringify(forms)) };
	}, null);
}

function display(...values) {
	for (const value of values) {
		const text = inspect(value);

		send({ id: current && current.id, event: 'display',
			mime: richForms(value, text) || { 'text/plain': text } });
	}
}

async function execute(request) {
	const wanted = Object.entries(request.env || {});
	const old = wanted.map(([k]) => [k, process.env[k]]);
	let done;

	if (request.store !== false)
		count++;
	for (const [k, v] of wanted)
		process.env[k] = v;
	try {
		const { value } = await inHand(() => runSource(request.code, `<cell ${count}>`));
		const text = value === undefined ? null : inspect(value);

		done = { status: 'ok', repr: text, value: toJson(value),
			mime: text === null ? null : richForms(value, text) };
	} catch (e) {
		done = failed(e);
	}
	for (const [k, v] of old) {
		if (v === undefined)
			delete process.env[k];
		else
			process.env[k] = v;
	}
	return done;
}

// ---------------------------------------------------------------- the host

function callHost(name, args) {
	const call = ++lastCall;

	if (!current)
		throw new Error(`${name}() can be called only while a cell runs`);
	send({ id: current.id, event: 'call', call, name, args: toJson(args, true), kwargs: {} });
	return new Promise((resolve, reject) => calls.set(call, { resolve, reject }));
}

function checkName(name) {
	if (!/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name) || name === '__proto__')
		throw new TypeError(`${name} is no name of a variable`);
}

// Also one that a cell declared by let, which hides the global object's.
function setGlobal(name, value) {
	checkName(name);
	(0, eval)(`(value) => { ${name} = value; }`)(value);
}

function makeTool(spec) {
	checkName(spec.name);
	const tool = async (...args) => {
		const value = await callHost(spec.name, args);

		if (!spec.final)
			return value;
		current.fail(new FinalAnswer(value));
		return new Promise(() => {}); // nothing after it runs
	};

	Object.defineProperty(tool, 'name', { value: spec.name });
	setGlobal(spec.name, tool);
}

function takeAnswer(frame) {
	const waiting = calls.get(frame.call);

	calls.delete(frame.call);
	if (!waiting)
		return;
	try {
		if (frame.error)
			waiting.reject(errorOf(frame.error.name, frame.error.value));
		else
			waiting.resolve(decode(frame.value));
	} catch (e) {
		waiting.reject(e);
	}
}

// ------------------------------------------------------- commands and files

function runCommand(request) {
	const { spawn } = require('child_process');
	const [file, ...args] = request.argv;

	return inHand(() => new Promise((resolve, reject) => {
		const child = spawn(file, args, {
			cwd: request.cwd || undefined, env: { ...process.env, ...request.env },
			detached: true,
			stdio: [request.stdin == null ? 'ignore' : 'pipe', 'inherit', 'inherit'],
		});

		current.child = child;
		child.on('error', (e) => reject(Object.assign(e, {
			exitCode: e.code === 'ENOENT' ? 127 : 126 })));
		child.on('exit', (code, signal) => resolve({ status: 'ok', exit_code: signal ?
			128 + require('os').constants.signals[signal] : code }));
		if (request.stdin != null)
			child.stdin.on('error', () => {}).end(Buffer.from(request.stdin, 'base64'));
	}));
}

function putFile({ path: name, data, mode, parents = true }) {
	const bytes = Buffer.from(data, 'base64');

	if (parents)
		fs.mkdirSync(path.dirname(name), { recursive: true });
	// A pipe without a reader would hold us up.
	const fd = fs.openSync(name, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK,
		mode === undefined ? 0o644 : mode);

	try {
		fs.writeFileSync(fd, bytes);
		if (mode !== undefined)
			fs.fchmodSync(fd, mode);
	} finally {
		fs.closeSync(fd);
	}
	return { size: bytes.length };
}

function getFile(request) {
	const most = Math.min(request.max_bytes || GET_MAX, GET_MAX);
	// A pipe without a writer would hold us up.
	const fd = fs.openSync(request.path, O_RDONLY | O_NONBLOCK);

	try {
		const state = fs.fstatSync(fd);
		const parts = [];
		let have = 0, n = 1;

		if (!state.isFile())
			throw new Error(`${request.path} is no regular file`);
		// To its end: in /proc a file has the size 0. One byte more says that it goes on.
		for (; n > 0 && have <= most; have += n) {
			const part = Buffer.alloc(Math.min(most + 1 - have,
				Math.max(state.size + 1 - have, 65536)));

			n = fs.readSync(fd, part, 0, part.length, have);
			parts.push(part.subarray(0, n));
		}
		return { data: Buffer.concat(parts).subarray(0, most).toString('base64'),
			size: state.size, mode: state.mode & 0o7777, truncated: have > most };
	} finally {
		fs.closeSync(fd);
	}
}

function listFolder(request) {
	const names = fs.readdirSync(request.path).sort();

	return { truncated: names.length > ENTRIES_MAX,
		entries: names.slice(0, ENTRIES_MAX).map((name) => {
			const state = fs.lstatSync(path.join(request.path, name));
			const type = state.isFile() ? 'file' : state.isDirectory() ? 'directory' :
				state.isSymbolicLink() ? 'symlink' : 'other';

			return { name: clean(name), type, size: state.size,
				mode: state.mode & 0o7777, mtime_ms: Math.floor(state.mtimeMs) };
		}) };
}

// An interrupt was sent, and is dealt with before the next cell. libuv calls a signal's
// listener in the turn after it took the signal, at the latest. One that came as a script
// ended may be left over in node's watchdog, which would end the next script by it.
async function settle() {
	for (let i = 0; i < 3; i++)
		await new Promise((done) => { setImmediate(done); });
	if (!hasHeard)
		guarded(() => nothing.runInThisContext({ breakOnSigint: true }));
	hasHeard = false;
	return { status: 'ok' };
}

const ofFiles = (work) => async (request) => ({ status: 'ok', ...work(request) });
const OPS = {
	__proto__: null,
	execute,
	set: async (request) => {
		for (const [k, v] of Object.entries(request.values))
			setGlobal(k, decode(v));
		return { status: 'ok' };
	},
	tools: async (request) => {
		request.tools.forEach(makeTool);
		return { status: 'ok' };
	},
	settle,
	exec: runCommand, put: ofFiles(putFile), get: ofFiles(getFile), list: ofFiles(listFolder),
};

// --------------------------------------------------------------------- loop

function endCommand(child) {
	guarded(() => process.kill(-child.pid, 'SIGINT'));
	setTimeout(() => guarded(() => process.kill(-child.pid, 'SIGKILL')), 1000).unref();
}

async function answer(request) {
	const base = { id: request.id, event: 'done', status: 'ok', repr: null, value: null,
		mime: null, error: null, exit_code: null };
	let done;

	current = { id: request.id, op: request.op, fail() {} };
	try {
		done = await OPS[request.op](request);
	} catch (e) {
		done = failed(e);
		if (request.op !== 'execute')
			done.error.traceback = [];
		if (e && e.exitCode)
			done.exit_code = e.exitCode;
	}
	if (current.child && current.child.exitCode === null)
		endCommand(current.child);
	try {
		send({ ...base, ...done, execution_count: count });
	} catch (e) {
		send({ ...base, status: done.status, execution_count: count,
			value: tagged('repr', { type: 'Object', repr: '<the value is too large>' }) });
	}
	current = null;
}

function interrupted() {
	const error = new Error('Script execution was interrupted by `SIGINT`');

	error.code = 'ERR_SCRIPT_EXECUTION_INTERRUPTED';
	error.stack = `Error: ${error.message}`;
	hasHeard = true;
	if (current)
		current.fail(error);
}

// Of a callback: the cell's in hand, but a command or a file has none.
function loose(error) {
	if (current && current.op === 'execute')
		current.fail(error);
	else
		process.stderr.write(`${inspect(error)}\n`);
}

function take(frame) {
	if (Object.hasOwn(frame, 'call'))
		takeAnswer(frame);
	else
		answer(frame);
}

let held = Buffer.alloc(0);
channel.on('data', (data) => {
	held = held.length ? Buffer.concat([held, data]) : data;
	while (held.length >= 4 && held.length >= 4 + held.readUInt32BE()) {
		const size = held.readUInt32BE();
		const frame = Object.setPrototypeOf(
			JSON.parse(held.toString('utf8', 4, 4 + size)), null);

		held = held.subarray(4 + size);
		take(frame);
	}
});
channel.on('end', () => process.exit(0));
channel.on('error', () => process.exit(0));
process.on('SIGINT', interrupted);
process.on('uncaughtException', loose);
process.on('unhandledRejection', loose);
globalThis.display = display;
if (PROJECT)
	importFromProject();
process.argv[1] = '<cell>';
send({ event: 'ready', language: 'javascript', version: process.versions.node });
