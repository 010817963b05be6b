// Says whether a source parses, without running it. Runs in the box, alone (tier static).
// lang_check.c writes the settings in front of this text: NAME, SOURCE, and KIND, which is
// "module", "commonjs" or null where the file's name does not say.
// The report goes to descriptor 3: a word, a sentence, then one JSON object, a line each.
// Must: judge as node does: CommonJS first, an ES module when only that parses.
'use strict';
const fs = require('fs');
const vm = require('vm');

const MAX_IMPORTS = 1000, MAX_TEXT = 500;

function first(text, limit = MAX_TEXT) {
	return typeof text === 'string' && text.length > limit ? text.slice(0, limit) + '...' : text;
}

// The compiler reports where on the first lines of the stack: "<code>:3", the line, a caret.
function where(error) {
	const lines = String(error.stack).split('\n');
	const at = /^(.*):(\d+)$/.exec(lines[0]);

	if (!at || at[1] !== NAME)
		return { line: null, column: null, text: null };
	const caret = (lines[2] || '').indexOf('^');
	return { line: Number(at[2]), column: caret < 0 ? null : caret + 1, text: first(lines[1]) };
}

function errorOf(error) {
	return { type: error.name, message: first(String(error.message)), ...where(error),
		 end_line: null, end_column: null };
}

function asScript(text) {
	// The wrapper adds nothing before the first line but on it: columns are corrected.
	const head = '(function (exports, require, module, __filename, __dirname) { ';

	new vm.Script(head + text.replace(/^#!.*/, '') + '\n})', { filename: NAME, columnOffset: -head.length });
	return [];
}

function asModule(text) {
	const m = new vm.SourceTextModule(text.replace(/^#!.*/, ''), { identifier: NAME });

	return m.dependencySpecifiers || m.moduleRequests.map((r) => r.specifier);
}

function examine(text) {
	const ways = { commonjs: [asScript], module: [asModule] }[KIND] || [asScript, asModule];
	let error = null;

	for (const way of ways) {
		try {
			return { error: null, imports: way(text) };
		} catch (e) {
			error = error || e;
			// What a module may have and a script may not: its own words are better.
			if (way === asModule && /import|export|await/.test(String(error.message)))
				error = e;
		}
	}
	return { error: errorOf(error), imports: [] };
}

const { error, imports } = examine(fs.readFileSync(SOURCE, 'utf8').replace(/^\uFEFF/, ''));
const analysis = {
	language: 'javascript', ok: !error, error,
	imports: imports.slice(0, MAX_IMPORTS).map((m) => (
		{ module: first(m, 256), names: [], line: null, level: 0 })),
	imports_truncated: imports.length > MAX_IMPORTS, unauthorized: [], ast: null,
	ast_truncated: false,
};
const sentence = !error ? 'the source parses' : 'Parse failed.' +
	(error.line ? ` Line ${error.line}: ${error.message}` : ` ${error.message}`);
let report = Buffer.from(`${error ? 'parse_failed' : 'ok'}\n` +
	`${sentence.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '?')}\n${JSON.stringify(analysis)}\n`);

while (report.length)
	report = report.subarray(fs.writeSync(3, report));
