// Values as typed JSON and back, as kernel_types.py has it. Part of kernel.js, in front of
// it, in the box. What JavaScript has no type for becomes the nearest: a tuple an array.
'use strict';

// A cell may overwrite a global, or declare its name, which then hides it in all scripts, and
// set what is in it: so we have our own of those.
const { Atomics, BigInt, Error, Map, Math, Number, Promise, Set, String, SyntaxError, TypeError,
	Date, process, setImmediate, setTimeout } = globalThis;
const [Array, Buffer, JSON, Object] = ['Array', 'Buffer', 'JSON', 'Object'].map((name) => ({
	__proto__: null, ...withStatics(globalThis[name]) }));

function withStatics(of) {
	const own = globalThis.Object.getOwnPropertyDescriptors(of), out = {};

	for (const name of globalThis.Object.keys(own))
		out[name] = own[name].value;
	return out;
}

const ROOM = 58;	// levels of JSON for one value; a frame has 64
const NODES_MAX = 2000000;
const BYTES_MAX = 40 << 20;
const REPR_MAX = 1 << 20;
const EXACT = 2 ** 53;

class Untransferable extends Error {}

function cutText(text, most) {
	return text.length <= most ? text :
		`${text.slice(0, most)}... [${text.length - most} characters omitted]`;
}

// Half of a surrogate pair has no UTF-8.
function clean(text) {
	return text.isWellFormed ? text.toWellFormed() :
		text.replace(/[\uD800-\uDFFF]/g, (c, at) => (isPair(text, at) ? c : '\uFFFD'));
}

function isPair(text, at) {
	const c = text.charCodeAt(at), other = text.charCodeAt(c < 0xdc00 ? at + 1 : at - 1);

	return c < 0xdc00 ? other >= 0xdc00 && other <= 0xdfff :
		other >= 0xd800 && other <= 0xdbff;
}

function inspect(value) {
	let text;

	try {
		text = inspectValue(value);
	} catch { // of the value's own [util.inspect.custom]
		try {
			text = inspectValue(value, { customInspect: false });
		} catch {
			text = '<no repr>';
		}
	}
	return clean(cutText(text, REPR_MAX));
}

function tagged(tag, v) {
	return { $t: tag, v };
}

class Encoder {
	constructor(strict) {
		this.strict = strict;
		this.nodes = this.bytes = 0;
	}

	count(size) {
		this.nodes++;
		this.bytes += size;
		if (this.nodes > NODES_MAX || this.bytes > BYTES_MAX)
			throw new Untransferable('the value is too large');
	}

	text(s) {
		this.count(s.length);
		return clean(s) === s ? s :
			tagged('str', surrogatePass(s).toString('base64'));
	}

	number(n) {
		this.count(8);
		if (Number.isNaN(n))
			return tagged('float', 'nan');
		if (!Number.isFinite(n))
			return tagged('float', n > 0 ? 'inf' : '-inf');
		if (Number.isInteger(n) && Math.abs(n) > EXACT)
			return tagged('int', BigInt(n).toString());
		return n;
	}

	items(values, room) {
		if (room < 1)
			throw new Untransferable('the value is nested too deeply');
		this.count(2);
		return Array.from(values, (v) => this.value(v, room - 1));
	}

	pairs(entries, room) {
		if (room < 2)
			throw new Untransferable('the value is nested too deeply');
		this.count(2);
		return Array.from(entries, ([k, v]) =>
			[this.value(k, room - 2), this.value(v, room - 2)]);
	}

	plain(value, room) {
		const keys = Object.keys(value), out = {};

		if (room < 1)
			throw new Untransferable('the value is nested too deeply');
		if (keys.some((k) => k === '$t' || k === '__proto__' || clean(k) !== k))
			return tagged('dict', this.pairs(Object.entries(value), room - 1));
		for (const k of keys) {
			this.count(k.length);
			out[k] = this.value(value[k], room - 1);
		}
		return out;
	}

	blob(data) {
		this.count(data.length * 4 / 3);
		return tagged('bytes', Buffer.from(data).toString('base64'));
	}

	object(value, room) {
		const proto = Object.getPrototypeOf(value);

