// Worker threads that share memory, and files: written, listed, hashed, removed.
//
//     nsbox code examples/workers.js
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');

const SIZE = 40000;
const WORKERS = 4;

function isPrime(n) {
	if (n < 2)
		return false;
	for (let d = 2; d * d <= n; d++)
		if (n % d === 0)
			return false;
	return true;
}

function work() {
	const flags = new Uint8Array(workerData.shared);
	let count = 0;

	for (let n = workerData.from; n < workerData.to; n++)
		if (isPrime(n)) {
			Atomics.store(flags, n, 1);
			count++;
		}
	parentPort.postMessage(count);
}

function startWorker(shared, i) {
	const step = SIZE / WORKERS;
	const worker = new Worker(__filename, {
		workerData: { shared, from: i * step, to: (i + 1) * step },
	});

	return new Promise((resolve, reject) => {
		worker.once('message', resolve);
		worker.once('error', reject);
	});
}

async function main() {
	const shared = new SharedArrayBuffer(SIZE);
	const jobs = Array.from({ length: WORKERS }, (_, i) => startWorker(shared, i));
	const counts = await Promise.all(jobs);
	const folder = fs.mkdtempSync(path.join(process.cwd(), 'primes-'));

	console.log('primes by worker:', counts.join(' '));
	fs.writeFileSync(path.join(folder, 'flags.bin'), Buffer.from(shared));
	fs.writeFileSync(path.join(folder, 'counts.json'), JSON.stringify(counts));
	for (const name of fs.readdirSync(folder).sort()) {
		const data = fs.readFileSync(path.join(folder, name));
		const hash = crypto.createHash('sha256').update(data).digest('hex');

		console.log(name, data.length, hash.slice(0, 16));
	}
	fs.rmSync(folder, { recursive: true });
	console.log('total:', new Uint8Array(shared).reduce((a, b) => a + b, 0));
}

if (isMainThread)
	main();
else
	work();