		if (Array.isArray(value))
			return this.items(value, room);
		if (util.types.isUint8Array(value))
			return this.blob(value);
		if (util.types.isMap(value))
			return tagged('dict', this.pairs(value, room - 1));
		if (util.types.isSet(value))
			return tagged('set', this.items(value, room - 1));
		if (util.types.isDate(value) && !Number.isNaN(value.getTime()))
			return tagged('datetime', value.toISOString().replace('Z', '+00:00'));
		if (util.types.isNativeError(value))
			return tagged('exception', { name: clean(String(value.name)),
				value: this.text(String(value.message)) });
		return proto === null || proto === Object.prototype ?
			this.plain(value, room) : null;
	}

	value(v, room) {
		let out = null;

		if (v === null || v === undefined || typeof v === 'boolean')
			return v === undefined ? null : v;
		if (typeof v === 'string')
			return this.text(v);
		if (typeof v === 'number')
			return this.number(v);
		if (typeof v === 'bigint') {
			this.count(v.toString(16).length);
			return tagged('int', v.toString());
		}
		if (typeof v === 'object')
			out = this.object(v, room);
		if (out !== null)
			return out;
		if (this.strict)
			throw new Untransferable(`a ${typeof v} cannot cross`);
		return asRepr(v);
	}
}

function asRepr(v) {
	const kind = v && v.constructor && typeof v.constructor.name === 'string' ?
		v.constructor.name : typeof v;

	return tagged('repr', { type: clean(kind), repr: inspect(v) });
}

// As Python writes it: three bytes for each half.
function surrogatePass(s) {
	const parts = [];

	for (const c of s) {
		const n = c.codePointAt(0);

		parts.push(n < 0xd800 || n > 0xdfff ? Buffer.from(c) :
			Buffer.from([0xe0 | n >> 12, 0x80 | n >> 6 & 63, 0x80 | n & 63]));
	}
	return Buffer.concat(parts);
}

function toJson(value, strict = false) {
	try {
		return new Encoder(strict).value(value, ROOM);
	} catch (e) {
		if (strict)
			throw new TypeError(`the value cannot cross: ${e.message}`);
		return asRepr(value);
	}
}

function decodePairs(v) {
	const pairs = v.map(([k, x]) => [decode(k), decode(x)]);

	return pairs.every(([k]) => typeof k === 'string') ?
		Object.fromEntries(pairs) : new Map(pairs);
}

function decodeInteger(v) {
	const n = BigInt(v);

	return n >= -BigInt(EXACT) && n <= BigInt(EXACT) ? Number(n) : n;
}

const decodeAll = (v) => v.map(decode);
const decodeBytes = (v) => Buffer.from(v, 'base64');
const DECODE = {
	__proto__: null,
	dict: decodePairs, OrderedDict: decodePairs,
	tuple: decodeAll, set: (v) => new Set(decodeAll(v)),
	frozenset: (v) => new Set(decodeAll(v)),
	bytes: decodeBytes, bytearray: decodeBytes, int: decodeInteger,
	float: (v) => ({ nan: NaN, inf: Infinity, '-inf': -Infinity })[v],
	datetime: (v) => new Date(v), date: (v) => new Date(v),
	Decimal: String, Path: String, UUID: String, time: String,
	range: ([from, to, step]) => Array.from(
		{ length: Math.max(0, Math.ceil((to - from) / step)) }, (x, i) => from + i * step),
	enum: (v) => decode(v.value),
	namedtuple: (v) => Object.fromEntries(v.fields.map((f, i) => [f, decode(v.values[i])])),
	dataclass: (v) => Object.fromEntries(
		Object.entries(v.fields).map(([k, x]) => [k, decode(x)])),
	deque: (v) => decodeAll(v.items),
	exception: (v) => errorOf(v.name, v.value),
};

function errorOf(name, text) {
	const error = new Error(text);

	Object.defineProperty(error, 'name', { value: String(name), configurable: true });
	return error;
}

function decode(value) {
	if (Array.isArray(value))
		return decodeAll(value);
	if (value === null || typeof value !== 'object')
		return value;
	if (!Object.hasOwn(value, '$t'))
		return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, decode(v)]));
	if (!DECODE[value.$t])
		throw new TypeError(`a value with the tag ${value.$t} cannot be taken over`);
	return DECODE[value.$t](value.v);
}
